"""How fast a plane is answered, beside OPA's own server with the same rules."""

import http.client
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from benchmarks.latency.machine import tree_cpu_s
from benchmarks.report import ROOT, print_table
from gateway.policy.toolchain import find_opa
from gateway.processes import end_now
from tests.e2e.planes import ReferencePlane, key_of, registered
from tests.e2e.scripted import raw_in_a_thread
from tests.e2e.site import SERVERS
from tests.running import rules_in, running_gateway
from tests.servers.process import free_port

_ITEMS: Final = 100
_CONNECTIONS: Final = 8
_UNMEASURED: Final = 0.1
"""Of the whole: what comes first."""
_MOST: Final = 3_000
"""Decisions: of one principal some thousand calls can be without a result, and whatever comes then is a no.
What comes first and unmeasured counts for that as well, and a batch is a hundred at once."""
_NAMES: Final = ("opa", "gateway", "gateway.batch")


def measured(seconds: float) -> tuple[Mapping[str, float], list[str]]:
    """Return how many decisions a second each gives, and how long one takes; and what is too slow."""
    with tempfile.TemporaryDirectory() as folder:
        figures = {**_of_opa(Path(folder), seconds), **_of_gateway(Path(folder), seconds)}
    of_opa = figures["opa.cpu_us"]
    figures |= {f"{name}.cpu_x_opa": figures[f"{name}.cpu_us"] / of_opa for name in _NAMES}
    print_table(
        ("who answers", "decisions/s", "p99 ms", "CPU us/decision", "of OPA's"),
        [_row(name, figures) for name in _NAMES],
    )
    slower = figures["gateway.decisions_s"] < figures["opa.decisions_s"]
    return figures, ["an evaluation is slower than at OPA's server"] if slower else []


def _row(name: str, figures: Mapping[str, float]) -> tuple[str | float, ...]:
    told = ("decisions_s", 0), ("p99_ms", 1), ("cpu_us", 0), ("cpu_x_opa", 2)
    return name, *(round(figures[f"{name}.{figure}"], digits) for figure, digits in told)


def _of_opa(folder: Path, seconds: float) -> Mapping[str, float]:
    rules = folder / "opa"
    shutil.copytree(
        ROOT / "policies", rules, ignore=shutil.ignore_patterns("*_test.rego", "cases", "*.json")
    )
    base = yaml.safe_load((ROOT / "policies" / "cases" / "base.yaml").read_text())
    (rules / "config.json").write_text(json.dumps({"douane": {"config": base["config"]}}))
    body = json.dumps({"input": base["input"]}).encode()
    with _opa_server(rules) as (port, pid):
        return _measured("opa", (port, "/v1/data/douane/decision", pid), body, {}, seconds)


@contextmanager
def _opa_server(rules: Path) -> Iterator[tuple[int, int]]:
    """Yield the port of OPA's own server, and its process."""
    port = free_port()
    words = [
        str(find_opa().binary),
        "run",
        "--server",
        "--log-level=error",
        f"--addr=127.0.0.1:{port}",
    ]
    process = subprocess.Popen([*words, str(rules)])
    try:
        _until_there(port)
        yield port, process.pid
    finally:
        end_now(process, grace_s=5)


def _until_there(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            connection.getresponse().read()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("OPA's server did not come up")


def _of_gateway(folder: Path, seconds: float) -> Mapping[str, float]:
    plane = {
        "servers": {"raw": "raw"},
        "subjects": "vouched",
        "groups": "roles",
        "report_within": "1h",
    }
    with (
        raw_in_a_thread() as raw,
        running_gateway(
            folder / "gateway",
            {"raw": {"url": raw.url, **SERVERS["raw"]}},
            policies=rules_in(folder / "rules"),
            audit={"deadline": "60s"},  # on a busy machine a record may be late, and that is a no
            limits={"calls_per_minute": 10_000_000},
            pins={"recheck": "1h", "fresh": "1h"},
            planes={"authzen": registered(folder, edge=plane)},
        ) as running,
    ):
        running.approve_all("raw")
        port = urlsplit(running.url).port or 0
        headers = {"authorization": f"Bearer {key_of('edge')}"}

        def asked(name: str, path: str, *, items: int = 1) -> Mapping[str, float]:
            asks = ReferencePlane(url=running.url, name="edge", subject=name)
            question = asks.question("allowed", {"text": "x"})
            assert asks.post(question).decision
            whole = question if items == 1 else {**question, "evaluations": [{}] * items}
            body = json.dumps(whole).encode()
            at = port, f"/access/v1/{path}", running.process.pid
            return _measured(name, at, body, headers, seconds, items=items, most=_MOST)

        return {
            **asked("gateway", "evaluation"),
            **asked("gateway.batch", "evaluations", items=_ITEMS),
        }


def _measured(
    name: str,
    at: tuple[int, str, int],
    body: bytes,
    headers: Mapping[str, str],
    seconds: float,
    *,
    items: int = 1,
    most: int | None = None,
) -> Mapping[str, float]:
    """Ask over all connections for so long, and `most` times in all, after a tenth of that unmeasured.

    A gateway has to say yes each time: a no is quicker. What the answers have taken of the processor is
    that of the whole process: no other one's load is in it, but for what caches and cores lose by that.
    """
    port, path, pid = at
    sent = {"content-type": "application/json", **headers}
    share = sys.maxsize if most is None else most // items // _CONNECTIONS

    def ask(part: float) -> list[float]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        took: list[float] = []
        end = time.perf_counter() + seconds * part
        while (begun := time.perf_counter()) < end and len(took) < share * part:
            connection.request("POST", path, body, sent)
            answer = connection.getresponse()
            told: Any = answer.read()
            if answer.status != HTTPStatus.OK:
                raise RuntimeError(f"{name}: {answer.status} {told[:200]!r}")
            if most is not None and told.count(b'"decision":true') != items:
                raise RuntimeError(f"{name}: not each answer is a yes: {told[:200]!r}")
            took.append(time.perf_counter() - begun)
        return took

    with ThreadPoolExecutor(_CONNECTIONS) as threads:
        list(threads.map(ask, [_UNMEASURED] * _CONNECTIONS))
        begun, used = time.perf_counter(), tree_cpu_s(pid)
        every = sorted(t for took in threads.map(ask, [1.0] * _CONNECTIONS) for t in took)
        lasted, used = time.perf_counter() - begun, tree_cpu_s(pid) - used
    return {
        f"{name}.cpu_us": used / (len(every) * items) * 1e6,
        f"{name}.decisions_s": len(every) * items / lasted,
        f"{name}.p50_ms": every[len(every) // 2] * 1e3,
        f"{name}.p99_ms": every[min(len(every) - 1, int(len(every) * 0.99))] * 1e3,
    }

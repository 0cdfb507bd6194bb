"""`make planes-report`: what a plane is answered ends as it does in the path, and how fast it is.

Attacks and recorded tasks are carried by the gateway and by a reference plane that asks it, and are
compared; decisions are counted beside OPA's own server with the same rules.
"""

import argparse
import http.client
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from benchmarks.planes.attacks import played
from benchmarks.planes.flow import measured
from benchmarks.report import print_table, write_report
from gateway.policy.toolchain import find_opa
from gateway.processes import end_now
from tests.e2e.planes import ReferencePlane, key_of, registered
from tests.e2e.scripted import raw_in_a_thread
from tests.e2e.site import SERVERS
from tests.running import rules_in, running_gateway
from tests.servers.process import ROOT, free_port

LIMITS = (
    "both servers and who asks them share one machine, and whoever asks is Python",
    "OPA is asked a question that is ready made; the gateway makes it, and writes two durable rows at once",
    "of attacks on headers, framing and sessions a plane's are its own, and are not compared",
    "no report follows, so all questions but the first are judged in a run that owes",
)
ITEMS = 100


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make planes-report", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--most", type=int, help="play no more traces of a suite")
    parser.add_argument("--declared", type=int, choices=(0, 1), default=0)
    plan = parser.parse_args(arguments)
    alike, unlike = _alike(plan)
    with tempfile.TemporaryDirectory() as folder:
        figures = {**_of_opa(Path(folder), plan), **_of_gateway(Path(folder), plan)}
    names = ("opa", "gateway", "gateway.batch")
    print_table(
        ("who answers", "decisions/s", "p99 ms"),
        [(n, round(figures[f"{n}.decisions_s"]), round(figures[f"{n}.p99_ms"], 1)) for n in names],
    )
    slower = figures["gateway.decisions_s"] < figures["opa.decisions_s"]
    failures = [*unlike, *(["an evaluation is slower than at OPA's server"] if slower else [])]
    ratio = figures["gateway.decisions_s"] / figures["opa.decisions_s"]
    summary = (
        f"{len(unlike)} of {alike['attacks.by_plane']:.0f} attacks and {alike['flow.calls']:.0f} "
        f"recorded calls end otherwise by a plane; {ratio:.2f} times the decisions of OPA's own server"
    )
    return write_report("planes", {**alike, **figures}, failures, LIMITS, summary=summary)


def _alike(plan: argparse.Namespace) -> tuple[Mapping[str, float], list[str]]:
    """Return how much was carried both ways, and what did not end alike."""
    attacks, failures = played()
    suites = measured(most=plan.most, declared=bool(plan.declared))
    print_table(
        ("suite", "calls", "refused", "harm", "of the gateway", "unlike"),
        [
            (one.suite, one.calls, one.refused, one.harm, one.harm_of_gateway, one.unlike.total())
            for one in suites
        ],
    )
    figures = {name: figure for one in suites for name, figure in one.figures.items()}
    figures["flow.calls"] = sum(one.calls for one in suites)
    return {**attacks, **figures}, [*failures, *(f for one in suites for f in one.failures)]


def _of_opa(folder: Path, plan: argparse.Namespace) -> Mapping[str, float]:
    rules = folder / "opa"
    shutil.copytree(
        ROOT / "policies", rules, ignore=shutil.ignore_patterns("*_test.rego", "cases", "*.json")
    )
    base = yaml.safe_load((ROOT / "policies" / "cases" / "base.yaml").read_text())
    (rules / "config.json").write_text(json.dumps({"douane": {"config": base["config"]}}))
    body = json.dumps({"input": base["input"]}).encode()
    with _opa_server(rules) as port:
        return _measured("opa", (port, "/v1/data/douane/decision"), body, {}, plan)


@contextmanager
def _opa_server(rules: Path) -> Iterator[int]:
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
        yield port
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


def _of_gateway(folder: Path, plan: argparse.Namespace) -> Mapping[str, float]:
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
            limits={"calls_per_minute": 10_000_000},
            pins={"recheck": "1h", "fresh": "1h"},
            planes={"authzen": registered(folder, edge=plane)},
        ) as running,
    ):
        running.approve_all("raw")
        asks = ReferencePlane(url=running.url, name="edge")
        question = asks.question("allowed", {"text": "x"})
        assert asks.post(question).decision
        port = urlsplit(running.url).port or 0
        headers = {"authorization": f"Bearer {key_of('edge')}"}
        one, many = "/access/v1/evaluation", "/access/v1/evaluations"
        batch = json.dumps({**question, "evaluations": [{}] * ITEMS}).encode()
        single = json.dumps(question).encode()
        return {
            **_measured("gateway", (port, one), single, headers, plan),
            **_measured("gateway.batch", (port, many), batch, headers, plan, items=ITEMS),
        }


def _measured(
    name: str,
    at: tuple[int, str],
    body: bytes,
    headers: Mapping[str, str],
    plan: argparse.Namespace,
    *,
    items: int = 1,
) -> Mapping[str, float]:
    """Ask over all connections for as long as is planned, after a tenth of that unmeasured."""
    port, path = at
    sent = {"content-type": "application/json", **headers}

    def ask(seconds: float) -> list[float]:
        connection, took = http.client.HTTPConnection("127.0.0.1", port, timeout=60), []
        end = time.perf_counter() + seconds
        while (begun := time.perf_counter()) < end:
            connection.request("POST", path, body, sent)
            answer = connection.getresponse()
            told: Any = answer.read()
            if answer.status != HTTPStatus.OK:
                raise RuntimeError(f"{name}: {answer.status} {told[:200]!r}")
            took.append(time.perf_counter() - begun)
        return took

    with ThreadPoolExecutor(plan.connections) as threads:
        list(threads.map(ask, [plan.seconds / 10] * plan.connections))
        begun = time.perf_counter()
        every = sorted(
            t for took in threads.map(ask, [plan.seconds] * plan.connections) for t in took
        )
        lasted = time.perf_counter() - begun
    return {
        f"{name}.decisions_s": len(every) * items / lasted,
        f"{name}.p50_ms": every[len(every) // 2] * 1e3,
        f"{name}.p99_ms": every[min(len(every) - 1, int(len(every) * 0.99))] * 1e3,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

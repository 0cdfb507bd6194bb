"""A real gateway hands on every record, across kill -9 and a collector that is away or slow."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.running import DOUANE, Running, running_gateway
from tests.servers.process import ROOT, free_ports

SECRET = "Bearer a-secret-of-the-collector"


class Collector:
    """Takes what it is sent, as it is told to."""

    def __init__(self) -> None:
        self.mode = "ok"
        self.bodies: list[bytes] = []
        self.notes: list[str] = []
        self.refused = 0
        self.poison: set[int] = set()
        self.authorized = True

    def answer(self, path: str, body: bytes, authorization: str | None) -> tuple[int, bytes]:
        if self.mode == "refuse":
            self.refused += 1
            return 503, b""
        if path == "/notes":
            self.notes.append(body.decode())
            return 204, b""
        self.authorized &= authorization == SECRET
        if any(json.loads(line)["leaf_index"] in self.poison for line in body.splitlines()):
            return 400, b"no mapping for this field"
        self.bodies.append(body)
        if self.mode == "slow":  # taken, but the word of it comes too late or never
            time.sleep(0.3)
        return 200, b"{}"

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for body in list(self.bodies) for line in body.splitlines()]


@contextmanager
def collecting() -> Iterator[tuple[Collector, str]]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, said = collector.answer(self.path, body, self.headers.get("authorization"))
            with suppress(OSError):
                self.send_response(status)
                if status == 503:
                    self.send_header("retry-after", "1")
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield collector, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def gateway_in(folder: Path, ports: tuple[int, int], url: str) -> Iterator[Running]:
    audit = {
        "export": {
            "siem": {
                "format": "jsonl",
                "url": f"{url}/records",
                "headers": {"Authorization": "env:COLLECTOR"},
                "batch": 7,
            },
            "disk": {"format": "ocsf", "file": str(folder / "out.ocsf"), "rotate": 10_000},
        },
        "checkpoints": {"file": str(folder / "notes.jsonl"), "url": f"{url}/notes"},
    }
    environment = {"COLLECTOR": SECRET}
    with running_gateway(
        folder, {}, ports=ports, environment=environment, audit=audit, alerts={"baselines": "off"}
    ) as gateway:
        yield gateway


def cause(gateway: Running, count: int) -> None:
    """Have so many refusals recorded."""
    for _ in range(count):
        request = urllib.request.Request(
            f"{gateway.url}/mcp",
            b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
            {"content-type": "application/json", "accept": "application/json, text/event-stream"},
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        refused.value.close()
        assert refused.value.code in {401, 429}


def kill(gateway: Running) -> None:
    os.kill(gateway.process.pid, signal.SIGKILL)
    gateway.process.wait()


def until(condition: Callable[[], bool], patience_s: float = 90) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def exports(gateway: Running) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in gateway.rows("audit", "exports")}


def behind(gateway: Running) -> float:
    return sum(
        metric(gateway, "douane_audit_follower_lag_records", name)
        for name in ("export siem", "export disk")
    )


def readyz(gateway: Running) -> dict[str, Any]:
    with urllib.request.urlopen(f"{gateway.admin_url}/readyz", timeout=60) as answer:
        told: dict[str, Any] = json.load(answer)
        return told


def metric(gateway: Running, name: str, follower: str) -> float:
    with urllib.request.urlopen(f"{gateway.admin_url}/metrics", timeout=60) as answer:
        page = answer.read().decode()
    start = f'{name}{{follower="{follower}"}} '
    (line,) = [line for line in page.splitlines() if line.startswith(start)]
    return float(line.removeprefix(start))


def on_disk(folder: Path) -> list[dict[str, Any]]:
    files = [*sorted(folder.glob("out.ocsf.*")), folder / "out.ocsf"]
    return [
        json.loads(line)["unmapped"] for file in files for line in file.read_text().splitlines()
    ]


def noted(folder: Path) -> set[str]:
    """Return the checkpoints that stand in a file by now."""
    lines = (folder / "notes.jsonl").read_text().splitlines(keepends=True)
    return {json.loads(line)["checkpoint"] for line in lines if line.endswith("\n")}


def test_nothing_is_lost_over_kills_and_a_collector_that_fails(tmp_path: Path) -> None:
    ports = free_ports()
    with collecting() as (collector, url):
        collector.mode = "refuse"
        with gateway_in(tmp_path, ports, url) as gateway:
            cause(gateway, 15)
            until(lambda: collector.refused > 1)
            assert readyz(gateway)["export siem"] == "it answers with status 503"
            assert readyz(gateway)["status"] == "ready"
            assert metric(gateway, "douane_audit_follower_failing", "export siem") == 1
            assert metric(gateway, "douane_audit_follower_lag_records", "export siem") > 10
            row = exports(gateway)["export siem"]
            assert (row["state"], row["done"]) == ("failing", -1)
            kill(gateway)
        assert collector.bodies == []
        collector.mode = "slow"
        with gateway_in(tmp_path, ports, url) as gateway:
            cause(gateway, 15)
            until(lambda: len(collector.bodies) > 1)
            kill(gateway)
        collector.mode = "ok"
        with gateway_in(tmp_path, ports, url) as gateway:
            until(lambda: behind(gateway) == 0)
            assert not {"export siem", "export disk"} & readyz(gateway).keys()
            cause(gateway, 2)  # what is full is put aside once there is more
            exported = gateway.douane("audit", "export").stdout.splitlines()
            whole = {record["leaf_index"]: record for record in map(json.loads, exported)}
            newest = max(whole)
            names = ("export siem", "export disk")
            until(lambda: min(exports(gateway)[name]["done"] for name in names) >= newest)
            assert {one["state"] for one in exports(gateway).values()} == {"ok"}
            assert SECRET not in gateway.log
            # They leave by two ways, neither of which waits for the other.
            sent = set(collector.notes)
            until(lambda: sent <= noted(tmp_path))
            assert sent
        for got in (collector.records, on_disk(tmp_path)):
            by_place: dict[int, dict[str, Any]] = {}
            for record in got:  # what comes twice is known by its id, and is the same
                assert by_place.setdefault(record["leaf_index"], record) == record
            assert sorted(by_place)[: newest + 1] == list(range(newest + 1))
            assert all(whole[index] == by_place[index] for index in range(newest + 1))
        assert collector.authorized
        assert len(list(tmp_path.glob("out.ocsf.*"))) >= 1
        checked = gateway.douane("audit", "verify", "--checkpoint", str(tmp_path / "notes.jsonl"))
        assert checked.returncode == 0, checked.stdout


def test_an_export_is_verified_where_there_is_no_gateway(tmp_path: Path) -> None:
    ports = free_ports()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with collecting() as (_, url), gateway_in(tmp_path / "gateway", ports, url) as gateway:
        cause(gateway, 12)
        (key,) = [row for row in gateway.rows("keys", "list") if row["use"] == "audit"]
        asked = ("--where", "kind = auth")
        chosen = gateway.douane("audit", "export", "--format", "bundle", *asked)
        csv = gateway.douane("audit", "export", "--format", "csv", *asked)
    assert (chosen.returncode, csv.returncode) == (0, 0), chosen.stderr + csv.stderr
    assert len(csv.stdout.splitlines()) == 1 + 12

    def verified(content: str, *command: str) -> "subprocess.CompletedProcess[str]":
        file = elsewhere / "export"
        file.write_text(content)
        return subprocess.run(
            [*command, str(file), "--key", key["public"]],
            cwd=elsewhere,
            env={},
            capture_output=True,
            text=True,
            check=False,
        )

    ours = (sys.executable, DOUANE, "audit", "verify", "--export")
    theirs = (sys.executable, "-I", str(ROOT / "docs" / "verify_export.py"))
    changed = chosen.stdout.replace("unauthenticated", "authenticated", 1)
    for command, said in ((ours, "12 records, "), (theirs, "what was signed: 12 records")):
        told = verified(chosen.stdout, *command)
        assert (told.returncode, said in told.stdout) == (0, True), told.stdout + told.stderr
    told = verified(changed, *theirs)
    assert (told.returncode, "was changed" in told.stdout) == (1, True)


def test_one_record_that_is_refused_is_passed_over_by_a_person_alone(tmp_path: Path) -> None:
    ports = free_ports()
    with collecting() as (collector, url):
        collector.poison = {3}
        with gateway_in(tmp_path, ports, url) as gateway:
            cause(gateway, 12)
            until(lambda: exports(gateway)["export siem"]["refused"] == 3)
            row = exports(gateway)["export siem"]
            assert (row["state"], row["error"]) == (
                "failing",
                "record 3 is refused: it answers with status 400",
            )
            assert row["answer"] == "status 400: no mapping for this field"
            assert "mapping" not in readyz(gateway)["export siem"]
            assert [record["leaf_index"] for record in collector.records] == [0, 1, 2]
            skip = ("audit", "exports", "--skip", "export siem", "--leaf")
            assert gateway.douane(*skip, "2").returncode != 0
            (told,) = gateway.rows(*skip, "3")
            assert told == {"name": "export siem", "state": "skipped", "leaf_index": 3}
            assert exports(gateway)["export siem"]["done"] >= 3
            kill(gateway)  # it is passed over for good
        with gateway_in(tmp_path, ports, url) as gateway:
            until(lambda: behind(gateway) == 0)
            places = {record["leaf_index"] for record in collector.records}
            newest = max(places)
            assert places == {*range(newest + 1)} - {3}
            (record,) = [one for one in collector.records if one.get("code") == "skipped"]
            assert record["evidence"] == {"leaf_index": 3}

"""The whole measurement, as short as it can be. Nothing here asserts how long anything takes."""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest

from benchmarks.latency import growth
from benchmarks.latency.fastmcp_proxy import FORMS
from benchmarks.latency.figures import correctness, row
from benchmarks.latency.load import call
from benchmarks.latency.machine import busy_cpu_s, fsync_us, tree_cpu_s
from benchmarks.latency.report import Plan, figures_of, measure, report, unrecorded
from benchmarks.latency.targets import ANSWERS, VARIANTS, Target
from benchmarks.latency.upstream import Shape, answer, shape_of
from tests.servers.process import NGINX

PLAN = Plan(rounds=1, seconds=1, connections=(1,))
FASTMCP = (*(f"fastmcp-{form}" for form in FORMS), "fastmcp-shared-sessions")
SHAPED = ("process", "process-sessions")
BESIDE = ("direct", "nginx", "fastmcp-shared", "fastmcp-shared-sessions")
GATEWAYS = (
    *(variant.name for variant in VARIANTS),
    *("process-sessions", "process-front"),
    *(f"{name}@{shape.name}" for name in SHAPED for shape in ANSWERS),
)
NAMES = (
    *("direct", "nginx", "bare", *FASTMCP, *GATEWAYS),
    *(f"{name}@{shape.name}" for name in BESIDE for shape in ANSWERS),
)

needs_wrk = pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
needs_nginx = pytest.mark.skipif(not NGINX, reason="nginx is not installed")


@needs_wrk
@needs_nginx
@pytest.mark.timeout(400)
@pytest.mark.full
def test_one_run_has_every_figure_and_right_answers_and_both_records_of_each_call(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
):
    measured = measure(PLAN, tmp_path_factory.mktemp("bench"))

    rows = [row(*of, windows) for of, windows in measured.windows.items()]
    assert {(one.name, one.connections) for one in rows} == {(name, 1) for name in NAMES}
    assert correctness(rows) == []

    assert set(measured.records) == set(GATEWAYS)
    assert unrecorded(measured) == []

    status = report(measured, tmp_path)
    written = json.loads((tmp_path / "bench.json").read_text())
    figures = written["figures"]
    assert figures == figures_of(measured)
    assert {f"{name}.c1.p50_us" for name in NAMES} <= set(figures)
    assert all(type(found) in (int, float) for found in figures.values())
    assert status == (1 if written["failures"] else 0)
    lines = capsys.readouterr().out.splitlines()
    tables = [line[:20] for line in lines if "connections" in line]
    shapes = ("small", *(shape.name for shape in ANSWERS))
    assert tables == [f"1 connections, {shape} answers"[:20] for shape in shapes]
    assert lines[-1].startswith("bench: process.c1.added_p50_x_nginx ")


@needs_wrk
@pytest.mark.timeout(300)
@pytest.mark.full
def test_growth_has_a_row_for_each_number_of_tools_and_people(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
):
    plan = growth.Plan(rounds=1, seconds=1, connections=(1,), tools=(2,), people=(3,))
    found = growth.measure(plan, tmp_path_factory.mktemp("growth"))
    assert growth.report(found) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line] == ["what", "tools-2", "people-3"]


class Liar(BaseHTTPRequestHandler):
    """Answers every call alike."""

    protocol_version = "HTTP/1.1"
    body = b'{"id":1,"result":{"content":[{"type":"text","text":"ok 1 1"}]}}'

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def liar() -> Iterator[Target]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Liar) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Target(name="liar", url=f"http://127.0.0.1:{server.server_port}/mcp")
        server.shutdown()
        thread.join()


@needs_wrk
def test_an_answer_to_another_call_is_counted_as_wrong(liar: Target):
    window = call(liar, 2, 1)
    assert window.calls > 0
    # What was under way when time was up may have been looked at as well.
    assert window.calls <= window.wrong <= window.calls + 2
    assert window.example == f"200 {Liar.body.decode()}"


def test_the_echo_server_answers_what_proxies_ask():
    def asked(method: str, **params: object) -> object:
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        found = orjson.loads(answer(orjson.dumps(message)) or b"null")
        assert (found["jsonrpc"], found["id"]) == ("2.0", 7)
        return found.get("result", found.get("error"))

    assert asked("tools/call", name="echo", arguments={"text": "a"}) == {
        "content": [{"type": "text", "text": "ok a"}],
        "isError": False,
        "resultType": "complete",
    }
    assert asked("initialize", protocolVersion="2025-11-25") == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "echo", "version": "1"},
    }
    assert asked("ping") == {}
    assert asked("prompts/list") == {"code": -32601, "message": "no such method"}
    assert answer(b'{"jsonrpc":"2.0","method":"notifications/initialized"}') is None


def test_the_path_says_what_the_echo_servers_answers_look_like():
    assert shape_of(b"/mcp") == Shape()
    assert shape_of(b"/mcp/b1024/streamed") == Shape(octets=1024, streamed=True)
    assert shape_of(b"/mcp/t100") == Shape(tools=100)

    def asked(method: str, shape: Shape) -> object:
        params = {"name": "echo", "arguments": {"text": "a"}}
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        return orjson.loads(answer(orjson.dumps(message), shape) or b"null")["result"]

    called = asked("tools/call", Shape(octets=1024))
    assert isinstance(called, dict)
    text = called["content"][0]["text"]
    assert text.startswith("ok a ")
    assert len(text) == 1025
    listed = asked("tools/list", Shape(tools=300))
    assert isinstance(listed, dict)
    assert len({tool["name"] for tool in listed["tools"]}) == 250
    assert listed["nextCursor"] == "250"


def test_the_cpu_time_of_a_process_is_that_of_its_descendants_too():
    child = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    busy = busy_cpu_s()
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        assert tree_cpu_s(process.pid) >= 0.3
        assert tree_cpu_s(process.pid, alone=True) < tree_cpu_s(process.pid)
        assert busy_cpu_s() - busy >= 0.2
        process.communicate(b"\n")


def test_measuring_fsync_leaves_nothing_behind(tmp_path: Path):
    assert fsync_us(tmp_path, times=3) > 0
    assert list(tmp_path.iterdir()) == []

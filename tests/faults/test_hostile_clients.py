"""Connections that are slow, idle, too many or too large; those who behave are served meanwhile."""

import asyncio
import contextlib
import gzip
import http.client
import itertools
import json
import os
import resource
import socket
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.posting import body_of, mirrored, modern_params
from tests.e2e.sockets import head
from tests.faults.scene import Scene, eventually, scene

LARGE = 200 * 1024 * 1024
LITTLE_KIB = 32 * 1024
PIECE = b"%x\r\n%s\r\n" % (65536, b"x" * 65536)


async def speak(at: Scene, *octets: bytes, pause_s: float = 0.0) -> str:
    """Send piece by piece until the gateway hangs up; return the status line it said, if any."""
    parts = urlsplit(at.running.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    sending = asyncio.create_task(_send(writer, octets, pause_s))
    try:
        async with asyncio.timeout(60):
            line = await reader.readline()
            while await reader.read(65536):
                pass
    except (ConnectionError, asyncio.IncompleteReadError):
        line = b""
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return line.decode().strip()


async def _send(writer: asyncio.StreamWriter, octets: tuple[bytes, ...], pause_s: float) -> None:
    for piece in octets:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(pause_s)


def counted(at: Scene, code: str) -> float:
    """How often the gateway refused something before it was a call, by its metrics."""
    with urllib.request.urlopen(f"{at.running.admin_url}/metrics", timeout=60) as page:
        lines = page.read().decode().splitlines()
    series = f'douane_refusals_total{{code="{code}"}} '
    return sum(float(line.removeprefix(series)) for line in lines if line.startswith(series))


async def test_connections_that_never_finish_a_head_end_by_themselves(at: Scene) -> None:
    records, refused = len(at.log()), counted(at, "slow_head")
    slow = (b"POST /mcp/raw HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", *[b"x"] * 100)
    async with asyncio.TaskGroup() as group:
        said = [group.create_task(speak(at)) for _ in range(200)]
        said += [group.create_task(speak(at, *slow, pause_s=0.5)) for _ in range(200)]
        made = [await asyncio.to_thread(at.call) for _ in range(20)]
    assert {one.code for one in made} == {None}
    assert {one.result() for one in said} == {"", "HTTP/1.1 408"}
    assert counted(at, "slow_head") == refused + 200
    # What another test did may come late: the end of a call, or of a look at what changed.
    kinds = Counter(one["kind"] for one in at.log()[records:])
    assert kinds.keys() <= {"intent", "outcome", "pin", "auth"}
    assert kinds["auth"] < len(said) / 10
    assert all(len(at.trail(one)) == 2 for one in made)


@pytest.mark.parametrize("declared", [True, False])
async def test_a_request_of_200_mb_is_refused_and_never_held(at: Scene, declared: bool) -> None:
    length = ("Content-Length", str(LARGE)) if declared else ("Transfer-Encoding", "chunked")
    fields = [field for field in at.poster.fields if field[0] != "Connection"]
    begun = head("POST", "/mcp/raw", [*fields, ("Content-Type", "application/json"), length])
    at.forget_peak()
    before, refused = at.memory_kib("VmRSS"), counted(at, "too_large")
    said = [await speak(at, begun, *[PIECE] * (LARGE // len(PIECE))) for _ in range(3)]
    # Whoever goes on sending may lose the answer to the reset that ends it (RFC 9112, 9.6).
    assert set(said) <= {"HTTP/1.1 413 Request Entity Too Large", ""}
    assert counted(at, "too_large") == refused + 3
    assert at.memory_kib() - before < LITTLE_KIB
    assert at.raw.methods == []


def test_a_compressed_request_is_refused_unopened(at: Scene) -> None:
    bomb = gzip.compress(b" " * LARGE)
    at.forget_peak()
    before = at.memory_kib("VmRSS")
    assert at.poster.post(bomb, ("Content-Encoding", "gzip")).status == 415
    assert at.memory_kib() - before < LITTLE_KIB


class Kept:
    """A client whose connection stays open."""

    def __init__(self, at: Scene, *, timeout_s: float = 10.0) -> None:
        host = urlsplit(at.running.url).netloc
        self._connection = http.client.HTTPConnection(host, timeout=timeout_s)
        self._token = at.poster.token

    def call(self) -> dict[str, object]:
        """Call a tool, and return the message that answers."""
        params = {"name": "allowed", "arguments": {"text": "kept"}}
        body = body_of("tools/call", modern_params(params))
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        headers["Accept"] = "application/json, text/event-stream"
        headers.update(mirrored("tools/call", params))
        self._connection.request("POST", "/mcp/raw", body, headers)
        with self._connection.getresponse() as response:
            answer: dict[str, object] = json.load(response)
        return answer

    def close(self) -> None:
        self._connection.close()


@contextlib.contextmanager
def few_descriptors(count: int) -> Iterator[None]:
    """Let processes that are started now have this many descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def descriptors(at: Scene) -> list[int]:
    """Which descriptors the gateway has open."""
    folder = Path(f"/proc/{at.running.process.pid}/fd")
    return [int(entry.name) for entry in folder.iterdir()]


def processor_s(at: Scene) -> float:
    """How long the gateway has kept a processor busy, in seconds (proc(5), stat)."""
    fields = Path(f"/proc/{at.running.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_idle_connections_leave_descriptors_for_those_who_call(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with few_descriptors(256):
            at = stack.enter_context(scene(tmp_path))
        kept = Kept(at)
        stack.callback(kept.close)
        assert "result" in kept.call()
        address = urlsplit(at.running.url)
        with contextlib.ExitStack() as idle:
            for _ in range(400):
                place = (address.hostname, address.port)
                idle.enter_context(socket.create_connection(place, timeout=10))
            assert eventually(lambda: counted(at, "connections") > 200)
            assert len(descriptors(at)) < 256 - 64
            assert at.call().code is None  # over a connection that is one more
        assert eventually(lambda: len(descriptors(at)) < 64)
        assert at.call().code is None
        assert at.readiness == (200, {})
        assert at.verified() == ""


def refused_unsent(made: list[tuple[str, str | None]]) -> bool:
    """Whether all that is on record of a call is that it was refused."""
    ((kind, code),) = made
    return kind == "outcome" and code is not None


def test_without_a_descriptor_left_calls_fail_and_come_back(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        at = stack.enter_context(scene(tmp_path))
        kept = Kept(at)
        stack.callback(kept.close)
        assert "result" in kept.call()
        pid = at.running.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        for _ in range(20):
            taken = {*descriptors(at)}
            lowest = next(number for number in itertools.count() if number not in taken)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest, before[1]))
            busy_s = processor_s(at)
            refused = Kept(at, timeout_s=2)
            stack.callback(refused.close)
            try:
                refused.call()
            except (ConnectionError, TimeoutError, http.client.HTTPException):
                break  # and otherwise what was open for a moment, a file, has left one
            refused.close()
        else:
            pytest.fail("there is always a descriptor left")
        assert processor_s(at) - busy_s < 1  # it waits for a descriptor and does not spin
        for _ in range(3):
            records = len(at.log())
            assert "result" in kept.call()  # a result or a refusal
            made = [(one["kind"], one.get("code")) for one in at.log()[records:]]
            assert made == [("intent", None), ("outcome", None)] or refused_unsent(made)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert at.call().code is None
        assert eventually(lambda: at.readiness == (200, {}))
        assert at.verified() == ""

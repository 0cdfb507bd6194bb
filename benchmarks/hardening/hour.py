"""The hostile hour: many principals, long names, large bodies and results, failing rules, slow readers.

Bounded in count, not in time. The gateway is a process of its own, and its peak is what the system says
that it was (`VmHWM`): not a sample, so nothing is between two of them.
"""

import asyncio
import io
import json
import re
import shutil
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from benchmarks.hardening.parts import Part
from tests.e2e.posting import LEGACY, body_of, mirrored, modern_params
from tests.e2e.scripted import Raw, answer, behaves, raw_in_a_thread, told
from tests.e2e.site import OURS, SERVERS
from tests.e2e.sockets import head
from tests.running import Running, running_gateway
from tests.servers.process import ROOT

MOST_MIB: Final = 512
"""What is promised of the process's resident memory, at every moment."""
MIB: Final = 1 << 20
_PAUSE_S: Final = 0.05
_STILL: Final = 20
"""So many looks at a process that does not grow are enough."""
RULE: Final = """package douane

deny contains {"code": "hungry", "message": "this is never reached"} if {
	input.phase == "call"
	input.target.name == "amounts"
	count(numbers.range(1, input.arguments.n)) == 0
}
"""
"""Whoever calls `amounts` says how much memory policy wants."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is done, in counts."""

    principals: int = 16
    names: int = 200
    """Long names of each principal, each another one."""
    bodies: int = 64
    """Large bodies, all at once."""
    failures: int = 24
    """Evaluations that want too much memory."""
    readers: int = 48
    """Clients that ask for a large result and do not read it."""
    sessions: int = 100
    """Sessions of each principal."""
    cuts: int = 48
    """Calls with large arguments whose streams end before they are answered."""


@dataclass(kw_only=True)
class Hour:
    """One gateway, its hostile callers, and what came of it."""

    running: Running
    raw: Raw
    size: Size
    tokens: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    """HTTP statuses; `gone` where the connection ended without an answer."""
    peaks: dict[str, float] = field(default_factory=dict)
    """MiB at most in each step; where the system does not forget a peak, in all until then."""

    def resident_mib(self, name: str = "VmHWM") -> float:
        status = Path(f"/proc/{self.running.process.pid}/status").read_text()
        found = re.search(rf"{name}:\s+(\d+) kB", status)
        if found is None:
            raise RuntimeError(f"the system does not tell {name}")
        return int(found[1]) / 1024

    def begin_peak(self) -> None:
        """Have the system forget the largest so far (proc(5), `clear_refs`), if it does so."""
        with suppress(OSError):
            Path(f"/proc/{self.running.process.pid}/clear_refs").write_text("5")

    @property
    def url(self) -> str:
        return f"{self.running.url}/mcp/raw"


Step = Callable[[Hour, aiohttp.ClientSession], Awaitable[None]]


async def long_names(hour: Hour, http: aiohttp.ClientSession) -> None:
    """Ask for resources and tools by names as long as they may be, and far longer ones."""
    jobs = []
    for who, token in enumerate(hour.tokens):
        for number in range(hour.size.names):
            name = f"raw://{who}/{number}/" + "n" * 7900
            method = ("resources/read", "tools/call", "prompts/get")[number % 3]
            member = "uri" if method == "resources/read" else "name"
            jobs.append(_call(hour, http, token, method, {member: name}))
        for _ in range(4):
            uri = "raw://" + "n" * (3 * MIB)
            jobs.append(_call(hour, http, token, "resources/read", {"uri": uri}, legacy=True))
    await _all(jobs, at_once=64)


async def large_bodies(hour: Hour, http: aiohttp.ClientSession) -> None:
    """Send large arguments on many connections at once: plain letters, and such that take four bytes."""
    jobs = []
    for number in range(hour.size.bodies):
        text = ("a" * (3 * MIB)) if number % 2 else ("\U0001f980" + "a" * (3 * MIB))
        params = {"name": "allowed", "arguments": {"text": text}}
        jobs.append(_call(hour, http, _token(hour, number), "tools/call", params))
    await _all(jobs, at_once=len(jobs))


async def unfinished_bodies(hour: Hour, _http: aiohttp.ClientSession) -> None:
    """Send almost the whole of large bodies, all at once, and never the rest."""
    async with _connections(hour, hour.size.bodies) as writers:
        pieces = b"x" * MIB
        for number, writer in enumerate(writers):
            fields = [*_fields(hour, number), ("Content-Length", str(4 * MIB))]
            writer.write(head("POST", "/mcp/raw", fields))
        for _ in range(3):
            await asyncio.gather(*(_pushed(writer, pieces) for writer in writers))


async def large_results(hour: Hour, http: aiohttp.ClientSession) -> None:
    """Have the server answer many calls at once with results as large as they may be."""
    hour.raw.play(_saying("\U0001f980" + "r" * (3 * MIB)))
    params = {"name": "allowed", "arguments": {}}
    await _all(
        [
            _call(hour, http, _token(hour, number), "tools/call", params)
            for number in range(hour.size.bodies)
        ],
        at_once=hour.size.bodies,
    )
    hour.raw.play(behaves)


async def failing_rules(hour: Hour, http: aiohttp.ClientSession) -> None:
    """Have policy want too much memory, again and again."""
    jobs = []
    for number in range(hour.size.failures):
        params = {"name": "amounts", "arguments": {"n": 3_000_000 + number}}
        jobs.append(_call(hour, http, _token(hour, number), "tools/call", params))
    await _all(jobs, at_once=8)


async def slow_readers(hour: Hour, _: aiohttp.ClientSession) -> None:
    """Ask for large results on many connections, and read nothing."""
    await _unread(hour, _saying("r" * (3 * MIB)))


async def unread_streams(hour: Hour, _: aiohttp.ClientSession) -> None:
    """Ask for streams of large events on many connections, and read nothing."""
    await _unread(hour, _events)


async def _unread(hour: Hour, says: Callable[[web.Request], Awaitable[Any]]) -> None:
    hour.raw.play(says)
    before = len(hour.raw.seen)
    async with _connections(hour, hour.size.readers) as writers:
        for number, writer in enumerate(writers):
            params = {"name": "allowed", "arguments": {"text": str(number)}}
            body = body_of("tools/call", modern_params(params))
            mirrors = mirrored("tools/call", params)
            fields = [*_fields(hour, number), ("Content-Length", str(len(body))), *mirrors]
            writer.write(head("POST", "/mcp/raw", fields) + body)
        await _until(lambda: len(hour.raw.seen) - before >= len(writers) // 2)
        await _settled(hour)
    hour.raw.play(behaves)


async def many_sessions(hour: Hour, http: aiohttp.ClientSession) -> None:
    """Begin many sessions with long client names, subscribe in them, and never end them."""
    client = {"name": "c" * 8000, "version": "v" * 8000}
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
    jobs = [
        _call(hour, http, token, "initialize", params, legacy=True)
        for token in hour.tokens
        for _ in range(hour.size.sessions)
    ]
    await _all(jobs, at_once=32)


async def cut_streams(hour: Hour, http: aiohttp.ClientSession) -> None:
    """In sessions, send large arguments to a tool whose stream ends before it answers."""
    params = {
        "protocolVersion": LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    sessions = []
    for token in hour.tokens:
        headers = {**_plain(token)}
        async with http.post(
            hour.url, data=body_of("initialize", params), headers=headers
        ) as begun:
            sessions.append((token, begun.headers.get("Mcp-Session-Id", "")))
    hour.raw.play(_cut)
    jobs = []
    for number in range(hour.size.cuts):
        token, session = sessions[number % len(sessions)]
        arguments = {"text": f"{number}" + "a" * (2 * MIB)}
        called = {"name": "allowed", "arguments": arguments}
        jobs.append(_call(hour, http, token, "tools/call", called, legacy=True, session=session))
    await _all(jobs, at_once=8)
    hour.raw.play(behaves)


STEPS: Final[Mapping[str, Step]] = {
    "long names": long_names,
    "many sessions": many_sessions,
    "failing rules": failing_rules,
    "large bodies": large_bodies,
    "unfinished bodies": unfinished_bodies,
    "large results": large_results,
    "cut streams": cut_streams,
    "slow readers": slow_readers,
    "unread streams": unread_streams,
}


def figures(folder: Path) -> Part:
    """Play the hour in `folder`, and say how much memory it took."""
    return part_of(*played(folder, Size()))


def played(folder: Path, size: Size) -> tuple[Hour, float]:
    """Return what came of an hour of that size, and what the gateway held before it, in MiB."""
    policies = folder / "policies"
    shutil.copytree(
        ROOT / "policies", policies, ignore=shutil.ignore_patterns("*_test.rego", "cases")
    )
    (policies / "hungry.rego").write_text(RULE)
    with ExitStack() as stack:
        raw = stack.enter_context(raw_in_a_thread())
        server = {**SERVERS["raw"], "url": raw.url, "defaults": OURS}
        settings: Any = {
            "policies": policies,
            "limits": {"calls_per_minute": 1_000_000, "upstream_failures": 1000},
        }
        running = stack.enter_context(
            running_gateway(folder / "gateway", {"raw": server}, **settings)
        )
        running.approve_all("raw")
        hour = Hour(running=running, raw=raw, size=size)
        hour.tokens = [running.token("raw", name=f"p{number}") for number in range(size.principals)]
        start = hour.resident_mib("VmRSS")
        asyncio.run(_play(hour))
    return hour, start


def part_of(hour: Hour, start: float) -> Part:
    """Say what an hour came to."""
    peak = max(hour.peaks.values())
    requests = sum(hour.answers.values())
    failures = (
        [f"the gateway held {peak:.0f} MiB, more than {MOST_MIB}"] if peak >= MOST_MIB else []
    )
    if not hour.answers["200"]:
        failures.append("no call was answered, so nothing was asked of it")
    if hour.running.process.poll() not in (0, None):
        failures.append(f"the gateway ended with {hour.running.process.poll()}")
    return Part(
        title="The hostile hour",
        rows=[
            ("principals", hour.size.principals),
            ("requests", requests),
            *((f"answered with {status}", count) for status, count in sorted(hour.answers.items())),
            ("MiB before", round(start)),
            *((f"MiB at most, {step}", round(mib)) for step, mib in hour.peaks.items()),
        ],
        figures={
            "hour.peak_rss_mib": round(peak, 1),
            "hour.start_rss_mib": round(start, 1),
            "hour.requests": requests,
            "hour.principals": hour.size.principals,
            "hour.refused": requests - hour.answers["200"],
        },
        failures=failures,
        limits=["the hour is bounded in count: what grows by a byte a call is not seen"],
        summary=f"{peak:.0f} MiB at most in {requests} hostile requests of {hour.size.principals}",
    )


async def _play(hour: Hour) -> None:
    connector = aiohttp.TCPConnector(limit=0, force_close=False)
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
        for name, step in STEPS.items():
            hour.begin_peak()
            await step(hour, http)
            hour.peaks[name] = hour.resident_mib()


async def _call(
    hour: Hour,
    http: aiohttp.ClientSession,
    token: str,
    method: str,
    params: dict[str, Any],
    *,
    legacy: bool = False,
    session: str = "",
) -> None:
    headers = _plain(token)
    if legacy:
        body = body_of(method, params)
        headers |= {"MCP-Protocol-Version": LEGACY} if method != "initialize" else {}
        headers |= {"Mcp-Session-Id": session} if session else {}
    else:
        body = body_of(method, modern_params(params))
        headers |= dict(mirrored(method, params))
    try:
        async with http.post(hour.url, data=io.BytesIO(body), headers=headers) as response:
            await response.read()
            hour.answers[str(response.status)] += 1
    except (aiohttp.ClientError, OSError):
        hour.answers["gone"] += 1


async def _all(jobs: list[Any], *, at_once: int) -> None:
    gate = asyncio.Semaphore(at_once)

    async def one(job: Awaitable[None]) -> None:
        async with gate:
            await job

    await asyncio.gather(*map(one, jobs))


def _plain(token: str) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }


def _fields(hour: Hour, number: int) -> list[tuple[str, str]]:
    return [("Host", urlsplit(hour.url).netloc), *_plain(_token(hour, number)).items()]


def _token(hour: Hour, number: int) -> str:
    return hour.tokens[number % len(hour.tokens)]


@asynccontextmanager
async def _connections(hour: Hour, count: int) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """Open connections that hardly take anything in, and end them without a word."""
    parts = urlsplit(hour.url)
    writers = []
    for _ in range(count):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (parts.hostname, parts.port))
        _, writer = await asyncio.open_connection(sock=connection, limit=1024)
        writers.append(writer)
    try:
        yield writers
    finally:
        for writer in writers:
            writer.transport.abort()


async def _pushed(writer: asyncio.StreamWriter, octets: bytes) -> None:
    """Send, as far as the other end takes it within a while."""
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(10):
            writer.write(octets)
            await writer.drain()


async def _until(holds: Callable[[], bool], patience_s: float = 60.0) -> None:
    """Return once it holds, or nobody waits any longer."""
    for _ in range(int(patience_s / _PAUSE_S)):
        if holds():
            return
        await asyncio.sleep(_PAUSE_S)


async def _settled(hour: Hour) -> None:
    """Return once the process's memory has not grown for a while."""
    seen = [0.0] * _STILL

    def still() -> bool:
        seen.append(hour.resident_mib())
        return len(set(seen[-_STILL:])) == 1

    await _until(still)


def _at_calls(
    answers: Callable[[web.Request, Any], Awaitable[web.StreamResponse]],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Behave, but for calls of tools, which `answers` answers."""

    async def behaving(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read() or b"{}")
        if message.get("method") != "tools/call":
            return await behaves(request)
        return await answers(request, message)

    return behaving


def _saying(text: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def says(_: web.Request, message: Any) -> web.StreamResponse:
        return answer(message, told(text))

    return _at_calls(says)


async def _stream(request: web.Request) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await stream.prepare(request)
    return stream


@_at_calls
async def _cut(request: web.Request, _: Any) -> web.StreamResponse:
    stream = await _stream(request)
    await stream.write(b"id: 1\ndata:\n\n")
    await stream.write_eof()
    return stream


@_at_calls
async def _events(request: web.Request, _: Any) -> web.StreamResponse:
    stream = await _stream(request)
    params = {"level": "info", "data": "r" * (3 * MIB)}
    told = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    with suppress(ConnectionError):
        for said in (told, told, told):
            await stream.write(b"data: %b\n\n" % json.dumps(said).encode())
        await stream.write_eof()
    return stream

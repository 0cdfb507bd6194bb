"""A connection that says nothing, too slowly or without end costs little, and ends."""

import asyncio
import select
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
import uvicorn

from gateway.web.bounds import Bounds
from gateway.web.connections import Connection, Listener
from gateway.web.scopes import TARGET
from tests.servers.process import free_port

BOUNDS = Bounds(connections=3, head_s=0.3, body_s=0.8, head_bytes=2000, stall_s=0.3)
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n"
TORN = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nx"
SIZES = {"/large": 4_000_000, "/huge": 64_000_000, "/whole": 16_000_000}
"""Of answers, in bytes; the second does not fit into any buffer on the way, and the last is written
at once."""


@dataclass
class Served:
    port: int
    refused: list[str] = field(default_factory=list)
    targets: list[bytes] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    fields: list[Any] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """Lets `/held` go on, and `/stream`."""
    faults: list[str] = field(default_factory=list)
    """What the event loop was told that nobody caught."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once an application was told that its caller is gone."""
    open: set[Any] = field(default_factory=set)
    shared: Listener = field(default_factory=lambda: Listener(BOUNDS))

    @asynccontextmanager
    async def client(self) -> AsyncIterator["Client"]:
        """Connect, and hang up at the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1024)
        try:
            yield Client(reader=reader, writer=writer)
        finally:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    def ahead(self) -> int:
        """How many bytes lie unread behind what is being answered."""
        return sum(len(each._unread) for each in self.open)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer as `_answer`, or as a bug would."""
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            if scope["path"] in BUGS:
                await BUGS[scope["path"]](send)
            else:
                await self._answer(scope, receive, send)
        finally:
            self.at_once -= 1

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Wait for the whole body, then answer; `/large` and `/huge` answer a lot, `/slow` late.

        `/unread` answers at once, and so does `/refused`, which closes the connection.
        """
        self.begun.append(scope["path"])
        message: dict[str, Any] = {"type": "http.request", "more_body": True}
        sent = b""
        while scope["path"] not in {"/unread", "/refused"} and message.get("more_body"):
            message = await receive()
            sent += message.get("body", b"")
        if message["type"] == "http.disconnect":
            self.ended.set()
            return
        self.bodies.append(sent)
        self.targets.append(scope["extensions"][TARGET]["sent"])
        self.fields.append(scope["headers"])
        if scope["path"] == "/slow":
            await asyncio.sleep(2 * BOUNDS.head_s)
        if scope["path"] == "/held":
            await self.held.wait()
        if scope["path"] == "/stream":
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
            if scope["http_version"] == "1.1":
                await self.held.wait()
            await send({"type": "http.response.body", "body": b"two"})
            return
        body = b"x" * SIZES.get(scope["path"], 2)
        length = str(len(body)).encode()
        headers = [(b"content-length", length)]
        if scope["path"] == "/refused":
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        step = len(body) if scope["path"] == "/whole" else 65536
        for start in range(0, len(body), step):
            more = start + step < len(body)
            piece = body[start : start + step]
            await send({"type": "http.response.body", "body": piece, "more_body": more})
        if (await receive())["type"] == "http.disconnect":
            self.ended.set()


async def _raises(send: Any) -> None:
    raise ValueError("evil")


async def _silent(send: Any) -> None:
    """Answer nothing."""


def _wrong(*messages: tuple[list[tuple[bytes, bytes]], bytes]) -> Any:
    async def answer(send: Any) -> None:
        for fields, body in messages:
            await send({"type": "http.response.start", "status": 200, "headers": fields})
            await send({"type": "http.response.body", "body": body})

    return answer


BUGS: dict[str, Any] = {
    "/raises": _raises,
    "/silent": _silent,
    "/torn": _wrong(([(b"content-length", b"5")], b"evil")),
    "/long": _wrong(([(b"content-length", b"1")], b"evil")),
    "/nul": _wrong(([(b"x", b"a\0b")], b"")),
    "/split": _wrong(([(b"x", b"a\r\ny: evil")], b"")),
    "/framed": _wrong(([(b"transfer-encoding", b"evil")], b"")),
}


@dataclass(kw_only=True)
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, octets: bytes) -> int:
        """Send a request, and return the status of the answer, which is read to its end."""
        self.writer.write(octets)
        found = await self.status()
        assert await self.reader.readexactly(2) == b"xx"
        return found

    async def answer(self) -> tuple[int, bytes]:
        """Read one answer of two bytes."""
        found = await self.status()
        return found, await self.reader.readexactly(2)

    async def status(self) -> int:
        """Read one answer's head, and return its status; 0 if the connection ends before."""
        async with asyncio.timeout(60):
            try:
                line = await self.reader.readline()
                while line and (await self.reader.readline()).strip():
                    pass
            except ConnectionResetError:
                return 0
            return int(line[9:12]) if line else 0

    async def ends(self) -> None:
        """Return once nothing more comes."""
        async with asyncio.timeout(60):
            with suppress(ConnectionResetError):
                while await self.reader.read(65536):
                    pass

    async def is_cut_off(self) -> None:
        """Return once nobody takes any more of what is sent."""
        async with asyncio.timeout(60):
            with suppress(ConnectionError):
                while True:
                    self.writer.write(b"x")
                    await self.writer.drain()
                    await asyncio.sleep(0.001)

    @asynccontextmanager
    async def dripping(self, octets: bytes) -> AsyncIterator[None]:
        """Send a byte now and then, all the while."""

        async def drip() -> None:
            for octet in octets * 1000:
                self.writer.write(bytes([octet]))
                await asyncio.sleep(0.02)

        task = asyncio.create_task(drip())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


class Quiet(uvicorn.Server):
    """Leaves the signals of the tests' process alone."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        serving = asyncio.create_task(self._serve())
        while not self.started:
            await asyncio.sleep(0.005)
        try:
            yield
        finally:
            self.should_exit = True
            await serving


@asynccontextmanager
async def listening(bounds: Bounds = BOUNDS) -> AsyncIterator[Served]:
    listener = Served(port=free_port())
    listener.shared = Listener(bounds, listener.refused.append)
    config = uvicorn.Config(
        listener.app,
        port=listener.port,
        http=cast("type[asyncio.Protocol]", listener.shared),
        lifespan="off",
        interface="asgi3",
        ws="none",
        log_config=None,
        timeout_graceful_shutdown=1,
    )

    def told(_: object, context: dict[str, Any]) -> None:
        listener.faults.append(context["message"])

    asyncio.get_running_loop().set_exception_handler(told)
    server = Quiet(config)
    listener.open = server.server_state.connections
    async with server.running():
        yield listener


async def test_a_connection_is_kept_between_requests():
    async with listening() as at, at.client() as client:
        for octets in (GET, POST + b"0123456789", GET):
            assert await client.ask(octets) == 200
            await asyncio.sleep(2 * BOUNDS.head_s)
        assert at.refused == []


async def test_the_target_arrives_as_it_was_sent():
    absolute = b"http://evil.example/%6d?q"
    async with listening() as at, at.client() as client:
        for target in (b"/", absolute):
            assert await client.ask(GET.replace(b"/", target, 1)) == 200
        assert at.targets == [b"/", absolute]


OFFER = (
    b"host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"
)
OFFERED = b"POST / HTTP/1.1\r\n" + OFFER + b"content-length: 10\r\n\r\n"


@pytest.mark.parametrize("cut", [0, 60, len(OFFERED) - 30])
async def test_an_offer_of_another_protocol_is_left_alone(cut: int):
    async with listening() as listener, listener.client() as client:
        assert await client.ask(OFFERED + b"upgrade:10") == 200
        client.writer.write(OFFERED[:cut])
        await asyncio.sleep(0)
        client.writer.write(OFFERED[cut:])
        while len(listener.begun) < 2:
            await asyncio.sleep(0.01)
        assert await client.ask(b"0123456789") == 200
        assert await client.ask(GET) == 200
    assert listener.bodies == [b"upgrade:10", b"0123456789", b""]


SHAPELESS = {
    "no target": GET.replace(b"/", b"x", 1),
    "a proxy's target": b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n",
    "no path": GET.replace(b"/", b"*", 1),
    "a fragment": GET.replace(b"/", b"/#", 1),
    "two blanks": GET.replace(b" ", b"  ", 1),
    "another version": GET.replace(b"1.1", b"1.2"),
    "the next version": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "a line break by itself": GET.replace(b"\r\nhost", b"\nhost"),
    "a folded line": GET.replace(b"\r\n\r\n", b"\r\n folded\r\n\r\n"),
    "two ends": POST.replace(b"\r\n\r\n", b"\r\ntransfer-encoding: chunked\r\n\r\n"),
    "an unknown coding": TORN.replace(b"chunked", b"gzip, chunked"),
    "chunks in HTTP/1.0": TORN.replace(b"1.1", b"1.0"),
    "a chunk without a size": TORN,
}


@pytest.mark.parametrize("case", SHAPELESS)
async def test_what_is_no_request_is_refused_and_nothing_behind_it_is_read(case: str):
    async with listening() as listener, listener.client() as client:
        client.writer.write(SHAPELESS[case] + GET)
        assert await client.status() == 400
        await client.ends()
    assert (listener.targets, listener.refused, listener.faults) == ([], ["malformed"], [])


@pytest.mark.parametrize("second", [b"GET\r\n\r\n", TORN + b"\r\n"])
async def test_a_refusal_is_not_taken_for_an_answer_that_is_still_made(second: bytes):
    async with listening() as listener, listener.client() as client:
        client.writer.write(GET.replace(b"/", b"/slow", 1) + second)
        assert await client.answer() == (200, b"xx")
        assert await client.status() == 400
        await client.ends()
    assert listener.targets == [b"/slow"]


async def test_what_is_in_chunks_is_read_without_what_is_around_them():
    chunked = POST.replace(b"content-length: 10", b"transfer-encoding: Chunked")
    async with listening() as listener, listener.client() as client:
        for trailer in (b"", b"host: y\r\nauthorization: Bearer a\r\nx-forwarded-for: 1.2.3.4\r\n"):
            body = b"5;a=b\r\n01234\r\n005\r\n56789\r\n0\r\n" + trailer + b"\r\n"
            assert await client.ask(chunked + body) == 200
    assert listener.bodies == [b"0123456789"] * 2
    assert listener.fields == [[(b"host", b"x"), (b"transfer-encoding", b"Chunked")]] * 2


@pytest.mark.parametrize(
    "begun", ["GET / HTTP/1.1\r\nx: ", "POST / HTTP/1.1\r\ncontent-length: 9999\r\n\r\n"]
)
async def test_requests_that_are_half_said_share_a_room(begun: str):
    bounds = replace(BOUNDS, connections=9, head_s=60.0, body_s=60.0, half_bytes=3000)
    async with listening(bounds) as at, AsyncExitStack() as stack:
        *clients, other = [await stack.enter_async_context(at.client()) for _ in range(4)]
        for client in clients:
            client.writer.write(begun.encode() + b"x" * 1200)
            assert await other.ask(GET) == 200  # by then that was read
        assert at.refused == ["busy"]
        assert await clients[0].status() == 503
        await clients[0].ends()
        assert at.shared.halves._octets == sum(at.shared.halves._kept.values()) <= 3000
    assert at.shared.halves._kept == {}


@pytest.mark.parametrize(
    "asked", [GET.replace(b"/", b"/held", 1), POST.replace(b"/", b"/held", 1) + b"0123456789"]
)
async def test_what_comes_behind_a_request_that_waits_shares_that_room(asked: bytes):
    bounds = replace(BOUNDS, connections=9, half_bytes=3000)
    async with listening(bounds) as at, AsyncExitStack() as stack:
        *clients, other = [await stack.enter_async_context(at.client()) for _ in range(4)]
        for number, client in enumerate(clients):
            # Together with what is waited for, and after it.
            for piece in (asked + b"x" * 600, b"x" * 600):
                client.writer.write(piece)
                assert await other.ask(GET) == 200  # by then that was read
                assert at.shared.halves._octets == at.ahead() <= 3000
            assert at.refused == ["busy"] * (number == 2)
        assert await clients[0].status() == 503
        await clients[0].ends()
    assert at.shared.halves._kept == {}


async def test_a_connection_that_is_gone_keeps_no_head():
    async with listening() as at:
        async with at.client() as client:
            assert await client.ask(GET) == 200
            assert len(at.shared.heads) == 1
        async with asyncio.timeout(60):
            while at.open:
                await asyncio.sleep(0.01)
        assert not at.shared.heads


async def test_what_is_whole_takes_no_room():
    bounds = replace(BOUNDS, half_bytes=100)
    async with listening(bounds) as at, at.client() as client, at.client() as other:
        for piece, octets in ((POST.replace(b"/", b"/held", 1) + b"01234", 5), (b"56789", 0)):
            client.writer.write(piece)
            assert await other.ask(GET) == 200  # by then that was read
            assert at.shared.halves._octets == octets
        at.held.set()
        assert await client.answer() == (200, b"xx")
        client.writer.write(GET[:20])
        assert await other.ask(GET) == 200
        assert await client.ask(GET[20:]) == 200
        assert (at.refused, at.shared.halves._octets) == ([], 0)


async def test_chunks_that_nobody_waits_for_are_not_read():
    torn = TORN.replace(b"/", b"/unread", 1)[:-1] + b"1\r\nx\r\n" * 3
    async with listening() as at, at.client() as client:
        client.writer.write(torn)
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert b"connection: close" in head
        assert await client.reader.readexactly(2) == b"xx"
        client.writer.write(b"no chunk at all\r\n" + GET)
        await client.ends()
    assert (len(at.begun), at.refused, at.faults) == (1, [], [])


async def test_extensions_of_chunks_and_trailers_are_bounded():
    chunked = POST.replace(b"content-length: 10", b"transfer-encoding: chunked")
    endless = (
        b"1;" + b"a" * 2000 + b"\r\nx\r\n0\r\n\r\n",
        b"1;" + b"a" * 900 + b"\r\nx\r\n",
        b"0\r\n" + b"x: " + b"y" * 900 + b"\r\n",
    )
    for piece in endless:
        async with listening() as listener, listener.client() as client:
            client.writer.write(chunked + piece * 400)
            assert await client.status() == 400
            await client.ends()
        assert (listener.bodies, listener.refused) == ([], ["malformed"])


async def test_requests_that_come_at_once_are_answered_one_after_the_other():
    asked = [b"/slow", b"/", b"/slow", b"/"]
    async with listening() as listener, listener.client() as client:
        client.writer.write(GET.replace(b"/", b"/slow", 1))
        while not listener.begun:
            await asyncio.sleep(0.01)
        client.writer.write(b"".join(GET.replace(b"/", path, 1) for path in asked[1:]))
        for _ in asked:
            assert await client.answer() == (200, b"xx")
        client.writer.write(POST + b"01234567" + b"89" + GET)
        assert await client.answer() == (200, b"xx")
        assert await client.answer() == (200, b"xx")
    assert (listener.targets, listener.most_at_once) == ([*asked, b"/", b"/"], 1)


async def test_who_asks_ahead_without_end_has_to_wait():
    async with listening() as listener, listener.client() as client:
        client.writer.write(GET.replace(b"/", b"/held", 1))
        flood = GET * 200_000
        client.writer.write(flood)
        async with asyncio.timeout(60):
            while not any(each._is_stopped for each in listener.open):
                await asyncio.sleep(0.01)
        assert 0 < listener.ahead() < len(flood) // 8
        listener.held.set()
        assert await client.answer() == (200, b"xx")


async def test_line_breaks_before_a_request_are_passed_over():
    async with listening() as listener, listener.client() as client:
        client.writer.write(b"\r")
        await asyncio.sleep(0)
        for octets in (b"\n\r\n" + GET, POST + b"0123456789\r\n", GET):
            assert await client.ask(octets) == 200
    assert listener.refused == []


LEAVE = POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-Continue\r\n\r\n")


async def test_who_waits_for_leave_to_send_a_body_gets_it():
    async with listening() as listener, listener.client() as client:
        client.writer.write(LEAVE)
        assert await client.status() == 100
        assert await client.ask(b"0123456789") == 200
        # Who does not wait is not told to go on.
        assert await client.ask(LEAVE + b"0123456789") == 200
    assert listener.bodies == [b"0123456789"] * 2


async def test_what_comes_behind_a_body_that_was_not_asked_for_is_not_read():
    async with listening() as listener, listener.client() as client:
        client.writer.write(LEAVE.replace(b"/", b"/unread", 1))
        assert await client.answer() == (200, b"xx")
        client.writer.write(GET)
        assert await client.status() == 0
    assert listener.begun == ["/unread"]


async def test_a_head_answer_has_no_body_and_the_old_version_one_that_the_close_ends():
    async with listening() as listener, listener.client() as client:
        client.writer.write(GET.replace(b"GET", b"HEAD"))
        assert await client.status() == 200
        assert await client.ask(GET) == 200
        client.writer.write(GET.replace(b"1.1", b"1.0").replace(b"/", b"/stream", 1))
        assert await client.reader.read() == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nonetwo"


async def test_an_answer_of_no_told_length_comes_in_chunks_as_it_is_made():
    async with listening() as listener, listener.client() as client:
        client.writer.write(GET.replace(b"/", b"/stream", 1))
        assert await client.status() == 200
        assert await client.reader.readuntil(b"one\r\n") == b"3\r\none\r\n"
        listener.held.set()
        assert await client.reader.readuntil(b"0\r\n\r\n") == b"3\r\ntwo\r\n0\r\n\r\n"
        assert await client.ask(GET) == 200


async def test_what_is_no_field_is_not_sent():
    async with listening() as listener, listener.client() as client:
        client.writer.write(GET.replace(b"/", b"/nul", 1))
        assert await client.status() == 500
    assert listener.faults == []


@pytest.mark.parametrize(
    "path", [b"/raises", b"/silent", b"/torn", b"/long", b"/split", b"/framed"]
)
async def test_a_bug_is_a_failure_or_the_end_and_no_half_answer(path: bytes):
    async with listening() as listener, listener.client() as client:
        client.writer.write(GET.replace(b"/", path, 1))
        answer = await client.reader.read()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
        assert (b"evil" in answer, answer.count(b"HTTP/1.1")) == (False, int(bool(answer)))
    assert listener.faults == []


async def test_an_answer_may_take_its_time():
    async with listening() as at, at.client() as client:
        assert await client.ask(GET.replace(b"/", b"/slow", 1)) == 200
        assert at.refused == []


async def test_a_body_may_take_its_time_within_its_limit():
    async with listening() as at, at.client() as client:
        client.writer.write(POST + b"01234")
        await asyncio.sleep(0.5 * BOUNDS.body_s)
        assert await client.ask(b"56789") == 200
        await asyncio.sleep(2 * BOUNDS.body_s)
        assert await client.ask(GET) == 200


async def test_a_connection_that_says_nothing_is_closed():
    async with listening() as at, at.client() as client:
        assert await client.status() == 0
        assert at.refused == []


async def test_a_head_that_drips_is_refused():
    async with listening() as at, at.client() as client:
        async with client.dripping(b"GET / HTTP/1.1\r\nx: " + b"y" * 1000):
            assert await client.status() == 408
        assert at.refused == ["slow_head"]


async def test_the_next_head_is_held_to_the_same_time():
    async with listening() as at, at.client() as client:
        assert await client.ask(GET) == 200
        async with client.dripping(GET[:-2] + b"x: " + b"y" * 1000):
            assert await client.status() == 408
        assert at.refused == ["slow_head"]


async def test_line_breaks_between_requests_do_not_keep_a_connection():
    async with listening() as at, at.client() as client:
        assert await client.ask(GET) == 200
        async with client.dripping(b"\r\n" * 10):
            await client.ends()


async def test_a_head_without_end_is_refused():
    async with listening() as at, at.client() as client:
        client.writer.write(b"GET / HTTP/1.1\r\nx: " + b"y" * 1500)
        await asyncio.sleep(0.05)
        client.writer.write(b"y" * 1500)
        assert await client.status() == 431
        assert at.refused == ["large_head"]


async def test_an_application_that_waits_for_a_body_learns_that_none_will_come():
    async with listening() as at, at.client() as client:
        client.writer.write(POST + b"01234")
        await client.ends()
        await asyncio.wait_for(at.ended.wait(), 60)


async def test_a_client_that_does_not_read_is_cut_off():
    async with listening() as at, at.client() as client:
        client.writer.write(GET.replace(b"/", b"/huge", 1))
        await asyncio.wait_for(at.ended.wait(), 60)
        assert at.refused == ["slow_reader"]


async def test_a_client_that_reads_slowly_gets_everything():
    async with listening() as at, at.client() as client:
        client.writer.write(GET.replace(b"/", b"/large", 1))
        assert await client.status() == 200
        taken = 0
        while taken < SIZES["/large"]:
            taken += len(await client.reader.read(65536))
            await asyncio.sleep(0.01)
        assert at.refused == []


HELD = GET.replace(b"/", b"/held", 1)


async def test_one_connection_too_many_is_closed_and_the_others_work():
    async with listening() as at:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(at.client()) for _ in range(BOUNDS.connections)
            ]
            for client in clients:
                client.writer.write(HELD)
            while len(at.begun) < BOUNDS.connections:
                await asyncio.sleep(0.01)
            async with at.client() as refused:
                assert await refused.status() == 0
            assert at.refused == ["connections"]
            at.held.set()
            told = [await client.answer() for client in clients]
            assert told == [(200, b"xx")] * BOUNDS.connections
        async with at.client() as client:
            assert await client.ask(GET) == 200


WAITING = {
    "nothing": b"",
    "line breaks": b"\r\n",
    "half a head": GET[:20],
    "a body that does not come": POST,
    "half a body": POST + b"01234",
    "an answer that came before the body": POST.replace(b"/", b"/unread", 1),
}


@pytest.mark.parametrize("said", WAITING)
async def test_whoever_has_nothing_to_wait_for_shuts_nobody_out(said: str):
    patient = replace(BOUNDS, head_s=60.0, body_s=60.0)
    async with listening(patient) as at, AsyncExitStack() as stack:
        busy = await stack.enter_async_context(at.client())
        busy.writer.write(HELD)
        for _ in range(2 * BOUNDS.connections):
            other = await stack.enter_async_context(at.client())
            other.writer.write(WAITING[said])
            async with at.client() as client:
                assert await client.ask(GET) == 200
        assert "connections" in at.refused
        at.held.set()
        assert await busy.answer() == (200, b"xx")


async def test_of_those_who_ask_for_nothing_the_longest_is_let_go():
    async with listening() as at, at.client() as first, at.client() as second, at.client() as third:
        for client in (first, second, third, first):
            assert await client.ask(GET) == 200
        async with at.client() as fourth:
            assert await fourth.ask(GET) == 200
            for client in (first, third):
                assert await client.ask(GET) == 200
            await second.ends()


async def test_of_those_who_do_not_read_the_longest_is_let_go_when_it_is_too_much():
    bounds = replace(BOUNDS, stall_s=60, unread_bytes=100_000)
    async with listening(bounds) as at, at.client() as first, at.client() as second:
        for client in (first, second):
            client.writer.write(GET.replace(b"/", b"/huge", 1))
        await asyncio.wait_for(at.ended.wait(), 60)
        assert at.refused[:1] == ["slow_reader"]


async def test_of_a_large_answer_only_what_was_not_taken_is_kept():
    async with listening(replace(BOUNDS, stall_s=60)) as at, at.client() as client:
        client.writer.write(GET.replace(b"/", b"/whole", 1))
        async with asyncio.timeout(60):
            while not at.shared.unread:
                await asyncio.sleep(0)
        (unread,) = cast("dict[Connection, None]", at.shared.unread)
        kept = unread._transport._left
        assert max(map(len, kept)) <= 65536
        assert sum(map(len, kept)) <= unread.unread_bytes < SIZES["/whole"]
        await client.status()
        await client.reader.readexactly(SIZES["/whole"])
        assert at.refused == []


async def test_what_is_left_of_a_body_that_was_answered_is_thrown_away():
    async with listening(replace(BOUNDS, left_bytes=100_000)) as at, at.client() as client:
        head = POST.replace(b"/", b"/unread", 1).replace(b"10", b"100000")
        assert await client.ask(head) == 200
        client.writer.write(b"x" * 100_000)
        assert await client.ask(GET) == 200


async def test_a_body_that_goes_on_after_its_answer_ends_the_connection():
    async with listening(replace(BOUNDS, left_bytes=100_000)) as at, at.client() as client:
        head = POST.replace(b"/", b"/unread", 1).replace(b"10", b"100001")
        assert await client.ask(head) == 200
        client.writer.write(b"x" * 100_001 + GET)
        assert await client.status() == 0


REFUSED = POST.replace(b"/", b"/refused", 1).replace(b"10", b"4000000")


def sent_before_it_is_read(port: int, *parts: bytes) -> bytes:
    """Send everything before anything is read, as simple clients do; return what comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(parts[0])
        assert select.select([connection], [], [], 60)[0]  # it was answered by now
        for part in parts[1:]:
            connection.sendall(part)
        return b"".join(iter(lambda: connection.recv(65536), b""))


async def test_who_is_refused_while_they_send_gets_to_read_it():
    async with listening(replace(BOUNDS, left_bytes=4_000_000)) as at:
        found = await asyncio.to_thread(
            sent_before_it_is_read, at.port, REFUSED, b"x" * 2_000_000, b"x" * 1_999_000
        )
        assert found.startswith(b"HTTP/1.1 200")
        assert found.endswith(b"xx")


async def test_what_comes_after_a_refused_body_is_not_read_as_a_request():
    async with listening(replace(BOUNDS, left_bytes=4_000_000)) as at:
        short = REFUSED.replace(b"4000000", b"4")
        found = await asyncio.to_thread(sent_before_it_is_read, at.port, short, b"xxxx" + GET)
        assert found.count(b"HTTP/1.1") == 1
        async with at.client() as client:
            assert await client.ask(GET) == 200  # and by then all that came before was read
        assert at.targets == [b"/refused", b"/"]


async def test_whoever_is_refused_and_does_not_end_is_cut_off():
    async with (
        listening(replace(BOUNDS, left_bytes=100_000, linger_s=600)) as at,
        at.client() as client,
    ):
        client.writer.write(REFUSED)
        assert await client.status() == 200
        client.writer.write(b"x" * 100_001)
        await client.is_cut_off()
    async with listening(replace(BOUNDS, linger_s=0.05)) as at, at.client() as client:
        client.writer.write(REFUSED)
        assert await client.status() == 200
        await client.is_cut_off()

"""A connection that says nothing, too slowly or without end costs little, and ends."""

import asyncio
import select
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import uvicorn

from gateway.web.connections import BoundedConnection, Bounds, bounded_by
from gateway.web.guard import TARGET
from tests.servers.process import free_port

BOUNDS = Bounds(connections=3, head_s=0.3, body_s=0.8, head_bytes=2000, stall_s=0.3)
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n"
SIZES = {"/large": 4_000_000, "/huge": 64_000_000, "/whole": 16_000_000}
"""Of answers, in bytes; the second does not fit into any buffer on the way, and the last is written
at once."""


@dataclass
class Listener:
    port: int
    refused: list[str] = field(default_factory=list)
    targets: list[bytes] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """What the event loop was told that nobody caught."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once an application was told that its caller is gone."""
    connections: type[BoundedConnection] = BoundedConnection

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

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
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
        if scope["path"] == "/slow":
            await asyncio.sleep(2 * BOUNDS.head_s)
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
async def listening(bounds: Bounds = BOUNDS) -> AsyncIterator[Listener]:
    listener = Listener(port=free_port())
    listener.connections = bounded_by(bounds, listener.refused.append)
    config = uvicorn.Config(
        listener.app,
        port=listener.port,
        http=listener.connections,
        lifespan="off",
        interface="asgi3",
        ws="none",
        log_config=None,
        timeout_graceful_shutdown=1,
    )

    def told(_: object, context: dict[str, Any]) -> None:
        listener.faults.append(context["message"])

    asyncio.get_running_loop().set_exception_handler(told)
    async with Quiet(config).running():
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


async def test_an_offer_of_another_protocol_is_left_alone():
    async with listening() as listener, listener.client() as client:
        assert await client.ask(OFFERED + b"upgrade:10") == 200
        client.writer.write(OFFERED)
        while len(listener.begun) < 2:
            await asyncio.sleep(0.01)
        assert await client.ask(b"0123456789") == 200
        assert await client.ask(GET) == 200
    assert listener.bodies == [b"upgrade:10", b"0123456789", b""]


@pytest.mark.parametrize(
    "parts",
    [
        (OFFERED[:60], OFFERED[60:], GET),
        (b"POST / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nup", b"grade: a\r\n\r\n", GET),
        (b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n", GET),
    ],
)
async def test_what_follows_an_offer_is_never_read_as_a_request(parts: tuple[bytes, ...]):
    async with listening() as listener, listener.client() as client:
        for part in parts:
            client.writer.write(part)
            await asyncio.sleep(0.01)
        assert await client.status() == 400
        await client.ends()
    assert (listener.targets, listener.refused) == ([], ["upgrade"])


async def test_a_target_that_is_none_is_refused_and_its_connection_closed():
    async with listening() as listener, listener.client() as client:
        for _ in range(3):
            client.writer.write(b"GET http://[ HTTP/1.1\r\nhost: x\r\n\r\n")
        assert await client.status() == 400
        await client.ends()
    assert (listener.targets, listener.faults) == ([], [])


TORN = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nx"


@pytest.mark.parametrize("second", [b"GET\r\n\r\n", OFFERED, TORN])
async def test_a_refusal_is_not_taken_for_an_answer_that_is_still_made(second: bytes):
    async with listening() as listener, listener.client() as client:
        client.writer.write(GET.replace(b"/", b"/slow", 1) + second)
        assert await client.status() == 0


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
        async with client.dripping(b"\r\n"):
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


async def test_one_connection_too_many_is_closed_and_the_others_work():
    async with listening() as at:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(at.client()) for _ in range(BOUNDS.connections)
            ]
            assert [await client.ask(GET) for client in clients] == [200] * BOUNDS.connections
            async with at.client() as refused:
                assert await refused.status() == 0
            assert at.refused == ["connections"]
            assert [await client.ask(GET) for client in clients] == [200] * BOUNDS.connections
        async with at.client() as client:
            assert await client.ask(GET) == 200


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
            while not at.connections.unread:
                await asyncio.sleep(0)
        (unread,) = at.connections.unread
        kept = unread._pieces._left
        assert max(map(len, kept)) <= 65536
        assert sum(map(len, kept)) <= unread.transport.get_write_buffer_size() < SIZES["/whole"]
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
    async with listening(replace(BOUNDS, left_bytes=100_000)) as at, at.client() as client:
        client.writer.write(REFUSED)
        assert await client.status() == 200
        client.writer.write(b"x" * 100_001)
        await client.is_cut_off()
    async with listening(replace(BOUNDS, linger_s=0.05)) as at, at.client() as client:
        client.writer.write(REFUSED)
        assert await client.status() == 200
        await client.is_cut_off()

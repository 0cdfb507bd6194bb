"""A server on loopback that says what a test has it say, byte for byte."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import cast

from gateway.http1 import (
    AddressInfo,
    Connection,
    Origin,
    Patience,
    Pool,
    Response,
    Waits,
    common_head,
    dial,
    request,
)
from tests.listening import listening

HOST = "127.0.0.1"
SMALL = 4096
"""Of a socket's buffers, so that the machine takes little that its other end does not read."""
COMMON = common_head("/mcp", "peer.test", [])
WAITS = Waits(connect_s=5.0, idle_s=5.0, hard_s=30.0)


def ok(body: bytes, *fields: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *fields, b"", b""]
    return b"\r\n".join(lines) + body


class Visit:
    """One connection, seen from the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def asked(self) -> bytes:
        """Return the next request, whole."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        return head + await self.reader.readexactly(int(fields.get(b"content-length", 0)))

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reads_no_more(self) -> None:
        cast("asyncio.Transport", self.writer.transport).pause_reading()


Script = Callable[[Visit], Awaitable[None]]


async def echoes(visit: Visit) -> None:
    while True:
        asked = await visit.asked()
        await visit.say(ok(asked.partition(b"\r\n\r\n")[2]))


async def hears(visit: Visit) -> None:
    """Hear a request, and say nothing."""
    await visit.asked()
    await visit.reader.read()


class Peer:
    """What a test knows of the server."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.port = 0
        self.visits: list[Visit] = []
        self.left = 0

    async def until_left(self, times: int) -> None:
        """Return once that many connections have ended."""
        await eventually(lambda: self.left == times)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = Visit(reader, writer)
        self.visits.append(visit)
        try:
            await self._script(visit)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.left += 1
            writer.transport.abort()


@asynccontextmanager
async def peer(script: Script, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    served = Peer(script)
    async with listening(served.serve, tls=tls) as served.port:
        yield served


@asynccontextmanager
async def pool(
    port: int, *, most: int = 4, keep_s: float = 30.0, waits: Waits = WAITS, name: str = ""
) -> AsyncIterator[Pool]:
    origin = Origin(host=name or HOST, port=port, is_tls=bool(name))

    async def connect() -> Connection:
        return await dial(origin, [ip_address(HOST)])

    made = Pool(connect, most=most, keep_s=keep_s, waits=waits)
    try:
        yield made
    finally:
        await made.aclose()


async def sent(through: Pool, body: bytes = b"{}", verb: str = "POST", *, who: str = "") -> bytes:
    """Send `body` and return what is answered, whole."""
    response = await through.send(verb, request(verb, COMMON, [], body), who=who)
    try:
        pieces = []
        while piece := await response.piece():
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        response.close()


class Dialled:
    """Connections to a server, with their sockets; those that cannot be used again are closed."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._origin = Origin(host="peer.test", port=port, is_tls=tls is not None)
        self._tls = tls
        self.sockets: list[socket.socket] = []

    async def __call__(self) -> Connection:
        addresses = [ip_address(HOST)]
        connection = await dial(self._origin, addresses, tls=self._tls, sockets=self._socket)
        connection.left = _close_if_useless
        return connection

    def _socket(self, info: AddressInfo) -> socket.socket:
        made = socket.socket(*info[:3])
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
        self.sockets.append(made)
        return made

    async def until_closed(self) -> None:
        await eventually(lambda: all(one.fileno() < 0 for one in self.sockets))


def _close_if_useless(connection: Connection) -> None:
    if not connection.usable:
        connection.close()


def patience() -> Patience:
    return Patience(idle_s=None, until=asyncio.get_running_loop().time() + 60)


async def until_over(response: Response) -> None:
    await eventually(lambda: response.is_over)


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)

"""The one way out of a jail: a proxy that goes where the operator's list says, and nowhere else.

It listens inside the jail and is here, so what is in there needs no network and gets none. What
goes through a tunnel is between its two ends: it is carried, and neither read nor decrypted.
"""

import asyncio
import logging
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from gateway.domain._value import value
from gateway.domain.tools import UpstreamId
from gateway.errors import EgressRefused, ProtocolError
from gateway.upstream.addresses import IPAddress
from gateway.upstream.proxy_head import ProxyRequest, read_request
from gateway.upstream.reach import Reach, addresses_of
from gateway.upstream.resolver import Resolver, SystemResolver
from gateway.upstream.urls import WebUrl

logger = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 64 * 1024
_LAST_S: Final = 5.0
"""For the last of what was written to be taken, once nothing more comes."""
_PAUSE_S: Final = 0.1
"""Before another connection is taken, where this machine had no room for the last one."""
_MOST_TOLD: Final = 100
"""Refused destinations of one server that are told of; it could think of any number."""

Connection: TypeAlias = tuple[StreamReader, StreamWriter]
Dial: TypeAlias = Callable[[IPAddress, int], Awaitable[Connection]]
Tell: TypeAlias = Callable[[UpstreamId, str, str], None]
"""Of a server, of the destination that it was refused, and why."""


async def dial(address: IPAddress, port: int) -> Connection:
    """Connect to an address, which nobody has to look up any more.

    Raises:
        OSError: There is no connection.

    """
    return await asyncio.open_connection(str(address), port)


@value
class ProxyLimits:
    """What the connections of one process may take. None of them can be switched off."""

    connections: int = 32
    """At once; others wait."""
    head_bytes: int = 16 * 1024
    head_s: float = 10.0
    """Until a request's head is there."""
    connect_s: float = 10.0
    """Until its destination is looked up and connected to."""
    idle_s: float = 300.0
    """Without a byte in either direction."""

    def __post_init__(self) -> None:
        if min(self.connections, self.head_bytes, self.head_s, self.connect_s, self.idle_s) <= 0:
            raise ValueError("a limit is a positive number")


class Refusals:
    """Tells of each destination that one server was refused, once."""

    def __init__(self, tell: Tell | None = None) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def __call__(self, server: UpstreamId, asked: WebUrl, why: str) -> None:
        """Log it, and tell whoever keeps a record."""
        host = f"[{asked.host}]" if ":" in asked.host else asked.host
        destination = f"{host}:{asked.port}"
        if destination in self._told or len(self._told) >= _MOST_TOLD:
            return
        self._told.add(destination)
        logger.warning("server %s is refused %s: %s", server, destination, why)
        if self._tell is not None:
            self._tell(server, destination, why)


@value
class WayOut:
    """What the proxies of one server have in common."""

    resolver: Resolver = field(default_factory=SystemResolver)
    dial: Dial = dial
    refusals: Refusals = field(default_factory=Refusals)
    limits: ProxyLimits = ProxyLimits()


class ForwardProxy:
    """A forward proxy (RFC 9110 section 3.7) for one process. Whoever starts it ends it."""

    def __init__(self, server: UpstreamId, reach: Reach, way: WayOut) -> None:
        self._server = server
        self._reach = reach
        self._way = way
        self._limits = way.limits
        self._slots = asyncio.Semaphore(way.limits.connections)
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, listener: socket.socket) -> None:
        """Serve whoever connects to `listener`, which is ours from now on."""
        listener.setblocking(False)
        self._begin(self._accept(listener))

    async def aclose(self) -> None:
        """End every connection, and listen no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, what: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                await self._slots.acquire()
                try:
                    connection, _ = await loop.sock_accept(listener)
                except OSError as error:
                    logger.warning("server %s: no connection taken: %s", self._server, error)
                    self._slots.release()
                    await asyncio.sleep(_PAUSE_S)
                else:
                    self._begin(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        try:
            client = await asyncio.open_connection(sock=connection, limit=self._limits.head_bytes)
            async with _ending(client[1]):
                await self._answer(client)
        except* (OSError, asyncio.IncompleteReadError) as broken:
            logger.debug("server %s: a connection ends: %r", self._server, broken.exceptions)
        finally:
            self._slots.release()

    async def _answer(self, client: Connection) -> None:
        try:
            request = await self._request(client[0])
        except ProtocolError as error:
            logger.debug("server %s: a request is refused: %s", self._server, error.detail)
            await _refuse(client[1], HTTPStatus(error.status), error.detail)
            return
        try:
            async with asyncio.timeout(self._limits.connect_s):
                server = await self._connected(request.url)
        except EgressRefused as error:
            self._way.refusals(self._server, request.url, error.detail)
            await _refuse(client[1], HTTPStatus.FORBIDDEN, error.detail)
            return
        except TimeoutError:
            await _refuse(client[1], HTTPStatus.GATEWAY_TIMEOUT, "no connection in time")
            return
        except OSError:
            await _refuse(client[1], HTTPStatus.BAD_GATEWAY, "no connection")
            return
        async with _ending(server[1]):
            await self._carry(request, client, server)

    async def _request(self, reader: StreamReader) -> ProxyRequest:
        """Read one request's head.

        Raises:
            ProtocolError: It is too large, too slow, or no request for a proxy.
            IncompleteReadError: There is no whole one.

        """
        try:
            async with asyncio.timeout(self._limits.head_s):
                return read_request(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError as error:
            large = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise ProtocolError("", status=large, detail="its head is too large") from error
        except TimeoutError as error:
            late = HTTPStatus.REQUEST_TIMEOUT
            raise ProtocolError("", status=late, detail="its head is too slow") from error

    async def _connected(self, asked: WebUrl) -> Connection:
        """Connect to a destination: judged by its words first, then by where they lead.

        A name is looked up once, and what was judged is what is dialled.

        Raises:
            EgressRefused: It may not be reached.
            OSError: It cannot be reached.

        """
        self._reach.require(asked)
        if asked.address is None:
            told = await self._way.resolver(asked.host, asked.port, self._server)
            addresses = addresses_of(told)
        else:
            addresses = (asked.address,)
        self._reach.admit(asked, addresses)
        *others, last = addresses
        for address in others:
            # Each has its share of the time, so that one that is silent does not use up all of it.
            with suppress(OSError):
                async with asyncio.timeout(self._limits.connect_s / len(addresses)):
                    return await self._way.dial(address, asked.port)
        return await self._way.dial(last, asked.port)

    async def _carry(self, request: ProxyRequest, client: Connection, server: Connection) -> None:
        """Carry what the two ends say to each other until both have ended, or are silent too long."""
        loop, idle_s = asyncio.get_running_loop(), self._limits.idle_s
        async with asyncio.timeout(idle_s) as idle, asyncio.TaskGroup() as both:

            def heard() -> None:
                idle.reschedule(loop.time() + idle_s)

            if request.tunnel:
                await _write(client[1], b"HTTP/1.1 200 Connection established\r\n\r\n")
                both.create_task(_carried(client[0], server[1], heard))
            else:
                await _write(server[1], request.head)
                both.create_task(_carried_exactly(client[0], server[1], heard, request.body_bytes))
            both.create_task(_carried(server[0], client[1], heard))


async def _carried(reader: StreamReader, writer: StreamWriter, heard: Callable[[], None]) -> None:
    while piece := await reader.read(_CHUNK_BYTES):
        await _write(writer, piece)
        heard()
    if not writer.is_closing():
        writer.write_eof()


async def _carried_exactly(
    reader: StreamReader, writer: StreamWriter, heard: Callable[[], None], left: int
) -> None:
    while left > 0:
        piece = await reader.read(min(left, _CHUNK_BYTES))
        if not piece:
            raise ConnectionResetError("a body that does not end")
        left -= len(piece)
        await _write(writer, piece)
        heard()


async def _write(writer: StreamWriter, piece: bytes) -> None:
    # Not every event loop takes what is written to a connection that is gone.
    if writer.is_closing():
        raise ConnectionResetError("the other end is gone")
    writer.write(piece)
    await writer.drain()


async def _refuse(writer: StreamWriter, status: HTTPStatus, detail: str) -> None:
    text = f"The gateway refuses this: {detail}.\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    )
    await _write(writer, head.encode() + text)


@asynccontextmanager
async def _ending(writer: StreamWriter) -> AsyncIterator[None]:
    """Send what is left of it and close it; at once, if something went wrong."""
    try:
        yield
        writer.close()
        async with asyncio.timeout(_LAST_S):
            await writer.wait_closed()
    finally:
        writer.transport.abort()

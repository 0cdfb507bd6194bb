"""A proxy that signs a client in that cannot do so itself: it adds the bearer token.

The suite cannot send a header of ours. Everything else passes byte by byte: `Host` and `Origin`
as the suite wrote them, events as they come, and the end of either side is the end of the other.
"""

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

_Found = TypeVar("_Found")
Made = TypeVar("Made", bound="Shim")

_CONNECTION = re.compile(rb"\r\nconnection:[^\r\n]*", re.IGNORECASE)
_PIECE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Ends:
    """One connection, in both directions."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@dataclass
class Shim:
    """One listener. A connection carries one request, so that no head goes by unseen."""

    port: int
    target_port: int
    token: str = ""
    """Added to requests to MCP endpoints, once there is one."""
    connections: set["asyncio.Task[None]"] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin to serve a connection."""
        connection = asyncio.create_task(self._serve(reader, writer))
        self.connections.add(connection)
        connection.add_done_callback(self.connections.discard)

    async def close(self, server: asyncio.Server) -> None:
        """Stop to listen, and end what is still open."""
        server.close()
        await _end(self.connections)
        await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward: asyncio.StreamWriter | None = None
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            answer, onward = await asyncio.open_connection("127.0.0.1", self.target_port)
            await self._carry(head, Ends(reader, writer), Ends(answer, onward))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # one side is gone, and so is now the other
        finally:
            await shut(*((writer,) if onward is None else (writer, onward)))

    async def _carry(self, head: bytes, client: Ends, server: Ends) -> None:
        """Carry a request whose head was read, and its answer, until either side ends."""
        server.writer.write(signed(head, self.token if path_of(head).startswith(b"/mcp/") else ""))
        await ends_with_the_first(
            _pump(client.reader, server.writer), _pump(server.reader, client.writer)
        )


def path_of(head: bytes) -> bytes:
    """Return the path of a request."""
    return head.split(b" ", 2)[1]


def signed(head: bytes, token: str) -> bytes:
    """Return a request's head for a connection that carries no other, and with a token, if any."""
    line, _, rest = _CONNECTION.sub(b"", head).partition(b"\r\n")
    added = b"Connection: close\r\n"
    if token:
        added += b"Authorization: Bearer " + token.encode() + b"\r\n"
    return line + b"\r\n" + added + rest


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE_BYTES):
        writer.write(piece)
        await writer.drain()


async def ends_with_the_first(*pumps: Coroutine[Any, Any, None]) -> None:
    """Run all of them until one ends."""
    tasks = [asyncio.create_task(pump) for pump in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end(tasks)


async def shut(*writers: asyncio.StreamWriter) -> None:
    """Close connections that may be gone already; each of them, also for whoever is cancelled here."""
    for writer in writers:
        writer.close()
    for writer in writers:
        with suppress(ConnectionError):
            await writer.wait_closed()


async def _end(tasks: Iterable["asyncio.Task[None]"]) -> None:
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


def shim(port: int, target_port: int) -> AbstractContextManager[Shim]:
    """Serve on `port` for the gateway on `target_port`, in a thread, while the context is open."""
    return serving(Shim(port=port, target_port=target_port))


@contextmanager
def serving(made: Made) -> Iterator[Made]:
    """Serve a shim, in a thread, while the context is open."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="shim")
    thread.start()
    try:
        server = _in(loop, asyncio.start_server(made.accept, "127.0.0.1", made.port))
        try:
            yield made
        finally:
            _in(loop, made.close(server))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _Found]) -> _Found:
    return asyncio.run_coroutine_threadsafe(work, loop).result(timeout=10)

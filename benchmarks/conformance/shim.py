"""A proxy that signs a client in that cannot do so itself: it adds the bearer token.

The suite cannot send a header of ours. Everything else passes byte by byte: `Host` and `Origin`
as the suite wrote them, events as they come, and the end of either side is the end of the other.
"""

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

_Found = TypeVar("_Found")

_CONNECTION = re.compile(rb"\r\nconnection:[^\r\n]*", re.IGNORECASE)
_PIECE_BYTES = 64 * 1024


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
            onward.write(self._signed(head))
            await _until_one_ends(_pump(reader, onward), _pump(answer, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # one side is gone, and so is now the other
        finally:
            await _close(writer)
            if onward is not None:
                await _close(onward)

    def _signed(self, head: bytes) -> bytes:
        line, _, rest = _CONNECTION.sub(b"", head).partition(b"\r\n")
        added = b"Connection: close\r\n"
        if self.token and line.split(b" ")[1].startswith(b"/mcp/"):
            added += b"Authorization: Bearer " + self.token.encode() + b"\r\n"
        return line + b"\r\n" + added + rest


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE_BYTES):
        writer.write(piece)
        await writer.drain()


async def _until_one_ends(*pumps: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.create_task(pump) for pump in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end(tasks)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def _end(tasks: Iterable["asyncio.Task[None]"]) -> None:
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


@contextmanager
def shim(port: int, target_port: int) -> Iterator[Shim]:
    """Serve on `port` for the gateway on `target_port`, in a thread, while the context is open."""
    made = Shim(port=port, target_port=target_port)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="shim")
    thread.start()
    try:
        server = _in(loop, asyncio.start_server(made.accept, "127.0.0.1", port))
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

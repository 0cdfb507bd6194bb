"""The network between one gateway and PostgreSQL, which can be cut."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_PIECE: Final = 1 << 16


class Relay:
    """Forwards connections of a port to a Unix socket, in the event loop of a thread of its own."""

    def __init__(self, to: Path) -> None:
        self.port = 0
        self._to = to
        self._flows = asyncio.Event()
        self._flows.set()
        self._ended = asyncio.Event()
        self._refuses = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()

    def cut(self) -> None:
        """End every connection, and let no new one begin."""
        self._do(self._cut)

    def silence(self) -> None:
        """Let nothing through; what is on its way arrives once it is mended, as by TCP it would."""
        self._do(self._flows.clear)

    def mend(self) -> None:
        """Forward as before."""
        self._do(self._mend)

    def _cut(self) -> None:
        self._refuses = True
        for writer in self._writers:
            writer.transport.abort()

    def _mend(self) -> None:
        self._refuses = False
        self._flows.set()

    def _do(self, what: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(what)

    async def _serve(self, ready: threading.Event) -> None:
        server = await asyncio.start_server(self._joined, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._ended.wait()
        server.close()
        self._cut()

    async def _joined(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self._writers.add(to_client)
        try:
            if not self._refuses:
                await self._forwarded(client, to_client)
        finally:
            self._writers.discard(to_client)
            to_client.transport.abort()

    async def _forwarded(
        self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        await self._flows.wait()
        try:
            server, to_server = await asyncio.open_unix_connection(self._to)
        except OSError:
            return
        self._writers.add(to_server)
        try:
            ways = {
                asyncio.create_task(self._moved(client, to_server)),
                asyncio.create_task(self._moved(server, to_client)),
            }
            _, others = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        finally:
            self._writers.discard(to_server)
            to_server.transport.abort()

    async def _moved(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await source.read(_PIECE):
                await self._flows.wait()
                to.write(piece)
                await to.drain()
            await self._flows.wait()

    def serve(self, ready: threading.Event) -> None:
        """Forward until `end`, in the thread of whoever calls."""
        self._loop.run_until_complete(self._serve(ready))
        if pending := asyncio.all_tasks(self._loop):
            for task in pending:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(pending))
        self._loop.close()

    def end(self) -> None:
        self._do(self._ended.set)


@contextmanager
def relay(to: Path) -> Iterator[Relay]:
    """Forward from a free port until the end of the block."""
    made, ready = Relay(to), threading.Event()
    thread = threading.Thread(target=made.serve, args=(ready,))
    thread.start()
    ready.wait()
    try:
        yield made
    finally:
        made.end()
        thread.join()

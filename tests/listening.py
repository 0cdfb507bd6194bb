"""A listener on loopback that leaves nothing behind, whoever is still connected."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_TURNS = 5
_MOST_TURNS = 1_000


class _Remembering(socket.socket):
    """A listening socket that knows whom it accepted, also who has said nothing yet."""

    def __init__(self) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self.accepted: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, object]:
        """Accept a connection, and remember it."""
        connection, peer = super().accept()
        self.accepted.append(connection)
        return connection, peer

    @property
    def still_open(self) -> list[socket.socket]:
        """Whoever was accepted and is not closed on this side."""
        return [connection for connection in self.accepted if connection.fileno() >= 0]


@asynccontextmanager
async def listening(answer: Answering, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Have `answer` serve a port of its own, which is the result, while the context is open.

    A connection that nobody has closed by then is cut: browsers open some that they never use.
    """
    writers: set[asyncio.StreamWriter] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        await answer(reader, writer)

    listener = _Remembering()
    listener.bind(("127.0.0.1", 0))
    server = await asyncio.start_server(accept, sock=listener, ssl=tls)
    port: int = listener.getsockname()[1]
    try:
        yield port
    finally:
        # Nobody is accepted any more. A server that is closed first drops whom it accepted in the same
        # turn, and leaves their transports open (CPython 3.11).
        asyncio.get_running_loop().remove_reader(listener)
        for turn in range(_MOST_TURNS):
            # Whoever was accepted in the last turn is heard of in the next ones, and has its end after.
            if turn >= _TURNS and not listener.still_open:
                break
            for writer in writers:
                writer.transport.abort()
            for connection in listener.still_open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            await asyncio.sleep(0)
        server.close()
        await server.wait_closed()

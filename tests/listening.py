"""A listener on loopback that leaves nothing behind, whoever is still connected."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_TURNS = 5


@asynccontextmanager
async def listening(answer: Answering, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Have `answer` serve a port of its own, which is the result, while the context is open.

    A connection that nobody has closed by then is cut: browsers open some that they never use.
    """
    writers: set[asyncio.StreamWriter] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        await answer(reader, writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for _ in range(_TURNS):  # whoever was accepted in the last one is heard of in the next
            for writer in writers:
                writer.transport.abort()
            await asyncio.sleep(0)
        await server.wait_closed()

"""A page of another site: on this machine, but of another origin."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def elsewhere(host: str, page: str) -> AsyncIterator[str]:
    """Serve `page` on a port of its own; the result is its URL at `host`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"
            writer.write((head + page).encode())
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # browsers open connections that they do not use
        finally:
            writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://{host}:{listener.sockets[0].getsockname()[1]}/"
    finally:
        listener.close()

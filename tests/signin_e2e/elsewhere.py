"""A page of another site: on this machine, but of another origin."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.listening import listening


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

    async with listening(answer) as port:
        yield f"http://{host}:{port}/"

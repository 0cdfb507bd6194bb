"""Where a client of ours waits for the browser: a listener at a redirect URI on the loopback."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.listening import listening
from tests.signin_e2e.browser import query_of

_PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nYou may close this."
)


@dataclass
class Callback:
    """A listener, and the answers that came to it."""

    uri: str
    answers: "asyncio.Queue[Mapping[str, str]]" = field(default_factory=asyncio.Queue)

    async def answer(self) -> Mapping[str, str]:
        """Return the parameters of the next answer."""
        return await asyncio.wait_for(self.answers.get(), 60)


@asynccontextmanager
async def callback(path: str = "/callback") -> AsyncIterator[Callback]:
    """Listen on a free port while the context is open."""
    made = Callback(uri="")

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            target = head.split(b" ")[1].decode("ascii")
            if target.startswith(f"{path}?"):
                made.answers.put_nowait(query_of(target))
            writer.write(_PAGE)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # browsers open connections that they do not use
        finally:
            writer.close()

    async with listening(accept) as port:
        made.uri = f"http://127.0.0.1:{port}{path}"
        yield made

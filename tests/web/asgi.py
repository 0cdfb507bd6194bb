"""One HTTP request put to an ASGI application in this process, and what it answers."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HOST = (b"host", b"127.0.0.1:8080")
Pairs = Sequence[tuple[bytes, bytes]]


@dataclass
class Exchange:
    """A request whose body arrives chunk by chunk, and everything that was sent back."""

    chunks: Iterable[bytes] = (b"",)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the client has hung up, behind its last chunk."""
    never_ends: bool = False
    """Whether more is announced behind the last chunk."""
    received: int = 0
    sent: list[Mapping[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = list(self.chunks)

    async def receive(self) -> Mapping[str, Any]:
        self.received += 1
        if self._left:
            chunk = self._left.pop(0)
            more = bool(self._left) or self.never_ends
            return {"type": "http.request", "body": chunk, "more_body": more}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Mapping[str, Any]) -> None:
        self.sent.append(message)

    async def ask(self, app: Any, method: str, path: str, headers: Pairs) -> "Exchange":
        """Let `app` answer; the headers are raw, with lower-case names."""
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "http_version": "1.1",
            "headers": list(headers),
            "client": ("192.0.2.7", 50000),
            "server": ("127.0.0.1", 8080),
        }
        await app(scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): text.decode() for name, text in self.sent[0]["headers"]}

    @property
    def parts(self) -> list[tuple[bytes, bool]]:
        """The pieces of the body, and whether more was to follow each."""
        return [(m.get("body", b""), m.get("more_body", False)) for m in self.sent[1:]]

    @property
    def body(self) -> bytes:
        return b"".join(part for part, _ in self.parts)


async def ask(
    app: Any, method: str, path: str, headers: Pairs = (HOST,), body: bytes = b""
) -> Exchange:
    """Put one request with a whole body to `app`."""
    return await Exchange(chunks=[body]).ask(app, method, path, headers)

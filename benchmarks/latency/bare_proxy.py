"""The gateway's two HTTP libraries and nothing else: `... bare_proxy UPSTREAM PORT`.

uvicorn takes a request, aiohttp sends it on, and nothing is looked at: what no check can undercut.
"""

import sys

import aiohttp
import uvicorn
from starlette.types import Receive, Scope, Send

_KEPT = frozenset({b"content-type", b"accept", b"mcp-protocol-version", b"mcp-method", b"mcp-name"})


class BareProxy:
    """An ASGI application that sends every POST on."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with what the upstream answers."""
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=False)
        message = await receive()
        headers = [(k.decode(), v.decode()) for k, v in scope["headers"] if k in _KEPT]
        async with self._session.post(
            self._upstream, data=message["body"], headers=headers
        ) as answer:
            body = await answer.read()
        head = [
            (b"content-type", answer.headers.get("content-type", "").encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": head})
        await send({"type": "http.response.body", "body": body})


def main(upstream: str, port: int) -> None:
    """Serve until the process ends."""
    uvicorn.run(
        BareProxy(upstream),
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

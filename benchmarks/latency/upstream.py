"""An MCP server that costs next to nothing: `python -m benchmarks.latency.upstream PORT`.

HTTP is parsed by httptools and answered from the parser's own callback, so that what a
measurement shows is what stands in front of it.
"""

import asyncio
import sys
from typing import Any, cast

import httptools
import orjson
import uvloop

TOOL = "echo"
_TOOLS = [
    {
        "name": TOOL,
        "description": "Say the text again.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "to": {"type": "string"}},
            "required": ["text"],
        },
        "annotations": {"readOnlyHint": True},
    }
]
_INFORMATION = {
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "echo", "version": "1"},
}
_STATELESS = "2026-07-28"
_LASTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_METHOD_NOT_FOUND = -32601

_ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
_NOT_ALLOWED = b"HTTP/1.1 405 Method Not Allowed\r\nAllow: POST\r\nContent-Length: 0\r\n\r\n"
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def answer(body: bytes) -> bytes | None:
    """Answer one JSON-RPC message; a notification has no answer."""
    message = orjson.loads(body)
    if "id" not in message:
        return None
    result = _result(message["method"], message.get("params") or {})
    found: dict[str, Any] = (
        {"error": {"code": _METHOD_NOT_FOUND, "message": "no such method"}}
        if result is None
        else {"result": result}
    )
    return orjson.dumps({"jsonrpc": "2.0", "id": message["id"], **found})


def _result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "tools/call":
            text = f"ok {params['arguments']['text']}"
            content = [{"type": "text", "text": text}]
            return {"content": content, "isError": False, "resultType": "complete"}
        case "tools/list":
            return {"tools": _TOOLS, **_LASTS}
        case "server/discover":
            return {"supportedVersions": [_STATELESS], **_INFORMATION, **_LASTS}
        case "initialize":
            return {"protocolVersion": params["protocolVersion"], **_INFORMATION}
        case "ping":
            return {}
        case _:
            return None


class Server(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._transport = cast("asyncio.Transport", None)
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's streams are transports in all but their class.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """Forget the request before (httptools)."""
        self._body = b""

    def on_body(self, piece: bytes) -> None:
        """Keep a piece of the body (httptools)."""
        self._body += piece

    def on_message_complete(self) -> None:
        """Answer the request (httptools)."""
        if self._parser.get_method() != b"POST":
            self._transport.write(_NOT_ALLOWED)
        elif (found := answer(self._body)) is None:
            self._transport.write(_ACCEPTED)
        else:
            self._transport.write(_OK % len(found) + found)


async def serve(port: int) -> None:
    """Listen on the loopback until the process ends."""
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))

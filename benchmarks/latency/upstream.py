"""An MCP server that costs next to nothing: `python -m benchmarks.latency.upstream PORT`.

HTTP is parsed by httptools and answered from the parser's own callback, so that what a
measurement shows is what stands in front of it. The path says what answers look like: `/mcp/b65536`
has texts of so many bytes, `/mcp/streamed` sends each in a stream behind one event of progress, and
`/mcp/t100` has a hundred tools.
"""

import asyncio
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import httptools
import orjson
import uvloop

TOOL = "echo"
_PAGE = 250
"""Tools of one answer."""
_WORDS = "the quick brown fox jumps over the lazy dog, and then "
"""What long answers are made of: prose, in which no check finds anything."""


_INFORMATION = {
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "echo", "version": "1"},
}
_STATELESS = "2026-07-28"
_LASTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_METHOD_NOT_FOUND = -32601

_ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
_NOT_ALLOWED = b"HTTP/1.1 405 Method Not Allowed\r\nAllow: POST\r\nContent-Length: 0\r\n\r\n"
_STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_LAST = b"0\r\n\r\n"
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What answers look like."""

    octets: int = 0
    """Of a text, at least."""
    streamed: bool = False
    tools: int = 1


@lru_cache(maxsize=16)
def shape_of(path: bytes) -> Shape:
    """Return what the words of `path` say: `bN` and `tN` a number, `streamed` itself."""
    words = path.decode("latin-1").split("/")
    numbers = {word[0]: int(word[1:]) for word in words if word[1:].isdigit()}
    return Shape(
        octets=numbers.get("b", 0), streamed="streamed" in words, tools=numbers.get("t", 1)
    )


_SMALL = Shape()


def answer(body: bytes, shape: Shape = _SMALL) -> bytes | None:
    """Answer one JSON-RPC message with a message; a notification has no answer."""
    return _answer(orjson.loads(body), shape)


def _answer(message: dict[str, Any], shape: Shape) -> bytes | None:
    if "id" not in message:
        return None
    result = _result(message["method"], message.get("params") or {}, shape)
    found: dict[str, Any] = (
        {"error": {"code": _METHOD_NOT_FOUND, "message": "no such method"}}
        if result is None
        else {"result": result}
    )
    return orjson.dumps({"jsonrpc": "2.0", "id": message["id"], **found})


def _result(method: str, params: dict[str, Any], shape: Shape) -> dict[str, Any] | None:
    match method:
        case "tools/call":
            text = f"ok {params['arguments']['text']}"
            if lacking := shape.octets - len(text):
                text += f" {_long(lacking)}" if lacking > 0 else ""
            content = [{"type": "text", "text": text}]
            return {"content": content, "isError": False, "resultType": "complete"}
        case "tools/list":
            return {**_page(shape.tools, int(params.get("cursor", 0))), **_LASTS}
        case "server/discover":
            return {"supportedVersions": [_STATELESS], **_INFORMATION, **_LASTS}
        case "initialize":
            return {"protocolVersion": params["protocolVersion"], **_INFORMATION}
        case "ping":
            return {}
        case _:
            return None


@lru_cache(maxsize=256)
def _long(octets: int) -> str:
    return (_WORDS * (octets // len(_WORDS) + 1))[:octets]


def _page(count: int, start: int) -> dict[str, Any]:
    """Return one page of the list of tools, from `start` on."""
    end = start + _PAGE
    more = {"nextCursor": str(end)} if end < count else {}
    return {"tools": _tools(count)[start:end], **more}


@lru_cache(maxsize=8)
def _tools(count: int) -> list[dict[str, Any]]:
    names = [TOOL, *(f"{TOOL}_{number}" for number in range(1, count))]
    return [
        {
            "name": name,
            "description": "Say the text again.",
            "inputSchema": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "to": {"type": "string"}},
                "required": ["text"],
            },
            "annotations": {"readOnlyHint": True},
        }
        for name in names
    ]


def _events(message: dict[str, Any], found: bytes) -> bytes:
    """Return a stream with the answer, behind progress where that is asked for."""
    token = (message.get("params") or {}).get("_meta", {}).get("progressToken")
    events = []
    if token is not None:
        params = {"progressToken": token, "progress": 1, "total": 2}
        told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        events.append(orjson.dumps(told))
    chunks = [b"event: message\ndata: %b\n\n" % event for event in (*events, found)]
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)


class Server(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._transport = cast("asyncio.Transport", None)
        self._body = b""
        self._path = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's streams are transports in all but their class.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """Forget the request before (httptools)."""
        self._body = self._path = b""

    def on_url(self, piece: bytes) -> None:
        """Keep a piece of the path (httptools)."""
        self._path += piece

    def on_body(self, piece: bytes) -> None:
        """Keep a piece of the body (httptools)."""
        self._body += piece

    def on_message_complete(self) -> None:
        """Answer the request (httptools)."""
        if self._parser.get_method() != b"POST":
            self._transport.write(_NOT_ALLOWED)
            return
        shape, message = shape_of(self._path), orjson.loads(self._body)
        if (found := _answer(message, shape)) is None:
            self._transport.write(_ACCEPTED)
        elif shape.streamed and message["method"] == "tools/call":
            self._transport.write(_STREAM + _events(message, found) + _LAST)
        else:
            self._transport.write(_OK % len(found) + found)


async def serve(port: int) -> None:
    """Listen on the loopback until the process ends."""
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))

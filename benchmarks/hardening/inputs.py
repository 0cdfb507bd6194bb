"""What a hostile caller sends, and a hostile server answers, step by step."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.e2e.posting import LEGACY
from tests.e2e.scripted import FRESH, told
from tests.e2e.site import OURS

_MIB: Final = 1 << 20
_NODES: Final = 90_000
"""As many as one text may have, but for the message around them."""
RULE: Final = """package douane

deny contains {"code": "weary", "message": "this is never reached"} if {
	input.phase == "call"
	input.target.name == "weary"
	some one in input.arguments.many
	some other in input.arguments.many
	one + other == -1
}
"""
"""Whoever calls `weary` says how long policy thinks."""

_ANY: Final = {"type": "object"}
_TEXT: Final = {"type": "object", "properties": {"text": {"type": "string"}}}
_SENDS: Final = {
    "type": "object",
    "properties": {"to": {"type": "array"}, "text": {}},
}
_PARTS: Final = {
    "type": "object",
    "properties": {
        "parts": {
            "type": "array",
            "items": {
                "anyOf": [
                    *({"properties": {"x": {"pattern": f"^a+b{n}"}}} for n in range(60)),
                    {"type": "object"},
                ]
            },
        }
    },
}
_RESULT: Final = {"type": "object", "properties": {"a": {"type": "array", "items": {}}}}
TOOLS: Final[list[dict[str, Any]]] = [
    {"name": "plain", "description": "Takes anything.", "inputSchema": _ANY},
    {"name": "weary", "description": "Is thought about.", "inputSchema": _ANY},
    {"name": "send", "description": "Sends a text.", "inputSchema": _SENDS},
    {"name": "parts", "description": "Takes parts.", "inputSchema": _PARTS},
    {
        "name": "told",
        "description": "Tells a lot.",
        "inputSchema": _TEXT,
        "outputSchema": _RESULT,
    },
]
LABELS: Final = {
    "defaults": OURS,
    "tools": {
        **{
            name: {"effect": "read", "result": OURS} for name in ("plain", "weary", "parts", "told")
        },
        "send": {"effect": "egress", "destination": ["to"], "payload": ["text"], "result": OURS},
    },
}
"""Of the server `raw`."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request: as one of the stateless revision, or of a legacy one."""

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""
    """In place of what the others make."""
    legacy: bool = False
    endpoint: str = "/mcp/raw"
    token: bool = True


@dataclass(frozen=True, kw_only=True)
class Step:
    """Requests that are made one after the other, and how the server answers each."""

    asks: Callable[[], Sequence[Ask]]
    says: Callable[[Any], Any] | None = None
    """The result of whatever is asked for; `None` answers as any server does."""
    streams: Callable[[Any], bytes] | None = None
    """The whole stream of an answer."""
    at_once: int = 1


def call(tool: str, arguments: Any, **more: Any) -> Ask:
    """Return a call of `tool`."""
    return Ask(method="tools/call", params={"name": tool, "arguments": arguments}, **more)


def _result(content: Any) -> dict[str, Any]:
    return {**told("done"), "structuredContent": content}


def _deep(levels: int) -> Any:
    node: Any = 1
    for _ in range(levels):
        node = [node]
    return node


def _encoded(size: int) -> str:
    word = base64.b64encode(b"mallory@evil.example ").decode().rstrip("=")
    return " ".join([word, "%6d%61", "&#109;", "xn--mnchen-3ya", "6d616c6c6f7279"] * (size // 70))


def _addresses(count: int, domain: str) -> list[str]:
    return [f"somebody{number}@{domain}" for number in range(count)]


def _tools(count: int) -> list[dict[str, Any]]:
    return [
        {
            "name": f"made{n}",
            "description": "Says " + "what it is told. " * 40,
            "inputSchema": _PARTS,
        }
        for n in range(count)
    ]


def _event(data: bytes) -> bytes:
    return b"event: message\ndata: " + data + b"\n\n"


def answered(message: Any, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


def _in_lines(message: Any) -> bytes:
    """Return an answer in as many lines as a stream's limit allows."""
    head, tail = answered(message, told("x")).split(b"{", 1)
    return b"data:" + head + b"{\n" + b"data:\n" * (_MIB // 2) + b"data:" + tail + b"\n\n"


def _notices(count: int) -> Callable[[Any], bytes]:
    def stream(message: Any) -> bytes:
        params = {"progressToken": 1, "progress": 1, "message": "m" * 100}
        notice = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        return _event(json.dumps(notice).encode()) * count + _event(answered(message, told("x")))

    return stream


def _blank_lines(message: Any) -> bytes:
    return _event(answered(message, told("x"))) + b"\n" * 65_536


def _question(message: Any) -> bytes:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(2000)}}
    params = {"message": "m" * 100_000, "requestedSchema": schema}
    asked = {"jsonrpc": "2.0", "id": 99, "method": "elicitation/create", "params": params}
    return _event(json.dumps(asked).encode()) + _event(answered(message, told("x")))


def _error(message: Any) -> bytes:
    error = {"code": -32000, "message": "no", "data": [{}] * (_NODES // 2)}
    return _event(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())


_MANY: Final[list[dict[str, int]]] = [{} for _ in range(_NODES // 2)]
_NUMBERS: Final = [1e22] * _NODES
_FAR: Final = [1e-300 + number * 1e-303 for number in range(_NODES)]
"""What a plain writer of numbers takes a hundred times as long for."""
_INTEGERS: Final = [2**53 - 1] * _NODES
_MEMBERS: Final = {f"name{number}": 1 for number in range(_NODES // 2)}
_ODD_MEMBERS: Final = {f"n\u00e4me {number}'": 1 for number in range(_NODES // 2)}
_PLACES: Final = [{"id": n, "to": f"a{n}@x.example"} for n in range(12_000)]
_TELLS: Final = {"a": _PLACES}


STEPS: Final[Mapping[str, Step]] = {
    "numbers": Step(asks=lambda: [call("plain", {"a": _NUMBERS})] * 3),
    "far floats": Step(
        asks=lambda: (
            [
                call("raw__plain", {"a": [2**53 - 1, *_FAR]}, endpoint="/mcp"),
                call(
                    "call_tool",
                    {"name": "raw__plain", "arguments": {"a": _FAR}},
                    endpoint="/mcp",
                ),
            ]
            * 2
        )
    ),
    "results of far floats": Step(
        asks=lambda: [call("raw__told", {"text": "t"}, endpoint="/mcp")] * 2,
        says=lambda _: _result({"a": [2**64, *_FAR]}),
    ),
    "line breaks": Step(
        asks=lambda: [call("told", {"text": "t"})] * 2, says=lambda _: told("\n" * _MIB)
    ),
    "integers": Step(asks=lambda: [call("plain", {"a": _INTEGERS})] * 3),
    "empties": Step(asks=lambda: [call("plain", {"a": _MANY})] * 3),
    "members": Step(asks=lambda: [call("plain", _MEMBERS), call("plain", _ODD_MEMBERS)] * 2),
    "deep": Step(asks=lambda: [call("plain", {"a": [_deep(50)] * 800})] * 3),
    "text": Step(
        asks=lambda: [call("plain", {"a": "\u20ac" * _MIB}), call("plain", {"a": "a" * 3 * _MIB})]
    ),
    "schema": Step(asks=lambda: [call("parts", {"parts": [{"x": "a" * 20}] * 9000})] * 2),
    "spellings": Step(
        asks=lambda: [
            call("send", {"to": _addresses(200, "x.example"), "text": _encoded(size)})
            for size in (10_000, 20_000, 40_000, 60_000)
        ]
    ),
    "fuel": Step(asks=lambda: [call("weary", {"many": list(range(n))}) for n in (300, 3000, 9000)]),
    "results": Step(
        asks=lambda: [call("told", {"text": "t"})] * 2, says=lambda _: _result({"a": _MANY})
    ),
    "texts": Step(
        asks=lambda: [call("told", {"text": "t"})] * 2,
        says=lambda _: told(json.dumps(_TELLS)),
    ),
    "proofs": Step(
        asks=lambda: (
            [
                call("told", {"text": _encoded(20_000)}),
                call("send", {"to": ["a1@x.example", "a2@x.example"], "text": "a3@x.example"}),
            ]
            * 3
        ),
        says=lambda _: _result({"a": _PLACES[:9000]}),
    ),
    "stream of many": Step(
        asks=lambda: [call("plain", {})] * 2,
        streams=lambda message: _event(answered(message, _result({"a": _MANY}))),
    ),
    "stream of lines": Step(asks=lambda: [call("plain", {})] * 2, streams=_in_lines),
    "stream of notices": Step(asks=lambda: [call("plain", {})] * 2, streams=_notices(5000)),
    "stream of blank lines": Step(asks=lambda: [call("plain", {})] * 2, streams=_blank_lines),
    "stream that asks": Step(asks=lambda: [call("plain", {})] * 2, streams=_question),
    "errors": Step(asks=lambda: [call("plain", {})] * 2, streams=_error),
    "tools": Step(
        asks=lambda: [Ask(method="tools/list")] * 3,
        says=lambda _: {"tools": _tools(700), **FRESH},
    ),
    "resources": Step(
        asks=lambda: [Ask(method="resources/list")] * 2,
        says=lambda _: {
            "resources": [{"uri": f"raw://{n}", "name": f"n{n}"} for n in range(9000)],
            **FRESH,
        },
    ),
    "prompts": Step(
        asks=lambda: [Ask(method="resources/read", params={"uri": "raw://" + "n" * 8000})] * 20
    ),
    "handshakes": Step(
        asks=lambda: (
            [
                Ask(
                    method="initialize",
                    legacy=True,
                    params={
                        "protocolVersion": LEGACY,
                        "capabilities": {"experimental": _MEMBERS},
                        "clientInfo": {"name": "c", "version": "1"},
                    },
                )
            ]
            * 2
        )
    ),
    "answers": Step(
        asks=lambda: (
            [
                Ask(
                    method="tools/call",
                    params={
                        "name": "plain",
                        "arguments": {},
                        "inputResponses": {"a": {"action": "accept", "content": _MEMBERS}},
                        "requestState": "s" * 200_000,
                    },
                )
            ]
            * 2
        )
    ),
    "refused": Step(
        asks=lambda: [Ask(method="tools/call", body=b"[" + b"{}," * 30_000 + b"{}]")] * 200,
        at_once=32,
    ),
    "strangers": Step(
        asks=lambda: (
            [Ask(method="tools/call", body=b"[" + b"1e22," * 30_000 + b"1]", token=False)] * 100
        ),
        at_once=32,
    ),
    "one endpoint": Step(
        asks=lambda: (
            [
                call("raw__plain", {"a": _MANY}, endpoint="/mcp"),
                Ask(method="tools/list", endpoint="/mcp"),
            ]
            * 2
        ),
    ),
}

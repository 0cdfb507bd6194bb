"""The names that MCP gives to members, by the object that they stand in.

A reader that matches names loosely takes `Result` for `result`, and some languages' readers do; the
Python SDK's reads `is_error` for `isError`, and `meta` for `_meta`. So
no object of the protocol may hold a name that could be taken for one of its own, or two names that
could be taken for each other. What a server or a tool names itself is not looked into from here:
structured content, arguments, settings of extensions, what is logged.
"""

from collections.abc import Mapping
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.alike import ROOM, Known, Room, begins, twin

OURS: Final = "douane/"
"""What members of `_meta` begin with that the gateway alone writes and reads."""


@value
class _Shape:
    """An object of the protocol; of a list, each of its items."""

    known: Known
    inside: Mapping[str, str]
    """Members that are objects of the protocol too, and of which shape."""
    each: str = ""
    """The shape of every member's value, where whoever sends it chooses the names."""


SCHEMA: Final = "schema"
"""A JSON Schema: no two names in one object of it are alike, whatever they mean there."""

_META: Final = "_meta"
_CALLED: Final = "meta"
"""What readers call `_meta` whose language has other names for members than the protocol."""


def _known(words: str) -> Known:
    names = words.split()
    return Known.of(names, read_as=[_CALLED] if _META in names else [])


_ITEM: Final = "_meta annotations description icons name title "
_IN_ITEM: Final = {"_meta": "meta", "annotations": "annotations", "icons": "icon"}
_WORDS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "message": (
        "error id jsonrpc method params result",
        {"error": "error", "params": "params", "result": "result"},
    ),
    "error": ("code data message", {"data": "error data"}),
    "error data": (
        "elicitations requested requiredCapabilities supported",
        {"elicitations": "params"},
    ),
    "result": (
        (
            "_meta action cacheScope capabilities completion content contents createdAt description error"
            " inputRequests instructions isError lastUpdatedAt messages model nextCursor pollIntervalMs"
            " prompts protocolVersion requestState resourceTemplates resources result resultType role roots"
            " serverInfo status statusMessage stopReason structuredContent supportedVersions task taskId"
            " tasks tools ttlMs"
        ),
        {
            "_meta": "meta",
            "capabilities": "capabilities",
            "completion": "completion",
            "content": "block",
            "contents": "contents",
            "error": "error",
            "inputRequests": "requests",
            "messages": "said",
            "result": "result",
            "roots": "root",
            "serverInfo": "implementation",
        },
    ),
    "params": (
        (
            "_meta argument arguments capabilities clientInfo context cursor data elicitationId"
            " includeContext inputResponses level logger maxTokens message messages metadata mode"
            " modelPreferences name notifications progress progressToken protocolVersion reason ref"
            " requestId requestState requestedSchema stopSequences systemPrompt task taskId temperature"
            " title toolChoice tools total uri url"
        ),
        {
            "_meta": "meta",
            "argument": "argument",
            "capabilities": "capabilities",
            "clientInfo": "implementation",
            "context": "context",
            "inputResponses": "responses",
            "messages": "said",
            "modelPreferences": "preferences",
            "notifications": "wanted",
            "ref": "reference",
            "requestedSchema": SCHEMA,
            "tools": "tool",
        },
    ),
    "meta": (
        (
            "douane/origin douane/refusal douane/run douane/task progressToken"
            " io.modelcontextprotocol/clientCapabilities io.modelcontextprotocol/clientInfo"
            " io.modelcontextprotocol/logLevel io.modelcontextprotocol/protocolVersion"
            " io.modelcontextprotocol/related-task io.modelcontextprotocol/serverInfo"
            " io.modelcontextprotocol/subscriptionId baggage traceparent tracestate ui ui/resourceUri"
        ),
        {
            "io.modelcontextprotocol/clientCapabilities": "capabilities",
            "io.modelcontextprotocol/clientInfo": "implementation",
            "io.modelcontextprotocol/serverInfo": "implementation",
        },
    ),
    "capabilities": (
        (
            "completions elicitation experimental extensions logging prompts resources roots sampling"
            " tasks tools"
        ),
        {
            "elicitation": "ability",
            "prompts": "ability",
            "resources": "ability",
            "roots": "ability",
            "sampling": "ability",
            "tools": "ability",
        },
    ),
    "ability": ("context form listChanged subscribe tools url", {}),
    "implementation": ("description icons name title version websiteUrl", {"icons": "icon"}),
    "icon": ("mimeType sizes src theme", {}),
    "annotations": (
        (
            "audience destructiveHint idempotentHint lastModified openWorldHint priority readOnlyHint"
            " title"
        ),
        {},
    ),
    "block": (
        _ITEM + "blob content data id input isError mimeType resource size structuredContent text"
        " toolUseId type uri",
        {**_IN_ITEM, "content": "block", "resource": "contents"},
    ),
    "contents": ("_meta blob mimeType text uri", {"_meta": "meta"}),
    "said": ("_meta content role", {"_meta": "meta", "content": "block"}),
    "completion": ("hasMore total values", {}),
    "root": ("_meta name uri", {"_meta": "meta"}),
    "request": ("method params", {"params": "params"}),
    "response": (
        "_meta action content model role roots stopReason",
        {"_meta": "meta", "roots": "root"},
    ),
    "argument": ("name value", {}),
    "context": ("arguments", {}),
    "reference": ("name title type uri", {}),
    "wanted": (
        "promptsListChanged resourceSubscriptions resourcesListChanged toolsListChanged",
        {},
    ),
    "preferences": ("costPriority hints intelligencePriority speedPriority", {}),
    "tool": (
        _ITEM + "execution inputSchema outputSchema",
        {**_IN_ITEM, "inputSchema": SCHEMA, "outputSchema": SCHEMA},
    ),
    "prompt": (_ITEM + "arguments", {**_IN_ITEM, "arguments": "parameter"}),
    "parameter": ("description name required title", {}),
    "resource": (_ITEM + "mimeType size uri", _IN_ITEM),
    "template": (_ITEM + "mimeType uriTemplate", _IN_ITEM),
    "server": (
        "capabilities instructions name serverInfo",
        {"capabilities": "capabilities", "serverInfo": "implementation"},
    ),
}
_SHAPES: Final[Mapping[str, _Shape]] = {
    **{
        shape: _Shape(known=_known(words), inside=inside)
        for shape, (words, inside) in _WORDS.items()
    },
    "requests": _Shape(known=Known.of(()), inside={}, each="request"),
    "responses": _Shape(known=Known.of(()), inside={}, each="response"),
}
WORDS: Final = frozenset(word for words, _ in _WORDS.values() for word in words.split())
"""Every name that the protocol gives to a member of anything."""


def names_in(shape: str) -> frozenset[str]:
    """Return the names that the protocol gives to members of an object of this `shape`."""
    return _SHAPES[shape].known.names


def confusing(content: Any, shape: str) -> str | None:
    """Return a name in `content`, an object of this `shape`, that could be taken for another one.

    So may be all names of the protocol's objects together that are over `ROOM` signs and not ASCII, and
    of schemas over `ROOMY`: no more are compared for one message.
    """
    waiting = [(content, shape)]
    room, of_schemas = ROOM, None
    while waiting:
        node, at = waiting.pop()
        if isinstance(node, list):
            waiting += [(item, at) for item in node if isinstance(item, dict | list)]
        elif isinstance(node, dict):
            found = _SHAPES.get(at)
            if found is None or found.each:
                waiting += _inside(node, at)
            else:
                inside = found.inside
                waiting += [(inner, inside[name]) for name, inner in node.items() if name in inside]
                if node.keys() <= found.known.names:
                    continue  # as nearly all are
            if at != SCHEMA:
                foreign: list[str] = [name for name in node if not name.isascii()]
                room -= sum(map(len, foreign))
                if room < 0:
                    return foreign[-1]
            of_schemas = of_schemas or Room()
            if (name := _confused(node, at, of_schemas)) is not None:
                return name
    return None


def is_ours(name: str) -> bool:
    """Whether a member of `_meta` speaks in the gateway's name, or could be taken to."""
    return begins(name, OURS)


def _confused(node: dict[str, Any], shape: str, of_schemas: Room) -> str | None:
    if shape != SCHEMA:
        known = _SHAPES[shape].known
        if node.keys() <= known.names:
            return None
        if (name := known.confused(node)) is not None:
            return name
        if shape == "meta" and (name := _half_ours(node)) is not None:
            return name
    return twin(node, of_schemas)


def _half_ours(meta: dict[str, Any]) -> str | None:
    return next((name for name in meta if is_ours(name) and not name.startswith(OURS)), None)


def _inside(node: dict[str, Any], shape: str) -> list[tuple[Any, str]]:
    """Return the members of a schema, or of a map whose names are nobody's, with what each is."""
    of = SCHEMA if shape == SCHEMA else _SHAPES[shape].each
    return [(inner, of) for inner in node.values()]

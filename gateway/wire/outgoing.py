"""What every value of a client's message is that goes on to a server, in the eyes of data flow.

The table is the whole truth: a member that is not in it is content, which is looked at most closely,
and a test holds it against the SDK's own lists of members.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from gateway.domain.calls import Form, Message
from gateway.errors import ProtocolError
from gateway.wire.inbound import MODERN_CAPABILITIES_KEY
from gateway.wire.jsonrpc import INVALID_PARAMS
from gateway.wire.operations import REFERENCES


class Part(StrEnum):
    """What a member is."""

    NAME = "name"
    """The name of something that was approved under it: it says nothing of the caller's own."""
    ARGUMENTS = "arguments"
    """A tool's arguments: its labels say which of them is a destination and which is payload."""
    PLACE = "place"
    """A destination, unless this server gave it out itself."""
    GIVEN = "given"
    """What this server gave out, to be brought back; made up, it is a destination that nobody knows."""
    CONTENT = "content"
    """What the caller says. Much of it needs the proof of a destination, for it reaches the server."""
    ANSWER = "answer"
    """What answers questions of this server, each of which policy has let it ask."""
    PROTOCOL = "protocol"
    """What the protocol itself fixes, or is about the message."""


_OF_THE_CALLERS: Final = frozenset({Part.ARGUMENTS, Part.PLACE, Part.CONTENT})
_OF_AN_EARLIER_ROUND: Final = frozenset({Part.GIVEN, Part.ANSWER})
CLIENT: Final = "io.modelcontextprotocol/clientInfo"
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_META: Final = "_meta"
_INPUTS: Final = {"inputResponses": Part.ANSWER, "requestState": Part.GIVEN, _META: Part.PROTOCOL}
_ABOUT: Final = {_META: Part.PROTOCOL}
_PAGE: Final = {"cursor": Part.GIVEN, **_ABOUT}

PARTS: Final[Mapping[str, Mapping[str, Part]]] = {
    "tools/call": {"name": Part.NAME, "arguments": Part.ARGUMENTS, **_INPUTS},
    "prompts/get": {"name": Part.NAME, "arguments": Part.CONTENT, **_INPUTS},
    "resources/read": {"uri": Part.PLACE, **_INPUTS},
    "resources/subscribe": {"uri": Part.PLACE, **_ABOUT},
    "resources/unsubscribe": {"uri": Part.PLACE, **_ABOUT},
    "completion/complete": {
        "ref": Part.NAME,
        "argument": Part.CONTENT,
        "context": Part.CONTENT,
        **_ABOUT,
    },
    "subscriptions/listen": {"notifications": Part.PLACE, **_ABOUT},
    # Which task it is the gateway says in its own name; what answers the server is judged as its call.
    "tasks/get": {"taskId": Part.PROTOCOL, **_ABOUT},
    "tasks/cancel": {"taskId": Part.PROTOCOL, **_ABOUT},
    "tasks/update": {"taskId": Part.PROTOCOL, "inputResponses": Part.ANSWER, **_ABOUT},
    "initialize": {
        "protocolVersion": Part.PROTOCOL,
        "capabilities": Part.PROTOCOL,
        "clientInfo": Part.PROTOCOL,
        **_ABOUT,
    },
    "ping": _ABOUT,
    "server/discover": _ABOUT,
    "logging/setLevel": {"level": Part.PROTOCOL, **_ABOUT},
    "tools/list": _PAGE,
    "prompts/list": _PAGE,
    "resources/list": _PAGE,
    "resources/templates/list": _PAGE,
    "notifications/initialized": _ABOUT,
    "notifications/cancelled": {"requestId": Part.PROTOCOL, "reason": Part.CONTENT, **_ABOUT},
    "notifications/progress": {
        "progressToken": Part.PROTOCOL,
        "progress": Part.PROTOCOL,
        "total": Part.PROTOCOL,
        "message": Part.CONTENT,
        **_ABOUT,
    },
    "notifications/roots/list_changed": _ABOUT,
}
"""By method and member. A response of the client's is an answer as a whole."""

KNOWN_ABOUT: Final = frozenset(
    {
        "io.modelcontextprotocol/protocolVersion",
        CLIENT,
        MODERN_CAPABILITIES_KEY,
        "io.modelcontextprotocol/logLevel",
        SUBSCRIPTION,
        "traceparent",
        "tracestate",
    }
)
"""Members of `_meta` that the protocol knows; what else is said there is looked at."""
_OPEN: Final = (SUBSCRIPTION, "progressToken", "requestId", "tracestate")
"""Members whose form is fixed, and not what they say."""
_PROGRAMS: Final = ("clientInfo", CLIENT)
"""What a program calls itself, with its address on the web: whoever has read its work has read that."""
_BESIDE: Final = frozenset({"name", "arguments", _META})


def part_of(message: Message, member: str) -> Part:
    """Return what `member` of the params of `message` is."""
    if message.form is Form.RESPONSE:
        return Part.PROTOCOL if member == _META else Part.ANSWER
    return PARTS.get(message.method, {}).get(member, Part.CONTENT)


def has_place(message: Message, member: str) -> bool:
    """Whether the protocol has `member` among the params of `message`: its name is no word of the caller's."""
    return member in PARTS.get(message.method, {})


def said(message: Message, written: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Return all that `message` says beside its target's approved name, as one object of arguments.

    With `written`, the params as its caller wrote them, it is what the message says in those.

    Of a tool's or a prompt's these are the arguments, and whatever else goes out stands beside them.
    It is what policy, the review, the record and people are told; nothing in it is left out but what
    is about the message itself.

    Raises:
        ProtocolError: Nobody could tell an argument from what stands beside it.

    """
    params = message.params if written is None else written
    if message.method not in {"tools/call", "prompts/get"}:
        return {name: params[name] for name in params if name != _META}
    arguments = params.get("arguments") or {}
    if params.keys() <= _BESIDE:
        found: Mapping[str, Any] = arguments
        return found
    beside = {name: params[name] for name in params if name not in _BESIDE}
    if not arguments.keys().isdisjoint(beside):
        raise ProtocolError(
            "an argument has the name of a member of the request's own",
            rpc_code=INVALID_PARAMS,
            rpc_id=message.id,
        )
    return {**arguments, **beside}


def words(message: Message) -> Mapping[str, Any]:
    """Return what of `message` is its caller's own word: arguments, and where something is.

    What its server gave out to be brought back is that server's, and an answer says what it asked for.
    """
    parts = PARTS.get(message.method, {})
    return {
        name: inner for name, inner in message.params.items() if parts.get(name) in _OF_THE_CALLERS
    }


def continues(message: Message) -> bool:
    """Whether a call goes on where its server had interrupted it: it brings a state, or answers."""
    parts = PARTS.get(message.method, {})
    return any(parts.get(name) in _OF_AN_EARLIER_ROUND for name in message.params)


def beside_reference(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the reference of a completion holds beside the one member that names something."""
    ref = params.get("ref")
    if not isinstance(ref, dict):
        return {}
    row = REFERENCES.get(str(ref.get("type")))
    names = {"type"} if row is None else {"type", row[1]}
    return {name: inner for name, inner in ref.items() if name not in names}


def remarks(params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what `_meta` holds that goes on and that the protocol does not fix."""
    meta = params.get(_META)
    if isinstance(meta, dict):
        yield from ((name, inner) for name, inner in meta.items() if name not in KNOWN_ABOUT)


def asides(message: Message, *, programs: bool) -> Iterator[tuple[str, Any]]:
    """Yield what the protocol has a place for and leaves to the caller: ids, tokens, names.

    It is little, and bounded; a caller that was led could say something with it nevertheless.
    `programs`: what programs call themselves as well.
    """
    if message.form is not Form.RESPONSE and isinstance(message.id, str):
        yield "id", message.id
    meta = message.params.get(_META)
    for holder in (message.params, meta if isinstance(meta, dict) else {}):
        yield from ((name, holder[name]) for name in _OPEN if name in holder)
        if programs:
            yield from ((name, holder[name]) for name in _PROGRAMS if name in holder)

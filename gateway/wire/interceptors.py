"""MCP interceptors as JSON (SEP-2624, a draft): what a host asks, and what it is answered."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.calls import Message
from gateway.domain.document import LARGEST_INTEGER
from gateway.errors import ProtocolError
from gateway.wire import jsontext
from gateway.wire.bounds import within
from gateway.wire.jsonrpc import read_message
from gateway.wire.jsontext import WireLimits

EVENTS: Final[Mapping[str, str]] = {
    "tools/call": "tool",
    "prompts/get": "prompt",
    "resources/read": "resource",
}
"""What is looked at, and which type of resource a question about it has."""
DECIDE: Final = "douane/decide"
REDACT: Final = "douane/redact"
INVOKE: Final = "interceptor/invoke"
EXTENSION: Final = "io.modelcontextprotocol/interceptors"
_INVALID_PARAMS: Final = -32602
_TITLE: Final = {
    DECIDE: "Policy, pins, labels and the record: whether this may be sent, or given out",
    REDACT: "What has to be taken out of a result before it is given out",
}


class Phase(StrEnum):
    REQUEST = "request"
    RESPONSE = "response"


class Type(StrEnum):
    VALIDATION = "validation"
    MUTATION = "mutation"


_HOOKS: Final[Mapping[str, tuple[Type, tuple[Phase, ...]]]] = {
    DECIDE: (Type.VALIDATION, (Phase.REQUEST, Phase.RESPONSE)),
    REDACT: (Type.MUTATION, (Phase.RESPONSE,)),
}


@value
class Invocation:
    """One message that a host wants looked at."""

    name: str
    event: str
    phase: Phase
    payload: Mapping[str, Any]
    server: str
    """`config.server`: what the host calls the server; empty if it does not say."""
    principal: Mapping[str, Any]
    """`context.principal`: a claim, which counts only of hosts that may make it."""
    session: str
    """`context.sessionId`; empty if there is none."""
    span: str
    """`context.traceId` and `spanId`; empty if there are none."""


def interceptors(event: str | None) -> Mapping[str, Any]:
    """Return what `interceptors/list` is answered with; those of one event if one is named."""
    found = [] if event is not None and event not in EVENTS else _HOOKS.items()
    return {
        "interceptors": [
            {"description": _TITLE[name], **described(name, type_, events=[*EVENTS], phases=phases)}
            for name, (type_, phases) in found
        ]
    }


def described(
    name: str, type_: str, *, events: Sequence[str], phases: Sequence[str]
) -> dict[str, Any]:
    """Return a descriptor. What is the default is left out: it is enforced, and fails closed."""
    hooks = [{"events": [*events], "phase": str(phase)} for phase in phases]
    return {"name": name, "type": str(type_), "hooks": hooks}


def capabilities() -> Mapping[str, Any]:
    """Return what a server of interceptors says that it can."""
    return {"extensions": {EXTENSION: {"supportedEvents": [*EVENTS]}}}


def validation(name: str, phase: str, messages: Sequence[str]) -> Mapping[str, Any]:
    """Return what a validator says: without messages that all is well."""
    told: dict[str, Any] = {"interceptor": name, "type": "validation", "phase": str(phase)}
    if not messages:
        return {**told, "valid": True}
    errors = [{"message": message, "severity": "error"} for message in messages]
    return {**told, "valid": False, "severity": "error", "messages": errors}


def mutation(name: str, phase: str, payload: Any, *, modified: bool) -> Mapping[str, Any]:
    """Return what a mutator made of a payload."""
    told = {"interceptor": name, "type": "mutation", "phase": str(phase)}
    return {**told, "modified": modified, "payload": payload}


def read_asked(body: bytes, limits: WireLimits) -> Message:
    """Return the message in `body`: what a host asks as a client's, what a server answered as that.

    Raises:
        ProtocolError: It is none, or has a number that no call may have, and is no call's result.

    """
    try:
        return read_message(body, limits)
    except ProtocolError:
        message = read_message(body, limits, jsontext.read_lenient)
        if not _shows_a_result(message):
            raise
        return message


def _shows_a_result(message: Message) -> bool:
    if isinstance(message.id, int) and abs(message.id) > LARGEST_INTEGER:
        return False
    return message.method == INVOKE and message.params.get("phase") == Phase.RESPONSE


def read_invocation(params: Mapping[str, Any]) -> Invocation:
    """Return what `interceptor/invoke` is to look at.

    Raises:
        ProtocolError: There is no such interceptor, or it does not look at that; -32602.

    """
    name, event, phase = (_text(params, each) for each in ("name", "event", "phase"))
    if name not in _HOOKS:
        raise _invalid("there is no such interceptor")
    if event not in EVENTS or phase not in _HOOKS[name][1]:
        raise _invalid("this interceptor does not look at that")
    context = _object(params, "context")
    payload = _object(params, "payload")
    if phase == Phase.REQUEST and "method" in payload:
        # The draft has a request whole here, and what implements it has its params.
        if payload["method"] != event:
            raise _invalid("the payload is of another event")
        payload = _object(payload, "params")
    return Invocation(
        name=name,
        event=event,
        phase=Phase(phase),
        payload=payload,
        server=_text(_object(params, "config"), "server"),
        principal=_object(context, "principal"),
        session=_text(context, "sessionId"),
        span="\0".join(filter(None, (_text(context, "traceId"), _text(context, "spanId")))),
    )


def _object(members: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Any = members.get(name, {})
    if not isinstance(found, dict):
        raise _invalid(f"`{name}` is no object")
    return found


def _text(members: Mapping[str, Any], name: str) -> str:
    found = members.get(name, "")
    if not isinstance(found, str) or not within(found):
        raise _invalid(f"`{name}` is no short text")
    return found


def _invalid(why: str) -> ProtocolError:
    return ProtocolError(why, status=200, rpc_code=_INVALID_PARAMS)

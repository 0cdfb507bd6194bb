"""The trace of a call: read from what its client says, and passed on under a span of ours."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.domain.calls import Call, Form, Message
from gateway.domain.tools import OWN
from gateway.domain.tracing import TraceContext, client_span
from gateway.wire.extensions import with_params
from gateway.wire.headers import Headers

_PARENT: Final = "traceparent"
_STATE: Final = "tracestate"
_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})"
)
"""W3C Trace Context section 3.2.2. One of a version to come may say more behind it: that is none."""
_DEFINED_FLAGS: Final = 0x03
"""The others must be zero in what goes on (level 2, section 3.2.2.5)."""
_MEMBER: Final = re.compile(
    r"[a-z0-9][a-z0-9_*/-]{0,240}(?:@[a-z0-9][a-z0-9_*/-]{0,13}|[a-z0-9_*/-]{0,15})"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
"""A list member of `tracestate` (section 3.3.1.3)."""
_MOST_MEMBERS: Final = 32
_LONGEST_STATE: Final = 512
"""Characters; as many must be passed on, and no more (section 3.3.1.5)."""


def trace_of(headers: Headers, meta: Mapping[str, Any]) -> TraceContext | None:
    """Return the trace of a well-formed `traceparent`, in `_meta` or else in the header."""
    fields = headers.fields
    if _PARENT not in meta and _PARENT not in fields:
        return None
    return _read(meta.get(_PARENT), meta.get(_STATE)) or _read(
        fields.get(_PARENT), fields.get(_STATE)
    )


def is_parent(said: Any) -> bool:
    """Whether `said` is a `traceparent`, which has no room for a word."""
    return isinstance(said, str) and _TRACEPARENT.fullmatch(said) is not None


def under_our_span(call: Call, decision_id: str) -> Call:
    """Return `call` as it goes to its server: its parent is our span, where it is in a trace.

    The header says so always, `_meta` where its client says something there.
    """
    trace = call.trace
    if trace is None or call.server == OWN:
        return call
    parent = trace.below(client_span(decision_id))
    state = ((_STATE, trace.state),) if trace.state else ()
    return replace(
        call,
        message=_with_parent(call.message, parent),
        headers=(*call.headers, (_PARENT, parent), *state),
    )


def trace_headers(call: Call) -> tuple[tuple[str, str], ...]:
    """Return those header fields of `call` that say where it stands in a trace."""
    return tuple(pair for pair in call.headers if pair[0] in {_PARENT, _STATE})


def _with_parent(message: Message, parent: str) -> Message:
    meta = message.params.get("_meta")
    asks = message.form in {Form.REQUEST, Form.NOTIFICATION}
    if not asks or not isinstance(meta, dict) or _PARENT not in meta:
        return message
    return with_params(message, {**message.params, "_meta": {**meta, _PARENT: parent}})


def _read(parent: Any, state: Any) -> TraceContext | None:
    found = _TRACEPARENT.fullmatch(parent) if isinstance(parent, str) else None
    if found is None:
        return None
    return TraceContext(
        trace_id=found[1],
        span_id=found[2],
        flags=int(found[3], 16) & _DEFINED_FLAGS,
        state=_state(state),
    )


def _state(text: Any) -> str:
    """Return a `tracestate` that can be passed on; one that is malformed is none."""
    if not isinstance(text, str) or len(text) > _LONGEST_STATE:
        return ""
    members = [member for part in text.split(",") if (member := part.strip(" \t"))]
    well_formed = len(members) <= _MOST_MEMBERS and all(map(_MEMBER.fullmatch, members))
    return ",".join(members) if well_formed else ""

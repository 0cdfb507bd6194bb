"""What a request of a client is, once its headers and its body agree."""

import re
from collections.abc import Mapping
from typing import Any

from gateway.domain._value import value
from gateway.domain.calls import Message
from gateway.domain.tools import Profile
from gateway.wire.headers import Headers
from gateway.wire.operations import Operation

MODERN_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
MODERN_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
RUN_KEY = "douane/run"

CONTENT_TYPE = ("content-type", "application/json")
"""What is sent on, however the client spelt it."""

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
"""W3C Trace Context section 3.2.2. What a version to come may add behind it is not sent on: it could
be anything."""
_RUN_HINT = re.compile(r"[\x21-\x7e]{1,128}")
_NO_META: Mapping[str, Any] = {}


@value
class Inbound:
    """One request as a family of revisions reads it: well-formed, and nothing verified."""

    message: Message
    operation: Operation | None
    """`None` for a response, and for GET and DELETE."""
    revision: str
    profile: Profile
    session: str | None
    """The sealed `Mcp-Session-Id`, as the client sent it."""
    headers: tuple[tuple[str, str], ...]
    """What may be sent on, lower-case names."""
    run_hint: str | None
    """`_meta["douane/run"]`: the run that the client would like to join."""
    trace_id: str
    """W3C Trace Context trace-id, 32 hex digits, or empty."""


def meta_of(message: Message) -> Mapping[str, Any]:
    """Return `params._meta`, or nothing."""
    found = message.params.get("_meta")
    return found if isinstance(found, dict) else _NO_META


def run_hint(meta: Mapping[str, Any]) -> str | None:
    """Return which run the client hints at, where that is 1 to 128 visible ASCII characters."""
    hint = meta.get(RUN_KEY)
    return hint if isinstance(hint, str) and _RUN_HINT.fullmatch(hint) else None


def trace_context(headers: Headers) -> tuple[tuple[str, str], ...]:
    """Return a well-formed `traceparent` header, to be sent on as it came."""
    parent = headers.get("traceparent")
    found = _TRACEPARENT.fullmatch(parent or "")
    return () if found is None or parent is None else (("traceparent", parent),)


def trace_id(headers: Headers, meta: Mapping[str, Any]) -> str:
    """Return the trace-id of a well-formed `traceparent`, in `_meta` or else in the header."""
    parent = meta.get("traceparent", headers.get("traceparent"))
    found = _TRACEPARENT.fullmatch(parent) if isinstance(parent, str) else None
    return "" if found is None else found[1]

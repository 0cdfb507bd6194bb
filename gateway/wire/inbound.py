"""What a request of a client is, once its headers and its body agree."""

import re
from collections.abc import Mapping
from typing import Any

from gateway.domain._value import value
from gateway.domain.calls import Message
from gateway.domain.tools import Profile
from gateway.domain.tracing import TraceContext
from gateway.wire.operations import Operation

MODERN_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
MODERN_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
RUN_KEY = "douane/run"

CONTENT_TYPE = ("content-type", "application/json")
"""What is sent on, however the client spelt it."""

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
    trace: TraceContext | None
    """Where it stands in its client's trace, if it does."""


def meta_of(message: Message) -> Mapping[str, Any]:
    """Return `params._meta`, or nothing."""
    found = message.params.get("_meta")
    return found if isinstance(found, dict) else _NO_META


def run_hint(meta: Mapping[str, Any]) -> str | None:
    """Return which run the client hints at, where that is 1 to 128 visible ASCII characters."""
    hint = meta.get(RUN_KEY)
    return hint if isinstance(hint, str) and _RUN_HINT.fullmatch(hint) else None

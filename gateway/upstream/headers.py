"""Which header fields cross the gateway, in which direction: by name, everything else stays here."""

from collections.abc import Iterable

from gateway.http1 import Fields

Headers = list[tuple[str, str]]
"""Header fields to send, lower-case names."""

SESSION = "mcp-session-id"
CONDITION = "if-none-match"
_LONGEST_ETAG = 256

_FORWARDED = frozenset(
    {
        "accept",
        "content-type",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "traceparent",
        "tracestate",
    }
)
_PARAMETER = "mcp-param-"
"""Unknown ones too must be forwarded (MCP 2026-07-28, transports, custom headers)."""

_OF_THE_CONNECTION = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        SESSION,
    }
)

_RETURNED = ("content-type", "cache-control", "x-accel-buffering", "allow", "retry-after")


def forwarded(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return those of a client's fields that an upstream gets: never a credential or a cookie."""
    return [
        (name, text) for name, text in headers if name in _FORWARDED or name.startswith(_PARAMETER)
    ]


def returned(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Return those of an upstream's fields that a client gets."""
    first = fields.first
    return tuple([(name, first[name]) for name in _RETURNED if name in first])


def strong(etag: str) -> str | None:
    """Return `etag` if it stands for the same bytes and no others (RFC 9110 section 8.8.1)."""
    if len(etag) > _LONGEST_ETAG or not etag.isascii() or not etag.isprintable():
        return None
    return etag if etag.startswith('"') and etag.endswith('"') else None


def is_ours(name: str) -> bool:
    """Whether lower-case `name` is free for a credential: no client and no library sets it."""
    return not (
        not name
        or name in _FORWARDED
        or name in _OF_THE_CONNECTION
        or name.startswith(_PARAMETER)
        or not name.replace("-", "").isalnum()
        or not name.isascii()
    )

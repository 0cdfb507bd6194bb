"""One message in the words of the other family of revisions: no more is changed than differs."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.domain.calls import Message
from gateway.domain.tools import Profile
from gateway.wire import headers as names
from gateway.wire.extensions import with_params
from gateway.wire.inbound import (
    CONTENT_TYPE,
    MODERN_CAPABILITIES_KEY,
    MODERN_VERSION_KEY,
    meta_of,
)
from gateway.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from gateway.wire.rev_stateless import REVISIONS

SELF: Final = {"name": "douane", "version": "1"}
"""What the gateway says of itself, to servers and to clients."""
ACCEPT: Final = ("accept", "application/json, text/event-stream")

_STATED: Final = "io.modelcontextprotocol/"
"""Begins what a stateless message says of itself in `_meta`."""
SELF_STATED: Final[Mapping[str, Any]] = {
    MODERN_VERSION_KEY: REVISIONS[-1],
    MODERN_CAPABILITIES_KEY: {},
    f"{_STATED}clientInfo": SELF,
}
"""`_meta` of what the gateway says by itself, or for a client that the server could not ask anything."""
_LOG_LEVEL_KEY: Final = f"{_STATED}logLevel"
_ROUNDS: Final = frozenset({"inputResponses", "requestState"})
"""Members of a request that only a stateless server has asked for."""
_ABOUT_THE_ANSWER: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
_LIVES: Final = frozenset({"resources/read", "resources/list"})
"""Whose results say in the stateless revision how long they live."""
_GONE: Final = {-32002: INVALID_PARAMS, -32042: INTERNAL_ERROR}
"""Codes that nobody may send in the stateless revision (2026-07-28, error codes), and what is said
instead."""


def is_stateless(revision: str) -> bool:
    """Whether `revision` is one of the family without a handshake."""
    return revision in REVISIONS


def wants_logs(message: Message) -> bool:
    """Whether a request of the stateless revision wants to hear what the server logs meanwhile."""
    return _LOG_LEVEL_KEY in meta_of(message)


def request_for(upstream: Profile, message: Message, client: Profile) -> Message:
    """Return a request of a `client`'s as one of the `upstream`'s family.

    What the client can do it said to us, in a handshake or in the message. A server of the other family
    could not ask it anything, so it learns of no such thing.
    """
    if upstream is client:
        return message
    if upstream is Profile.MODERN:
        stated = {**meta_of(message), **SELF_STATED}
        return with_params(message, {**message.params, "_meta": stated})
    params = {name: part for name, part in message.params.items() if name not in _ROUNDS}
    meta = meta_of(message)
    kept = {name: part for name, part in meta.items() if not name.startswith(_STATED)}
    if kept or "_meta" in params:
        params["_meta"] = kept
    return with_params(message, params)


def headers_for(
    upstream: Profile, message: Message, name: str, params: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """Return the header fields of a request about `name`; `params` are its `Mcp-Param-*`."""
    if upstream is Profile.LEGACY:
        return (CONTENT_TYPE, ACCEPT)
    named = ((names.NAME, names.encode(name)),) if name else ()
    return (
        CONTENT_TYPE,
        ACCEPT,
        (names.VERSION, REVISIONS[-1]),
        (names.METHOD, message.method),
        *named,
        *params,
    )


def result_for(
    client: Profile, result: Mapping[str, Any], upstream: Profile, method: str
) -> Mapping[str, Any]:
    """Return a result of an `upstream`'s as one of the `client`'s family."""
    if upstream is client:
        return result
    if client is Profile.MODERN:
        lives = {"ttlMs": 0, "cacheScope": "private"} if method in _LIVES else {}
        return {**result, **lives, "resultType": "complete"}
    kept = {name: part for name, part in result.items() if name not in _ABOUT_THE_ANSWER}
    if not isinstance(kept.get("structuredContent", {}), dict):
        del kept["structuredContent"]  # an object, before 2026-07-28; the text says the same
    return kept


def definition_for(
    client: Profile, definition: Mapping[str, Any], upstream: Profile
) -> Mapping[str, Any]:
    """Return a tool's definition as clients of the family can read it.

    Before 2026-07-28 an output schema was one of an object, and clients refuse a list with any other.
    """
    schema = definition.get("outputSchema")
    if upstream is client or client is Profile.MODERN or schema is None:
        return definition
    if isinstance(schema, dict) and schema.get("type") == "object":
        return definition
    return {name: part for name, part in definition.items() if name != "outputSchema"}


def error_for(client: Profile, error: Mapping[str, Any], upstream: Profile) -> Mapping[str, Any]:
    """Return an error of an `upstream`'s as one of the `client`'s family."""
    code = error.get("code")
    if upstream is client or client is Profile.LEGACY or not isinstance(code, int):
        return error
    return {**error, "code": _GONE[code]} if code in _GONE else error

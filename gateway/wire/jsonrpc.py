"""One JSON-RPC message of a client, read so strictly that no other reader can see another one."""

from collections.abc import Callable, Mapping
from typing import Any

from gateway.domain.calls import Form, Message
from gateway.domain.vocabulary import confusing
from gateway.errors import ProtocolError
from gateway.wire import jsontext
from gateway.wire.bounds import LONGEST_NAME, within
from gateway.wire.jsontext import WireLimits

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022

LONGEST_ID = 256
"""Characters of a request's id, or of a token."""

_NAMING = ("ref", "notifications")
"""Members of params that are objects and name a target themselves."""

_REQUEST = frozenset({"jsonrpc", "id", "method", "params"})
_RESULT = frozenset({"jsonrpc", "id", "result"})
_ERROR = frozenset({"jsonrpc", "id", "error"})

_ANSWERS = ("response", "said")
"""What a client's result is, and what it is besides where it is its model's."""

_NOTHING: Mapping[str, Any] = {}


def read_message(
    body: bytes, limits: WireLimits, read: Callable[[bytes, int], Any] = jsontext.read_exact
) -> Message:
    """Return the one message in `body` (JSON-RPC 2.0 sections 4 and 5, as MCP narrows them).

    `read` says which numbers there may be in it.

    Raises:
        ProtocolError: It is anything else: a batch, an id that is not a string or an integer,
            params that are no object, a member that is unknown, doubled or easily confused.

    """
    try:
        content = read(body, limits.json_depth)
    except ValueError as error:
        raise ProtocolError(f"Parse error: {error}", rpc_code=PARSE_ERROR) from error
    if not isinstance(content, dict):
        raise ProtocolError("The body must be a single JSON-RPC message, not a batch")
    rpc_id = content.get("id")
    if "id" in content and not is_id(rpc_id):
        raise ProtocolError(
            f"The id must be an integer, or a string of {LONGEST_NAME} bytes at most"
        )
    if content.get("jsonrpc") != "2.0":
        raise ProtocolError('The member jsonrpc must be "2.0"', rpc_id=rpc_id)
    if "method" in content:
        return _request(content, rpc_id, body)
    return _response(content, rpc_id, body)


def is_id(found: object) -> bool:
    """Whether `found` may be the id of a request: MCP rules out null and JSON-RPC's fractions."""
    if isinstance(found, str):
        return within(found)
    return isinstance(found, int) and not isinstance(found, bool)


def is_request_id(found: object) -> bool:
    """Whether `found` may be the id of a client's request, or a token: both go on to servers.

    They are the caller's own words, so they are no longer than a name for a request needs to be.
    """
    if isinstance(found, str):
        return len(found) <= LONGEST_ID and found.isascii() and found.isprintable()
    return is_id(found)


def _request(content: dict[str, Any], rpc_id: str | int | None, body: bytes) -> Message:
    if not content.keys() <= _REQUEST:
        raise ProtocolError("The message has a member that JSON-RPC does not know", rpc_id=rpc_id)
    if isinstance(rpc_id, str) and not is_request_id(rpc_id):
        raise ProtocolError(f"The id must be an integer, or {LONGEST_ID} printable characters")
    method = content["method"]
    if not isinstance(method, str) or not method:
        raise ProtocolError("The method must be a string", rpc_id=rpc_id)
    if not within(method):
        raise ProtocolError(f"The method is longer than {LONGEST_NAME} bytes", rpc_id=rpc_id)
    params = content.get("params", _NOTHING)
    if not isinstance(params, dict) and params is not _NOTHING:
        raise ProtocolError("The params must be an object", rpc_id=rpc_id)
    if not isinstance(params.get("_meta"), dict | None):
        raise _no_object(rpc_id)
    for inner in (params, *map(params.get, _NAMING)):
        if isinstance(inner, dict) and not all(map(str.isascii, inner)):
            # Non-ASCII names have no use here, so those that look like known ones need no list.
            raise _confusing(rpc_id)
    if confusing(params, "params") is not None:
        raise _confusing(rpc_id)
    return Message(
        form=Form.REQUEST if "id" in content else Form.NOTIFICATION,
        method=method,
        id=rpc_id,
        params=params,
        body=body,
    )


def _response(content: dict[str, Any], rpc_id: str | int | None, body: bytes) -> Message:
    member = "error" if "error" in content else "result"
    # Its id is the server's: naming it in a refusal would answer a request of the client's own.
    if content.keys() != (_ERROR if member == "error" else _RESULT):
        raise ProtocolError("The message must have a method, or an id and a result or an error")
    outcome = content[member]
    if not isinstance(outcome, dict):
        raise ProtocolError(f"The {member} must be an object")
    if not isinstance(outcome.get("_meta"), dict | None):
        raise _no_object(None)
    for shape in ("error",) if member == "error" else _ANSWERS[: 1 + ("role" in outcome)]:
        if confusing(outcome, shape) is not None:
            raise _confusing(None)
    return Message(form=Form.RESPONSE, method="", id=rpc_id, params=outcome, body=body)


def _no_object(rpc_id: str | int | None) -> ProtocolError:
    # Whatever looks into `_meta` looks at its members: in anything else nobody would see what it says.
    return ProtocolError("_meta must be an object", rpc_code=INVALID_PARAMS, rpc_id=rpc_id)


def _confusing(rpc_id: str | int | None) -> ProtocolError:
    # A reader that matches names loosely would take `Name`, or a `params` with a long s, for the
    # real one.
    return ProtocolError("A member is easily confused with a known one", rpc_id=rpc_id)

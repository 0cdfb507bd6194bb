"""One JSON-RPC message of a client, read so strictly that no other reader can see another one."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.calls import Form, Message
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

KNOWN_PARAMS = frozenset(
    {
        "_meta", "argument", "arguments", "capabilities", "clientInfo", "context", "cursor",
        "inputResponses", "level", "message", "name", "notifications", "progress",
        "progressToken", "protocolVersion", "reason", "ref", "requestId", "requestState", "task",
        "taskId", "total", "uri",
    }
)  # fmt: skip
"""Every member that some MCP method has at the top of its params."""
_FOLDED_PARAMS = frozenset(map(str.casefold, KNOWN_PARAMS))
_NESTED = {
    "ref": frozenset({"name", "title", "type", "uri"}),
    "notifications": frozenset(
        {
            "promptsListChanged", "resourceSubscriptions", "resourcesListChanged",
            "toolsListChanged",
        }
    ),
}  # fmt: skip
"""Members of params that are objects and name a target themselves, and their known members."""
_FOLDED_NESTED = {name: frozenset(map(str.casefold, known)) for name, known in _NESTED.items()}

_REQUEST = frozenset({"jsonrpc", "id", "method", "params"})
_RESULT = frozenset({"jsonrpc", "id", "result"})
_ERROR = frozenset({"jsonrpc", "id", "error"})

_NOTHING: Mapping[str, Any] = {}


def read_message(body: bytes, limits: WireLimits) -> Message:
    """Return the one message in `body` (JSON-RPC 2.0 sections 4 and 5, as MCP narrows them).

    Raises:
        ProtocolError: It is anything else: a batch, an id that is not a string or an integer,
            params that are no object, a member that is unknown, doubled or easily confused.

    """
    try:
        content = jsontext.read_exact(body, limits.json_depth)
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


def _request(content: dict[str, Any], rpc_id: str | int | None, body: bytes) -> Message:
    if not content.keys() <= _REQUEST:
        raise ProtocolError("The message has a member that JSON-RPC does not know", rpc_id=rpc_id)
    method = content["method"]
    if not isinstance(method, str) or not method:
        raise ProtocolError("The method must be a string", rpc_id=rpc_id)
    if not within(method):
        raise ProtocolError(f"The method is longer than {LONGEST_NAME} bytes", rpc_id=rpc_id)
    params = content.get("params", _NOTHING)
    if not isinstance(params, dict) and params is not _NOTHING:
        raise ProtocolError("The params must be an object", rpc_id=rpc_id)
    _require_plain(params, KNOWN_PARAMS, _FOLDED_PARAMS, rpc_id)
    for name, known in _NESTED.items():
        if isinstance(inner := params.get(name), dict):
            _require_plain(inner, known, _FOLDED_NESTED[name], rpc_id)
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
    return Message(form=Form.RESPONSE, method="", id=rpc_id, params=outcome, body=body)


def _require_plain(
    members: Mapping[str, Any],
    known: frozenset[str],
    folded: frozenset[str],
    rpc_id: str | int | None,
) -> None:
    # A reader that matches names loosely would take `Name`, or a `params` with a long s, for the
    # real one. Non-ASCII names have no use here, so the confusable ones need no list.
    for name in members.keys() - known:
        if not name.isascii() or name.casefold() in folded:
            raise ProtocolError("A member is easily confused with a known one", rpc_id=rpc_id)

"""Tasks on the wire (2026-07-28, extension io.modelcontextprotocol/tasks).

A server may answer a `tools/call` of a client that declares the extension with a handle, and give the
answer to whoever asks for it later. What clients get for a handle is one of ours.
"""

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.calls import Form, Message
from gateway.domain.late import LateCall, LateId
from gateway.errors import ProtocolError, UpstreamFailed
from gateway.wire import headers as names
from gateway.wire import jsontext
from gateway.wire.bare_results import span_ms
from gateway.wire.extensions import TASKS, with_params
from gateway.wire.in_our_name import theirs
from gateway.wire.inbound import MODERN_CAPABILITIES_KEY, meta_of
from gateway.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from gateway.wire.rounds import REQUESTS, RESPONSES, STATE
from gateway.wire.server_message import ServerMessage
from gateway.wire.session import mac

TASK_ID: Final = "taskId"
TASK: Final = "task"
"""The `resultType` of an answer that is late."""
MISSING_CAPABILITY: Final = -32021
LONGEST_STATUS: Final = 1024
"""Bytes of what a server says of how far a task is."""

_META: Final = "_meta"
_RELATED: Final = "io.modelcontextprotocol/related-task"
_PURPOSE: Final = "task"
_PREFIX: Final = "douane-task"
_UPSTREAM_ID: Final = re.compile(r"[\x21-\x7e]{1,1024}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROUNDS: Final = frozenset({RESPONSES, STATE, _META})
_LONGEST_MS: Final = 10 * 365 * 86_400 * 1000


class Status(StrEnum):
    """What a server says of a task."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@value
class Begun:
    """What a server says when its answer is late."""

    upstream_id: str
    status: Status
    ttl_s: float | None
    """`None`: without an end."""
    poll_s: float


@value
class Seen:
    """What a server says of a task when it is asked."""

    status: Status
    message: str
    """How far it is, in the server's words."""
    result: Mapping[str, Any]
    error: Mapping[str, Any]
    requests: Mapping[str, Any]
    size: int
    """Bytes of the message that says so, which tell how much work it is."""


def declares_tasks(message: Message) -> bool:
    """Whether a request says that its client can follow a task: each says so for itself."""
    capabilities = meta_of(message).get(MODERN_CAPABILITIES_KEY)
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return isinstance(extensions, dict) and TASKS in extensions


def is_older_task(result: Mapping[str, Any]) -> bool:
    """Whether a result is a task of 2025-11-25, for which no server was asked: it has no content."""
    begun = result.get(TASK)
    named = isinstance(begun, dict) and isinstance(begun.get(TASK_ID), str)
    return named and not isinstance(result.get("content"), list)


def handle_of(key: bytes, late: LateCall) -> str:
    """Return what `late` is called by its caller: nobody else's, and nowhere else, it is one.

    It is short and visible ASCII, for it stands in a header; the server's own id is not in it.
    """
    return f"{_PREFIX}.{late.server}.{late.id}.{_mac(key, late)}"


def server_of(handle: object) -> str | None:
    """Return which server `handle` says that it is of; `opened` proves it."""
    parts = handle.split(".") if isinstance(handle, str) else []
    return parts[1] if len(parts) == 4 and parts[0] == _PREFIX else None  # noqa: PLR2004


def id_in(handle: object) -> LateId | None:
    """Return which late call `handle` says that it is of; `is_handle_of` proves it."""
    parts = handle.split(".") if isinstance(handle, str) else []
    known = len(parts) == 4 and parts[0] == _PREFIX and _ID.fullmatch(parts[2])  # noqa: PLR2004
    return LateId(parts[2]) if known else None


def is_handle_of(key: bytes, late: LateCall, handle: object) -> bool:
    """Whether `handle` is the one that was made of `late` with `key`."""
    expected = handle_of(key, late)
    return isinstance(handle, str) and hmac.compare_digest(
        expected.encode(), handle.encode("utf-8", "surrogatepass")
    )


def read_begun(result: Mapping[str, Any]) -> Begun:
    """Return what an answer of the type `task` says.

    Raises:
        UpstreamFailed: It is not as the extension has it.

    """
    id_, ttl = result.get(TASK_ID), result.get("ttlMs")
    poll = result.get("pollIntervalMs", 0)
    if not isinstance(id_, str) or not _UPSTREAM_ID.fullmatch(id_):
        raise _malformed("a task needs an id of visible ASCII")
    if ttl is not None and not _is_span(ttl):
        raise _malformed("ttlMs is no number of milliseconds")
    if not _is_span(poll):
        raise _malformed("pollIntervalMs is no number of milliseconds")
    return Begun(
        upstream_id=id_,
        status=_status(result),
        ttl_s=None if ttl is None else span_ms(ttl) / 1000,
        poll_s=span_ms(poll) / 1000,
    )


def read_seen(late: LateCall, result: Mapping[str, Any], size: int = 0) -> Seen:
    """Return what the answer to a `tasks/get` about `late` says, in a message of `size` bytes.

    Raises:
        UpstreamFailed: It is about another task, or not as the extension has it.

    """
    if result.get(TASK_ID) != late.upstream_id:
        raise _malformed("it is about another task")
    status, message = _status(result), result.get("statusMessage", "")
    needed = _NEEDS.get(status)
    if needed is not None and not isinstance(result.get(needed), dict):
        raise _malformed(f"a task that is {status} needs {needed}")
    return Seen(
        status=status,
        message=_cut(message) if isinstance(message, str) else "",
        result=_plain(result["result"]) if status is Status.COMPLETED else {},
        error=result["error"] if status is Status.FAILED else {},
        requests=result[REQUESTS] if status is Status.INPUT_REQUIRED else {},
        size=size,
    )


def told(
    late: LateCall, handle: str, status: Status, *, now: float, **more: Any
) -> Mapping[str, Any]:
    """Return what a caller is told of `late`: the frame of it in our words, and `more` besides."""
    return {
        "resultType": "complete",
        TASK_ID: handle,
        "status": status.value,
        "createdAt": _time(late.began),
        "lastUpdatedAt": _time(now),
        "ttlMs": round((late.expires_at - late.began) * 1000),
        "pollIntervalMs": round(late.poll_s * 1000),
        **more,
    }


def original(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call was made with, without what belonged to one round of it."""
    return {name: inner for name, inner in params.items() if name not in _ROUNDS}


def as_call(message: Message, params: Mapping[str, Any]) -> Message:
    """Return the `tools/call` with `params` which a request about a task is about, under its id."""
    call = replace(message, method="tools/call", params=params)
    return with_params(call, params)


def towards(
    message: Message, headers: Sequence[tuple[str, str]], upstream_id: str
) -> tuple[Message, tuple[tuple[str, str], ...]]:
    """Return a request about a task as its server knows that, its header as well."""
    named = with_params(message, {**message.params, TASK_ID: upstream_id})
    kept = [pair for pair in headers if pair[0] != names.NAME]
    return named, (*kept, (names.NAME, names.encode(upstream_id)))


def response(id_: str | int | None, member: str, content: Mapping[str, Any]) -> ServerMessage:
    """Return a response whose `result` or `error` a server has said is `content`.

    It is as if it had come by itself: what is taken out of any message of a server's is not in it.
    """
    whole = {"jsonrpc": "2.0", "id": id_, member: content}
    data = jsontext.write(whole).encode()
    return theirs(ServerMessage(form=Form.RESPONSE, method="", id=id_, content=whole, data=data))


def remark(text: str) -> ServerMessage:
    """Return how far a task is as what servers say beside an answer."""
    params = {"progressToken": "", "progress": 0, "message": text}
    whole = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    return ServerMessage(
        form=Form.NOTIFICATION,
        method="notifications/progress",
        id=None,
        content=whole,
        data=jsontext.write(whole).encode(),
    )


def undeclared(message: Message) -> ProtocolError:
    """Return the refusal of who asks about a task and does not say that they can follow one."""
    return ProtocolError(
        "Missing required client capability",
        rpc_code=MISSING_CAPABILITY,
        rpc_id=message.id,
        data={"requiredCapabilities": {"extensions": {TASKS: {}}}},
    )


def unknown_task(message: Message) -> ProtocolError:
    """Return the one refusal of every handle that is none here, for whatever reason."""
    return ProtocolError("Task not found", status=200, rpc_code=INVALID_PARAMS, rpc_id=message.id)


def not_offered(message: Message) -> ProtocolError:
    """Return what any method is refused with that is not offered (2026-07-28, transports)."""
    return ProtocolError(
        "Method not found", status=404, rpc_code=METHOD_NOT_FOUND, rpc_id=message.id
    )


def bad_answers(message: Message) -> ProtocolError:
    """Return the refusal of answers that are no object."""
    return ProtocolError(
        f"tasks/update needs {RESPONSES} that are an object",
        status=200,
        rpc_code=INVALID_PARAMS,
        rpc_id=message.id,
    )


_NEEDS: Final[Mapping[Status, str]] = {
    Status.COMPLETED: "result",
    Status.FAILED: "error",
    Status.INPUT_REQUIRED: REQUESTS,
}


def _plain(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result without what has no place in one that ends a task."""
    kept = {
        name: inner for name, inner in result.items() if name not in {"resultType", REQUESTS, STATE}
    }
    meta = kept.get(_META)
    if isinstance(meta, dict) and _RELATED in meta:
        kept[_META] = {name: inner for name, inner in meta.items() if name != _RELATED}
    return kept


def _status(result: Mapping[str, Any]) -> Status:
    try:
        return Status(str(result.get("status")))
    except ValueError:
        raise _malformed("a task has no known status") from None


def _is_span(said: object) -> bool:
    whole = isinstance(said, int) and not isinstance(said, bool)
    return whole and 0 <= said <= _LONGEST_MS  # type: ignore[operator]


def _cut(text: str) -> str:
    return text.encode(errors="replace")[:LONGEST_STATUS].decode(errors="ignore")


def _time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.removesuffix("+00:00") + "Z"


def _mac(key: bytes, late: LateCall) -> str:
    return mac(key, _PURPOSE, late.server, late.endpoint, late.principal, late.id)


def _malformed(detail: str) -> UpstreamFailed:
    return UpstreamFailed("The server sent a malformed message", detail=detail)

"""From an answer to the result in it: the one response that belongs to a request of ours."""

import hashlib
import re
from collections.abc import Awaitable, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from gateway.domain._value import value
from gateway.domain.calls import Form, RawAnswer
from gateway.domain.nodes import weight
from gateway.errors import UpstreamFailed
from gateway.turns import finished
from gateway.upstream.faults import PUBLIC, unusable
from gateway.wire.in_our_name import hear
from gateway.wire.jsontext import WireLimits
from gateway.wire.server_message import ServerMessage, is_unread, read_server_message

_EDGE: Final = 200
"""Bytes at either end in which the id is looked for."""
_TRY_LATER: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})

_Told: TypeAlias = tuple[str, ServerMessage | None]
"""The print of a message, and the message, where it was read."""


class ErrorAnswer(UpstreamFailed):
    """The upstream answered, with a JSON-RPC error or an HTTP status that is one."""

    def __init__(self, method: str, *, status: int, rpc_code: object = None) -> None:
        super().__init__(PUBLIC, detail=f"{method}: status {status}, error {rpc_code!r}"[:200])
        self.status = status
        self.rpc_code = rpc_code

    @property
    def means_unknown(self) -> bool:
        """Whether it says that there is no such method, rather than that something is broken."""
        return self.status < HTTPStatus.INTERNAL_SERVER_ERROR and self.status not in _TRY_LATER


@value
class Replied:
    """The response to a request of ours."""

    result: Mapping[str, Any] | None
    """`None` where it is, to the byte, the one that was known: then nobody has read it."""
    print: str
    """Of its bytes, without the id that we gave it; empty where it was not sent again."""
    raw: bytes
    size: int
    etag: str | None = None


async def result_of(
    server: str, answer: RawAnswer, method: str, rpc_id: str, limits: WireLimits
) -> tuple[Mapping[str, Any], int]:
    """Return the result of request `rpc_id` to `server`, as raw JSON, and how many bytes it took.

    Raises:
        ErrorAnswer: The answer is an error.
        UpstreamFailed: The answer is not one of JSON-RPC, or the stream ended without it.
        LimitExceeded: The answer is larger than the limits allow.

    """
    replied = await reply_in(server, answer, method, rpc_id, limits)
    return replied.result or {}, replied.size


async def reply_in(
    server: str,
    answer: RawAnswer,
    method: str,
    rpc_id: str,
    limits: WireLimits,
    *,
    known: str = "",
) -> Replied:
    """Return the response to request `rpc_id`; it is not read if its print is the `known` one.

    A large one is looked at beside the loop, in the turn of `server`.

    Raises:
        ErrorAnswer, UpstreamFailed, LimitExceeded: As `result_of`.

    """
    if isinstance(answer.body, bytes):
        if answer.status == HTTPStatus.NOT_MODIFIED:
            return Replied(result=None, print="", raw=b"", size=0)
        raw, known = answer.body, known if answer.status == HTTPStatus.OK else ""
        reading = finished(server, weight(raw), _read, raw, rpc_id, known, limits)
        print_, result = await _whole(answer.status, reading, method, rpc_id)
        return Replied(result=result, print=print_, raw=raw, size=len(raw), etag=answer.etag)
    try:
        async for event in answer.body:
            if not event.data:
                continue
            # What else a server says meanwhile is for somebody who can act on it.
            raw = event.data
            print_, message = await finished(server, weight(raw), _read, raw, rpc_id, known, limits)
            if message is None:
                return Replied(result=None, print=print_, raw=raw, size=len(event.raw))
            if _is_response(message, rpc_id, answer.status):
                result = _result(message, method, answer.status)
                return Replied(result=result, print=print_, raw=raw, size=len(event.raw))
    finally:
        await discard(answer)
    raise unusable(f"{method}: the stream ended without a response")


async def read_in_turn(who: str, data: bytes, limits: WireLimits) -> ServerMessage:
    """Return the one message in `data`; a large one is read beside the loop, in the turn of `who`.

    Raises:
        UpstreamFailed: As `read_server_message`.

    """
    return await finished(who, weight(data), read_server_message, data, limits)


async def read_reply(
    server: str, replied: Replied, method: str, limits: WireLimits
) -> Mapping[str, Any]:
    """Return the result of a reply of `server` that was not read, because it was the known one.

    Raises:
        UpstreamFailed: It cannot be read, which it could be when it became known.

    """
    message = await finished(server, weight(replied.raw), hear, replied.raw, limits)
    return _result(message, method, HTTPStatus.OK)


def _read(raw: bytes, rpc_id: str, known: str, limits: WireLimits) -> _Told:
    """Return the print of a message, and the message unless its print is the `known` one."""
    print_ = _print(raw, rpc_id)
    return print_, None if known and print_ == known else hear(raw, limits)


def _print(raw: bytes, rpc_id: str) -> str:
    """Return the digest of a response without its id, where that is plainly its first or last member.

    Elsewhere nobody knows without reading it whether it is the id that differs or what is said.
    """
    id_ = rb'"id"\s*:\s*"' + re.escape(rpc_id.encode()) + rb'"\s*'
    version = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
    head, tail = raw[:_EDGE], raw[-_EDGE:]
    total = hashlib.sha256()
    if found := re.match(rb"\s*\{\s*(?:" + version + rb",\s*)?" + id_, head):
        total.update(b"first" + raw[found.end() :])
    elif found := re.search(id_ + rb"(?:,\s*" + version + rb")?\}\s*$", tail):
        total.update(b"last" + raw[: len(raw) - len(tail) + found.start()])
    else:
        total.update(b"whole" + raw)
    return total.hexdigest()


async def discard(answer: RawAnswer) -> None:
    """Close what still streams of an answer that nobody reads."""
    close = getattr(answer.body, "aclose", None)
    if close is not None:
        await close()


async def _whole(
    status: int, reading: Awaitable[_Told], method: str, rpc_id: str
) -> tuple[str, Mapping[str, Any] | None]:
    try:
        print_, message = await reading
    except UpstreamFailed as error:
        if status >= HTTPStatus.BAD_REQUEST:
            raise ErrorAnswer(method, status=status) from error
        raise
    if message is None:
        return print_, None
    if not _is_response(message, rpc_id, status):
        raise unusable(f"{method}: the answer is not the response to the request")
    return print_, _result(message, method, status)


def _is_response(message: ServerMessage, rpc_id: str, status: int) -> bool:
    return message.form is Form.RESPONSE and (message.id == rpc_id or is_unread(message, status))


def _result(message: ServerMessage, method: str, status: int) -> Mapping[str, Any]:
    if message.error is not None:
        raise ErrorAnswer(method, status=status, rpc_code=message.error.get("code"))
    result = message.result
    if result is None or result.get("resultType", "complete") != "complete":
        raise unusable(f"{method}: the result is not a complete one")
    return result

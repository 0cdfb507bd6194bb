"""From an answer to the result in it: the one response that belongs to a request of ours."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from gateway.domain.calls import Form, RawAnswer
from gateway.errors import UpstreamFailed
from gateway.upstream.faults import PUBLIC, unusable
from gateway.wire.jsontext import WireLimits
from gateway.wire.server_message import ServerMessage, read_server_message

_TRY_LATER: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


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


async def result_of(
    answer: RawAnswer, method: str, rpc_id: str, limits: WireLimits
) -> tuple[Mapping[str, Any], int]:
    """Return the result of request `rpc_id`, as raw JSON, and how many bytes it took.

    Raises:
        ErrorAnswer: The answer is an error.
        UpstreamFailed: The answer is not one of JSON-RPC, or the stream ended without it.
        LimitExceeded: The answer is larger than the limits allow.

    """
    if isinstance(answer.body, bytes):
        return _whole(answer.status, answer.body, method, rpc_id, limits), len(answer.body)
    try:
        async for event in answer.body:
            # What else a server says meanwhile is for somebody who can act on it.
            message = read_server_message(event.data, limits) if event.data else None
            if message is not None and _is_response(message, rpc_id):
                return _result(message, method, answer.status), len(event.raw)
    finally:
        await discard(answer)
    raise unusable(f"{method}: the stream ended without a response")


async def discard(answer: RawAnswer) -> None:
    """Close what still streams of an answer that nobody reads."""
    close = getattr(answer.body, "aclose", None)
    if close is not None:
        await close()


def _whole(
    status: int, body: bytes, method: str, rpc_id: str, limits: WireLimits
) -> Mapping[str, Any]:
    try:
        message = read_server_message(body, limits)
    except UpstreamFailed as error:
        if status >= HTTPStatus.BAD_REQUEST:
            raise ErrorAnswer(method, status=status) from error
        raise
    if not _is_response(message, rpc_id):
        raise unusable(f"{method}: the answer is not the response to the request")
    return _result(message, method, status)


def _is_response(message: ServerMessage, rpc_id: str) -> bool:
    # An error about a message that could not be read has no id (JSON-RPC 2.0 section 5).
    return message.form is Form.RESPONSE and (
        message.id == rpc_id or (message.id is None and message.error is not None)
    )


def _result(message: ServerMessage, method: str, status: int) -> Mapping[str, Any]:
    if message.error is not None:
        raise ErrorAnswer(method, status=status, rpc_code=message.error.get("code"))
    result = message.result
    if result is None or result.get("resultType", "complete") != "complete":
        raise unusable(f"{method}: the result is not a complete one")
    return result

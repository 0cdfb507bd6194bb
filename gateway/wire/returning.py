"""The head of a reply: of what a server says there, only what can mean nothing else to a client."""

import re
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from gateway.domain.calls import RawAnswer, Reply
from gateway.wire.inbound import CONTENT_TYPE

Fields = tuple[tuple[str, str], ...]

EVENTS: Final = ("content-type", "text/event-stream")
_CHECKED: Final = {
    "allow": re.compile(r"[A-Z]{3,16}(?:, ?[A-Z]{3,16}){0,9}"),
    "retry-after": re.compile(r"[0-9]{1,6}"),
    "x-accel-buffering": re.compile("no"),
}
"""How those fields look that a server may set."""
_STATUSES: Final = frozenset(
    {200, 202, 204, 400, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504}
)
"""Statuses that say of a message what became of it. Others speak to proxies, caches and browsers, or
of credentials, which are between the client and us."""


def returned_fields(fields: Iterable[tuple[str, str]], *, streams: bool, empty: bool) -> Fields:
    """Return the header fields of the reply to a server's answer that has these.

    The media type is what the body was read as, whatever the server called it.
    """
    kept = tuple(
        (name, text) for name, text in fields if name in _CHECKED and _CHECKED[name].fullmatch(text)
    )
    if streams:
        return (EVENTS, *kept)
    return kept if empty else (CONTENT_TYPE, *kept)


def streamed_or_not(answer: RawAnswer, *, in_session: bool) -> RawAnswer:
    """Return the answer of a server that was asked for a stream; a bare 405, where it has none.

    To a client a 404 is the end of its session, and anything whole in a stream's place a reason to
    ask again at once (MCP 2025-11-25, transports: a stream, or 405).
    """
    if not isinstance(answer.body, bytes):
        return answer
    missing = answer.status == HTTPStatus.NOT_FOUND and not in_session
    if answer.status >= HTTPStatus.BAD_REQUEST and not missing:
        return answer
    return replace(answer, status=HTTPStatus.METHOD_NOT_ALLOWED, headers=(), body=b"")


def returned(status: int, fields: Fields, body: bytes) -> Reply:
    """Return the reply to a server's whole answer; a method that is not allowed says which is."""
    if status not in _STATUSES:
        status = returned_status(status, empty=not body)
    if status == HTTPStatus.METHOD_NOT_ALLOWED and "allow" not in dict(fields):
        fields = (*fields, ("allow", "POST"))  # RFC 9110 section 15.5.6
    return Reply(status=status, headers=fields, body=body)


def returned_status(status: int, *, empty: bool) -> int:
    """Return the status of the reply to a server's answer with `status`: itself, if it is one of ours."""
    if status in _STATUSES:
        return status
    match status // 100:
        case 2:
            return HTTPStatus.ACCEPTED if empty else HTTPStatus.OK
        case 4:
            return HTTPStatus.BAD_REQUEST
        case _:
            return HTTPStatus.BAD_GATEWAY

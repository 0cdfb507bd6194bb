"""The head of a reply: of what a server says there, only what can mean nothing else to a client."""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

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


def returned_status(status: int, *, empty: bool) -> int:
    """Return the status of the reply to a server's answer with `status`."""
    if status in _STATUSES:
        return status
    match status // 100:
        case 2:
            return HTTPStatus.ACCEPTED if empty else HTTPStatus.OK
        case 4:
            return HTTPStatus.BAD_REQUEST
        case _:
            return HTTPStatus.BAD_GATEWAY

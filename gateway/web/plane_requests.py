"""How planes prove themselves, send and are answered, whatever they speak."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from hashlib import sha256
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from starlette.types import Receive, Scope, Send

from gateway.domain._value import value
from gateway.domain.planes import Plane
from gateway.domain.throttle import Throttle
from gateway.errors import (
    AuditUnavailable,
    GatewayError,
    ProtocolError,
    RateLimited,
    Unauthenticated,
)
from gateway.web.guard import plain, throttled
from gateway.web.scopes import found_in

Known = TypeVar("Known")

REQUEST_ID: Final = "x-request-id"
_BODY_S: Final = 30.0
_LONGEST_REQUEST_ID: Final = 128
_LONGEST_KEY: Final = 4 * 1024
_MOST_FAILURES: Final = 300
_UNAUTHORIZED: Final = 401
_OTHER_METHOD: Final = 405
_FOR_ANYBODY: Final = frozenset({200, _OTHER_METHOD})
"""What is answered without a key."""


@value
class Told:
    """An HTTP answer."""

    status: int
    body: bytes
    media: str = "application/json"
    more: tuple[tuple[bytes, bytes], ...] = ()


@value
class Came:
    """Whose request has come, from where, and how it is called."""

    holder: Any
    """Of its key; `None`: nobody that is registered."""
    address: str
    request_id: str


@value
class _Read:
    """What a door finds in a head."""

    headers: Mapping[str, str] = field(repr=False)
    holder: Any
    request_id: str
    """Empty where none is told that can be repeated."""


Answering: TypeAlias = Callable[[Scope, Mapping[str, str], Receive, Came], Awaitable[Told]]
"""Answers a request with these headers."""


class Refuse(Protocol):
    """Puts on record that a request was refused; raises `AuditUnavailable`."""

    async def __call__(
        self, error: GatewayError, *, source_ip: str, request_id: str, plane: Plane | None
    ) -> None: ...


async def on_record(
    refuse: Refuse, error: GatewayError, came: Came, plane: Plane | None
) -> GatewayError:
    """Return the refusal once it is on record, wherever it was said; else that it cannot be."""
    if error.recorded or isinstance(error, AuditUnavailable):
        return error
    try:
        await refuse(error, source_ip=came.address, request_id=came.request_id, plane=plane)
    except GatewayError as unrecorded:
        return unrecorded
    return error


class PlaneDoor:
    """Turns away, unread, whoever has come with a wrong key too often."""

    def __init__(
        self,
        *,
        client_address: Callable[[Scope], str],
        by_key: Mapping[bytes, object],
        refused_unread: Callable[[str, str], None],
        new_id: Callable[[], str],
    ) -> None:
        """Hear whoever has a key of these digests, however often somebody at their address was wrong."""
        self._by_key = by_key
        self._client_address = client_address
        self._refused_unread = refused_unread
        self._new_id = new_id
        self._failures = Throttle(allowed=_MOST_FAILURES, window_s=60.0)

    async def answer(
        self, scope: Scope, receive: Receive, send: Send, answering: Answering
    ) -> None:
        """Answer one HTTP request."""
        address = self._client_address(scope)
        read = self._read(scope)
        is_known = read.holder is not None
        if not is_known:
            if (refused := throttled(self._failures, address)) is not None:
                self._refused_unread(refused.code, address)
                await plain(send, refused)
                return
            # Before it is on record: of many at once each counts.
            self._failures.note(address, asyncio.get_running_loop().time())
        request_id = read.request_id or self._new_id()
        came = Came(holder=read.holder, address=address, request_id=request_id)
        told = await answering(scope, read.headers, receive, came)
        fields = [
            (b"content-type", told.media.encode()),
            (b"cache-control", b"no-store"),
            (b"content-length", str(len(told.body)).encode()),
            (REQUEST_ID.encode(), request_id.encode()),
            *told.more,
        ]
        if told.status == _OTHER_METHOD:
            self._refused_unread("method", address)
        if told.status == _UNAUTHORIZED:
            fields.append((b"www-authenticate", b"Bearer"))
        if told.status in _FOR_ANYBODY and not is_known:
            self._failures.forgive(address)  # it was for anybody
        await send({"type": "http.response.start", "status": told.status, "headers": fields})
        await send({"type": "http.response.body", "body": told.body})

    def _read(self, scope: Scope) -> _Read:
        """Return what stands in the head of a request, as it was read when it was said first."""
        found = found_in(scope)
        by, known = found.read_by
        if by is self:
            read: _Read = known
            return read
        headers = dict(found.pairs)
        read = _Read(
            headers=headers,
            holder=keyed(headers, self._by_key),
            request_id=request_id_of(headers),
        )
        found.read_by = self, read
        return read


def status_of(error: GatewayError) -> int:
    """Return the HTTP status of what was refused unread, or could not be answered."""
    if isinstance(error, ProtocolError):
        return error.status
    return {Unauthenticated: _UNAUTHORIZED, RateLimited: 429}.get(type(error), 500)


def keyed(headers: Mapping[str, str], by_key: Mapping[bytes, Known]) -> Known | None:
    """Return who holds the key of the Authorization header (RFC 6750 section 2.1)."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or len(key) > _LONGEST_KEY:
        return None
    return by_key.get(sha256(key.strip().encode("latin-1")).digest())


def is_json(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def request_id_of(headers: Mapping[str, str]) -> str:
    """Return what a plane calls its request; nothing, if that is nothing to repeat."""
    told = headers.get(REQUEST_ID, "")
    return (
        told if told.isascii() and told.isprintable() and len(told) <= _LONGEST_REQUEST_ID else ""
    )


async def read_body(receive: Receive, most_bytes: int) -> bytes:
    """Return a request's body.

    Raises:
        ProtocolError: It is too large, takes too long, or does not come whole.

    """
    body, is_whole = await _piece(receive, most_bytes)
    if is_whole:
        return body
    parts = [body]
    size = len(body)
    try:
        async with asyncio.timeout(_BODY_S):
            while not is_whole:
                body, is_whole = await _piece(receive, most_bytes - size)
                parts.append(body)
                size += len(body)
            return b"".join(parts)
    except TimeoutError:
        raise ProtocolError("the body took too long", status=408) from None


async def _piece(receive: Receive, most_bytes: int) -> tuple[bytes, bool]:
    """Return the next piece of a body, and whether it is the last; the first one the connection bounds in time."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ProtocolError("the body did not come whole")
    body: bytes = message.get("body", b"")
    if len(body) > most_bytes:
        raise ProtocolError("the body is too large", status=413)
    return body, not message.get("more_body")

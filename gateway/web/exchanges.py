"""One request as an application sees it (ASGI 3, HTTP), and its answer in bytes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Any, Final, Protocol

from starlette.types import Message, Scope

from gateway.http1 import RawPairs, require_fields

logger = logging.getLogger(__name__)

App = Callable[[Scope, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Any]
Fields = Iterable[tuple[bytes, bytes]]

_BODILESS = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_PHRASES: Final = {int(status): f"{status.phrase}".encode() for status in HTTPStatus}
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_BUG: Final = b"Internal Server Error"
_MUCH: Final = 64 * 1024
"""Of a body that the application has not asked for: beyond that the client has to wait."""


class Peer(Protocol):
    """The connection that an exchange is on."""

    is_full: bool
    """Whether the client has to take some of what was sent before it gets more."""

    @property
    def reads_chunks(self) -> bool:
        """Whether chunks of the request are on their way still: to find their end costs work."""

    def write(self, data: bytes) -> None:
        """Send `data`, or keep it for a client that reads slowly."""

    async def taken(self) -> None:
        """Return once the client has taken so much that it may get more, or is gone."""

    def went_on(self) -> None:
        """Read on, if that waited for the body to be taken."""

    def answered(self) -> None:
        """Go on to the next request, or close where `keeps` of the exchange says so."""

    def close(self) -> None:
        """Close without an answer, or in the middle of it."""


class Exchange:
    """A request, of which the body comes while it is answered. One answer is given, and no other."""

    def __init__(
        self, peer: Peer, scope: Scope, *, minor: int, keeps: bool, waits_for_leave: bool
    ) -> None:
        """Take what `scope` asks for; `keeps` is whether another request may follow.

        `waits_for_leave` is whether the client sends no body before it is told to (RFC 9110 section 10.1.1).
        """
        self._peer = peer
        self._scope = scope
        self._minor = minor
        self.keeps = keeps
        self._waits_for_leave = waits_for_leave
        self._came = bytearray()
        self.is_whole = False
        """Whether all of the request has come."""
        self._is_told = False
        """And the application knows it."""
        self.is_gone = False
        self.is_begun = False
        self.is_complete = False
        self._head = b""
        """Held back until what it announces is there."""
        self._left: int | None = None
        """What is missing of an answer whose length was told; else it is in chunks, or ends by the close."""
        self._is_chunked = False
        self._waiter: asyncio.Future[None] | None = None

    async def run(self, app: App) -> None:
        """Have the request answered, whatever `app` does: what it raises is a bug, and is logged."""
        try:
            await app(self._scope, self.receive, self.send)
            if not self.is_complete and not self.is_gone:
                raise RuntimeError("a request was left without an answer")  # noqa: TRY301
        except asyncio.CancelledError:
            self._give_up()
            raise
        except Exception:
            logger.exception("a request met a bug")
            self._give_up()

    def _give_up(self) -> None:
        """Say that there will be no answer; in the middle of one, only the close says so."""
        if self.is_complete or self.is_gone:
            return
        if self.is_begun and not self._head:
            self._peer.close()
            return
        self.keeps = False
        fields = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"21")]
        self._begin(HTTPStatus.INTERNAL_SERVER_ERROR, fields)
        self._add(_BUG, more=False)

    # What the connection tells it.

    @property
    def has_much(self) -> bool:
        """Whether more of the body has come than is asked for, and the client had better wait."""
        return len(self._came) > _MUCH and not self.is_complete

    def add(self, piece: bytes) -> None:
        """Take a piece of the body."""
        self._came += piece
        self._wake()

    def end(self) -> None:
        """Note that the request is whole."""
        self.is_whole = True
        self._wake()

    def leave(self) -> None:
        """Note that the client is gone."""
        self.is_gone = True
        self._wake()

    # What the application is given.

    async def receive(self) -> Message:
        """Return the next of the body, or that nobody is there any more, or waits for anything."""
        if self._waits_for_leave:
            self._waits_for_leave = False
            if not self.is_whole and not self._came and not self.is_gone:
                self._peer.write(_CONTINUE)
        while not (self.is_gone or self.is_complete):
            if self._came or (self.is_whole and not self._is_told):
                return self._next()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return {"type": "http.disconnect"}

    def _next(self) -> Message:
        body = bytes(self._came)
        self._came.clear()
        self._is_told = self.is_whole
        if not self.is_whole:
            self._peer.went_on()
        return {"type": "http.request", "body": body, "more_body": not self.is_whole}

    async def send(self, message: Message) -> None:
        """Send the head of the answer, or the next of its body.

        Raises:
            RuntimeError: That is not what comes next, or not what was announced.

        """
        if self._peer.is_full:
            await self._peer.taken()
        if self.is_gone:
            return
        kind = message["type"]
        if kind == "http.response.start" and not self.is_begun:
            self._begin(message["status"], message.get("headers", ()))
        elif kind == "http.response.body" and self.is_begun and not self.is_complete:
            self._add(message.get("body", b""), more=message.get("more_body", False))
        else:
            raise RuntimeError(f"{kind} is not what comes next")

    def _begin(self, status: int, fields: Fields) -> None:
        told = self._told(fields)
        told += self._framed(status)
        require_fields(told)
        lines = b"".join([b"%b: %b\r\n" % pair for pair in told])
        head = b"HTTP/1.1 %d %b\r\n%b\r\n" % (status, _PHRASES.get(status, b""), lines)
        self.is_begun = True
        if self._left is None:
            self._peer.write(head)
        else:
            self._head = head

    def _told(self, fields: Fields) -> RawPairs:
        """Return `fields` without those that are the connection's to say."""
        told = []
        for name, text in fields:
            kind = name.lower()
            if kind == b"connection":
                self.keeps = self.keeps and b"close" not in text.lower()
                continue
            if kind == b"content-length":
                self._left = int(text)
            elif kind == b"transfer-encoding":
                raise RuntimeError("how an answer is framed is told by its length alone")
            told.append((name, text))
        return told

    def _framed(self, status: int) -> RawPairs:
        """Settle where the answer ends and whether another may follow; return what says so."""
        if self._waits_for_leave and not (self.is_whole or self._came):
            # What comes next on this connection may be the body or not.
            self.keeps = False
        if self._peer.reads_chunks:
            # Nobody waits for them, and where they end is of no use but for another request.
            self.keeps = False
        if status in _BODILESS or self._scope["method"] == "HEAD":
            self._left = 0
        told = []
        if self._left is None and self._minor:
            self._is_chunked = True
            told.append((b"transfer-encoding", b"chunked"))
        elif self._left is None:
            self.keeps = False
        if not self.keeps:
            told.append((b"connection", b"close"))
        return told

    def _add(self, piece: bytes, *, more: bool) -> None:
        if self._scope["method"] == "HEAD":
            piece = b""
        if self._left is not None:
            self._left -= len(piece)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("an answer is not as long as it says")
        elif self._is_chunked:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
            piece += b"" if more else _LAST_CHUNK
        if self._head or piece:
            self._peer.write(self._head + piece)
            self._head = b""
        if not more:
            self.is_complete = True
            self._came.clear()
            self._wake()
            self._peer.answered()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

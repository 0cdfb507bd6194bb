"""What one connection may cost: how many there are, and how long each may take to say something."""

import asyncio
import re
from collections.abc import Callable
from enum import Enum
from typing import ClassVar, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.domain._value import value
from gateway.web.guard import TARGET, Refused
from gateway.web.pieces import Pieces

_CONNECTIONS = "connections"
"""How the counter calls a connection beyond the bound; nothing is said to it."""
_SLOW_READER = "slow_reader"
_SLOW_HEAD = Refused(status=408, code="slow_head", text="the request took too long")
_LARGE_HEAD = Refused(status=431, code="large_head", text="the request's head is too large")
_UPGRADE = Refused(
    status=400, code="upgrade", text="this connection stays HTTP/1.1: ask without Upgrade"
)
_UPGRADES: Final = re.compile(rb"(\r\n)upgrade(?=:)", re.IGNORECASE)
_NO_UPGRADE: Final = rb"\1x-grade"
"""As long: what a length counts stays where it is."""
_END_OF_HEAD: Final = b"\r\n\r\n"


@value
class Bounds:
    """Of one listener. None of them can be switched off."""

    connections: int
    """Open at once; one more is closed before it has said anything."""
    head_s: float = 10.0
    """From a connection's first moment, or a request's first byte, to the end of its head."""
    body_s: float = 45.0
    """From there to the request's last byte. An endpoint that answers with 408 is quicker."""
    head_bytes: int = 64 * 1024
    """Of a head that does not arrive at once; one that does may be as large as one read."""
    left_bytes: int = 4 * 1024 * 1024
    """Of a body that was answered before it was there: they are thrown away, so that its sender
    gets to read the answer. Then the connection is closed."""
    linger_s: float = 5.0
    """How long they are, where the answer says that it closes the connection: closed at once, it would
    be reset by what is still on its way, and its answer with it."""
    stall_s: float = 60.0
    """How long a client may leave what was sent to it unread."""
    unread_bytes: int = 16 * 1024**2
    """Of all clients together; beyond it the one that has not read for longest is let go."""


class _Part(Enum):
    HEAD = "head"
    BODY = "body"
    NOTHING = "nothing"
    """The request is whole; the next one has not begun."""


class BoundedConnection(HttpToolsProtocol):
    """Uvicorn's connection, which by itself waits for ever for a head, a body or a reader.

    Between a response and the next request uvicorn's own keep-alive limit holds.
    """

    bounds: ClassVar[Bounds]
    count: ClassVar[Callable[[str], None]]
    """Counts what is refused, by code."""
    unread: "ClassVar[dict[BoundedConnection, None]]"
    """Those whose clients do not read, the longest first."""

    _part = _Part.HEAD
    _is_leaving = False
    _head_bytes = 0
    _left_bytes = 0
    _arrival: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None
    _lingering: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._pieces = Pieces(transport, self._make_room, self._said_all)
        super().connection_made(cast("asyncio.Transport", self._pieces))
        if len(self.connections) > self.bounds.connections:
            type(self).count(_CONNECTIONS)
            transport.abort()
        else:
            self._arrival = self.loop.call_later(self.bounds.head_s, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        if self._lingering is not None:
            self._lingering.cancel()
        self._pieces.drop()
        self.resume_writing()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        # Who says nothing more may still read the answer; below, only what it has is sent.
        unread = self.transport.get_write_buffer_size() > 0
        if unread:
            self.transport.close()
        return unread

    def data_received(self, data: bytes) -> None:
        if self._lingering is not None:
            # None of it is read: what it asks for would have no answer.
            self._left_bytes += len(data)
            if self._left_bytes > self.bounds.left_bytes:
                self.transport.close()
            return
        begins = self._part is not _Part.BODY and not self._head_bytes
        super().data_received(_staying(data) if begins else data)
        # What came after a whole request and began no other one is not the request's answer.
        if self._part is _Part.NOTHING and not self.cycle.response_complete:
            return
        if self._part is not _Part.BODY:
            self._head_bytes += len(data)
            if self._head_bytes > self.bounds.head_bytes:
                self._end(_LARGE_HEAD)
                return
        if self._arrival is None:
            waiting_for_body = self._part is _Part.BODY
            limit_s = self.bounds.body_s if waiting_for_body else self.bounds.head_s
            self._arrival = self.loop.call_later(limit_s, self._too_slow)

    def on_message_begin(self) -> None:
        self._part = _Part.HEAD
        self._left_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._arrived()
        self._is_leaving = self.parser.should_upgrade()
        if self._is_leaving:
            # Nothing is asked of anybody: what follows may be its body or not.
            return
        # An authority in the target, which the scope has no place for, is for the guard to judge.
        self.scope["extensions"] = {TARGET: {"sent": self.url}}
        super().on_headers_complete()
        self._part = _Part.BODY

    def on_body(self, body: bytes) -> None:
        if self.cycle.response_complete:
            self._left_bytes += len(body)
            if self._left_bytes > self.bounds.left_bytes:
                self.transport.close()
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._is_leaving:
            return
        self._part = _Part.NOTHING
        self._arrived()
        super().on_message_complete()

    def _should_upgrade(self) -> bool:
        return False

    def _unsupported_upgrade_warning(self) -> None:
        """Refuse what the parser takes for the end of HTTP: it reads no body, and what comes next as a request."""
        self._end(_UPGRADE)

    def pause_writing(self) -> None:
        self._pieces.pause()
        if self._reader is None:
            self._reader = self.loop.call_later(self.bounds.stall_s, self.let_go)
        super().pause_writing()
        self.unread[self] = None
        self._make_room()

    def resume_writing(self) -> None:
        if not self._pieces.resume():
            return
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None
        self.unread.pop(self, None)
        super().resume_writing()

    def _said_all(self, below: asyncio.Transport) -> None:
        """Close; where the rest of an answered body is still on its way, once it had time to come."""
        answered = self._part is _Part.BODY and self.cycle.response_complete
        over = self._lingering is not None or self._left_bytes > self.bounds.left_bytes
        if over or not answered or below.is_closing():
            below.close()
            return
        self._arrived()
        self._lingering = self.loop.call_later(self.bounds.linger_s, below.close)
        self.flow.resume_reading()
        if below.can_write_eof():
            below.write_eof()

    def _arrived(self) -> None:
        """Note that a part of the request is there; the next one has its own time."""
        self._head_bytes = 0
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _too_slow(self) -> None:
        self._arrival = None
        if self._part is _Part.HEAD and self._head_bytes:
            self._end(_SLOW_HEAD)
        else:
            # Nothing came at all, or an endpoint still waits for the body: it learns from the close.
            self.transport.close()

    def _make_room(self) -> None:
        """Let go of whoever has not read for longest, while too much is kept for all of them."""
        kept = {each: each.transport.get_write_buffer_size() for each in self.unread}
        octets = sum(kept.values())
        for each, size in kept.items():
            if octets <= self.bounds.unread_bytes:
                return
            octets -= size
            del self.unread[each]
            each.let_go()

    def let_go(self) -> None:
        """End the connection: its client does not read."""
        type(self).count(_SLOW_READER)
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        if self._is_answering():
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _is_answering(self) -> bool:
        """Tell whether whatever is said now would be taken for the answer to an earlier request."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            return False
        is_its_own = self._part is _Part.BODY and not self.pipeline
        return cycle.response_started or not is_its_own

    def _end(self, refused: Refused) -> None:
        type(self).count(refused.code)
        if self._is_answering():
            self.transport.close()
        elif not self.transport.is_closing():
            text = refused.text.encode() + b"\n"
            head = (
                f"HTTP/1.1 {refused.status} \r\ncontent-type: text/plain; charset=utf-8\r\n"
                f"content-length: {len(text)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + text)
            self.transport.close()


def _staying(data: bytes) -> bytes:
    """Return `data` without an `Upgrade` in the head that it begins with: whoever offers may be left
    unanswered (RFC 9110, 7.8), and clients offer HTTP/2 with the first request that they make.
    """
    head, end, rest = data.partition(_END_OF_HEAD)
    return _UPGRADES.sub(_NO_UPGRADE, head) + end + rest if _UPGRADES.search(head) else data


def bounded_by(
    bounds: Bounds, count: Callable[[str], None] = lambda _: None
) -> type[BoundedConnection]:
    """Return the class of a listener's connections; `count` is called with each refusal's code."""

    class Configured(BoundedConnection):
        pass

    Configured.bounds, Configured.count = bounds, staticmethod(count)
    Configured.unread = {}
    return Configured

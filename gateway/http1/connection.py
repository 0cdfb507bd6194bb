"""One connection to a server: a request goes out, its answer comes in, and then perhaps the next."""

import asyncio
import select
import ssl
from collections.abc import Callable
from typing import Final, cast

from gateway.http1.body import Body, body_of
from gateway.http1.faults import BadMessage, Disconnected
from gateway.http1.head import END_OF_HEAD, MOST_HEAD_BYTES, Head, read_head
from gateway.http1.response import Patience, Response

_AT_ONCE_BYTES: Final = 1024 * 1024
"""Larger requests are handed over in pieces, lest writing one holds everybody else up."""
_PIECE_BYTES: Final = 256 * 1024
_MOST_INTERIM: Final = 8
_SWITCHED: Final = 101
_FINAL: Final = 200


def _untold(_: "Connection") -> None:
    """For a connection that nobody has yet."""


class Connection(asyncio.Protocol):
    """Carries one exchange at a time. Between two of them nothing comes: what does ends it.

    Raises nothing by itself: what goes wrong is told to whoever waits for the answer.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._arrivals = select.poll()
        self._response: Response | None = None
        self._unread = bytearray()
        """Of a head whose end has not come."""
        self._head: Head | None = None
        self._body: Body | None = None
        self._interim = 0
        self._unsent = memoryview(b"")
        self._is_full = False
        self._is_held = False
        """Whoever reads the answer has not taken what came."""
        self._busy = False
        """Some of what came is left for another turn of the loop."""
        self._is_stopped = False
        self._is_gone = False
        """Nothing more comes, and what came is read to its end."""
        self.heard_anything = False
        """Whether anything came since the last request."""
        self.usable = False
        """Whether another request may follow, as far as the loop has heard."""
        self.since = 0.0
        """When it was last used, on the loop's clock."""
        self.left: Callable[[Connection], object] = _untold
        """Told when an exchange is over, or the connection: both, if both are."""

    def exchange(self, request: bytes, patience: Patience) -> Response:
        """Send `request`, and return its answer, of which nothing has come yet."""
        self._head = self._body = None
        self._interim = 0
        self.heard_anything = False
        response = Response(patience, hold=self._hold, end=self.end)
        self._response = response
        if not self.usable:  # it was lost while it was handed over
            self._part(Disconnected())
        elif len(request) <= _AT_ONCE_BYTES:
            self._transport.write(request)
        else:
            self._unsent = memoryview(request)
            self._pour()
        return response

    def end(self) -> None:
        """End the connection at once, and what is under way on it."""
        self._give_up(Disconnected())

    def close(self) -> None:
        """End a connection on which nothing is under way, and wait for nothing.

        A peer that takes nothing more, or that never ends TLS from its side, would keep it open.
        """
        self.usable = False
        self._transport.abort()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing came that the loop has not come to: nobody asked for it, or it is the end."""
        return not self._arrivals.poll(0)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is none by inheritance.
        self._transport = cast("asyncio.Transport", transport)
        self._arrivals.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self.usable = True

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._pour()

    def data_received(self, data: bytes) -> None:
        if self._response is None:
            # Nobody asked: read as the next answer, it would be somebody else's (RFC 9112 section 9.2).
            self.end()
            return
        self.heard_anything = True
        self._response.heard()
        try:
            self._read(self._response, data)
        except BadMessage as fault:
            self._give_up(fault)

    def eof_received(self) -> None:
        body, response = self._body, self._response
        if response is not None and body is not None and body.closes and self._was_ended_by_peer():
            response.finish()
        self._leave()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - of any reason
        self._leave()

    def _leave(self) -> None:
        self.usable = False
        self._is_gone = True
        if not self._busy:
            self.end()

    def _read(self, response: Response, data: bytes) -> None:
        while self._body is None:
            searched = max(0, len(self._unread) + 1 - len(END_OF_HEAD))
            self._unread += data
            end = self._unread.find(END_OF_HEAD, searched)
            if (len(self._unread) if end < 0 else end) > MOST_HEAD_BYTES:
                raise BadMessage("too large a head")
            if end < 0:
                return
            head, data = bytes(self._unread[:end]), bytes(self._unread[end + len(END_OF_HEAD) :])
            self._unread.clear()
            self._begin(response, read_head(head))
        self._feed(response, self._body, data)

    def _begin(self, response: Response, head: Head) -> None:
        if head.status >= _FINAL:
            self._head, self._body = head, body_of(head)
            response.begin(head)
            return
        self._interim += 1
        if head.status == _SWITCHED or self._interim > _MOST_INTERIM:
            raise BadMessage("an answer that is none")

    def _feed(self, response: Response, body: Body, data: bytes) -> None:
        if piece := body.feed(data):
            response.add(piece)
        if body.ended:
            self.usable = self.usable and self._may_go_on(body)
            response.finish()
            self._part(Disconnected())
        elif body.waits != self._busy:
            self._busy = body.waits
            self._gate()
        if self._busy:
            self._loop.call_soon(self._feed_on, response, body)

    def _feed_on(self, response: Response, body: Body) -> None:
        """Read what was left for this turn."""
        if self._response is not response:
            return
        try:
            self._feed(response, body, b"")
        except BadMessage as fault:
            self._give_up(fault)
        if self._is_gone and not self._busy:
            self.end()

    def _may_go_on(self, body: Body) -> bool:
        """Whether the next request may use the connection: nothing is left over in either direction."""
        head = self._head
        if head is None or head.minor == 0 or body.rest or body.closes:
            return False
        if self._unsent or self._transport.get_write_buffer_size():
            return False
        options = ",".join(head.fields.every("connection")).lower().split(",")
        return "close" not in map(str.strip, options)

    def _was_ended_by_peer(self) -> bool:
        """Whether it is the peer that ended what it said: without TLS's word anybody between could have
        (RFC 9112 section 9.8).
        """
        tls: ssl.SSLObject | None = self._transport.get_extra_info("ssl_object")
        try:
            return tls is None or not tls.read(1)
        except ssl.SSLError:  # it was not told of an end, and wants more
            return False

    def _give_up(self, fault: Disconnected | BadMessage) -> None:
        self.close()
        self._part(fault)

    def _part(self, fault: Disconnected | BadMessage) -> None:
        """Part with the exchange under way: with `fault`, if its answer is not complete."""
        response, self._response = self._response, None
        self._unread.clear()
        self._unsent = memoryview(b"")
        self._is_held = self._busy = False
        self._gate()
        if response is not None:
            response.fail(fault)
        self.left(self)

    def _hold(self, hold: bool) -> None:
        self._is_held = hold
        self._gate()

    def _gate(self) -> None:
        """Read on, or not, as what there is allows."""
        stops = self._is_held or self._busy
        if stops == self._is_stopped or self._transport.is_closing():
            return
        self._is_stopped = stops
        if stops:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _pour(self) -> None:
        """Hand over the next piece of a large request, unless the peer takes none now."""
        if self._is_full or not self._unsent or self._transport.is_closing():
            return
        piece, self._unsent = self._unsent[:_PIECE_BYTES], self._unsent[_PIECE_BYTES:]
        self._transport.write(piece)
        if self._response is not None:
            self._response.heard()
        self._loop.call_soon(self._pour)

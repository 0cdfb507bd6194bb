"""Clients' connections (RFC 9112): read strictly, one request at a time, each bounded in time and size."""

import asyncio
import re
from collections.abc import MutableSet
from typing import Any, Final, cast

from gateway.http1 import END_OF_HEAD, BadMessage, Body, Chunked
from gateway.web.bounds import Together
from gateway.web.exchanges import App, Exchange
from gateway.web.guard import Refused
from gateway.web.heads import Heads
from gateway.web.own_words import CROWDED, LARGE_HEAD, MALFORMED, SLOW_HEAD, said
from gateway.web.pieces import Pieces
from gateway.web.scopes import of_connection

_CONNECTIONS = "connections"
"""How a connection beyond the bound is counted; nothing is said to it."""
_SLOW_READER = "slow_reader"
_AHEAD_BYTES: Final = 64 * 1024
"""Of what comes behind a request that is not answered yet: beyond that the client has to wait."""
_LINE_BREAKS: Final = re.compile(rb"\A(?:\r\n)+")


class Listener(Together):
    """What the connections of one listener have in common; as uvicorn's `http` it makes them."""

    def __call__(self, *, config: Any, server_state: Any, **_: object) -> "Connection":
        """Return how uvicorn has a client served: it accepts, waits for the last answer, and ends."""
        return Connection(
            self, config.loaded_app, beside=server_state.connections, tasks=server_state.tasks
        )


class Connection(asyncio.Protocol):
    """Reads a request, has it answered, and only then looks at what comes behind it.

    So a request is refused where no answer is under way, and nothing that it says can be taken for
    another's. Upgrades are passed over, as a server may (RFC 9110 section 7.8).
    """

    def __init__(
        self,
        listener: Together,
        app: App,
        *,
        beside: "MutableSet[Connection]",
        tasks: MutableSet[asyncio.Task[None]],
    ) -> None:
        self._listener = listener
        self._bounds = listener.bounds
        self._app = app
        self._beside = beside
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._transport: Pieces
        self._heads: Heads
        self._unread = bytearray()
        """Of a head whose end has not come, or behind the request that is answered."""
        self._has_begun = True
        """Whether the time of the next head runs: the first one's from the connection's first moment."""
        self._exchange: Exchange | None = None
        self._body: Body | None = None
        """Of the request that is answered, as long as it is not whole."""
        self._left_bytes = 0
        self._half_bytes = 0
        """Of a request that is not whole, or behind one that is answered, as far as the listener was told."""
        self._is_stopped = False
        self.is_full = False
        self._taken: asyncio.Future[None] | None = None
        self._due: float | None = None
        """When what is waited for has to be here, on the loop's clock."""
        self._timer: asyncio.TimerHandle | None = None
        self._reader: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None

    @property
    def unread_bytes(self) -> int:
        """How much is kept that the client has not read."""
        return self._transport.get_write_buffer_size()

    def shutdown(self) -> None:
        """Close once the request under way is answered."""
        if self._exchange is None or self._exchange.is_complete:
            self._transport.close()
        else:
            self._exchange.keeps = False

    def let_go(self) -> None:
        """End the connection: its client does not read."""
        self._listener.count(_SLOW_READER)
        self._transport.abort()

    def refuse_half(self) -> None:
        """Refuse a request that is not whole, or more than is answered: others need the room."""
        self._beside.discard(self)
        self._half_bytes = 0
        self._unread = bytearray()
        self._refuse(CROWDED)

    def give_place(self) -> None:
        """Close for somebody new; what is left of a body that was answered is not waited for."""
        self._beside.discard(self)
        self._body = None
        self._transport.close()

    @property
    def reads_chunks(self) -> bool:
        """Whether chunks of the request are on their way still."""
        return isinstance(self._body, Chunked)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        below = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self._transport = Pieces(below, self._listener.make_room, self._said_all)
        self._heads = Heads(of_connection(below), self._listener.heads)
        self._beside.add(self)
        if len(self._beside) > self._bounds.connections:
            self._listener.count(_CONNECTIONS)
            if not self._listener.make_place():
                below.abort()
                return
        self._listener.idle.add(self)
        self._allow(self._bounds.head_s)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - of any reason
        self._beside.discard(self)
        for timer in (self._timer, self._lingering):
            if timer is not None:
                timer.cancel()
        self._due = self._body = None
        self._heads.forget()
        self._listener.idle.leave(self)
        self._keeps_half(0)
        self._transport.drop()
        self.resume_writing()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.leave()

    def eof_received(self) -> bool:
        # Who says nothing more may still read the answer; below, only what it has is sent.
        unread = self._transport.get_write_buffer_size() > 0
        if unread:
            self._transport.close()
        return unread

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            # None of it is read: what it asks for would have no answer.
            self._throw_away(len(data))
        elif self._exchange is None:
            self._read_head(data)
        elif self._body is not None:
            self._read_body(self._exchange, self._body, data)
        else:
            self._unread += data
            self._keeps_half(len(self._unread))
            self._gate()

    def pause_writing(self) -> None:
        self._transport.pause()
        self.is_full = True
        if self._reader is None:
            self._reader = self._loop.call_later(self._bounds.stall_s, self.let_go)
        self._listener.unread[self] = None
        self._listener.make_room()

    def resume_writing(self) -> None:
        if not self._transport.resume():
            return
        self.is_full = False
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None
        self._listener.unread.pop(self, None)
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)

    # What comes in.

    def _read_head(self, data: bytes | bytearray) -> None:
        self._listener.idle.leave(self)
        searched = max(0, len(self._unread) + 1 - len(END_OF_HEAD))
        if self._unread:
            self._unread += data
            data = self._unread
        if data.startswith(b"\r\n"):
            # Some clients end a body with a line of its own (RFC 9112 section 2.2).
            data = _LINE_BREAKS.sub(b"", data)
            searched = 0
        end = data.find(END_OF_HEAD, searched)
        if (len(data) if end < 0 else end) > self._bounds.head_bytes:
            self._refuse(LARGE_HEAD)
        elif end < 0:
            self._unread = data if isinstance(data, bytearray) else bytearray(data)
            self._keeps_half(len(self._unread))
            if not self._unread:
                self._listener.idle.add(self)
            if not self._has_begun:
                self._has_begun = True
                self._allow(self._bounds.head_s)
        else:
            head, rest = bytes(data[:end]), bytes(data[end + len(END_OF_HEAD) :])
            self._unread = bytearray()
            self._begin(head, rest)

    def _begin(self, said: bytes, rest: bytes) -> None:
        try:
            head, digits = self._heads.read(said)
        except BadMessage:
            self._refuse(MALFORMED)
            return
        self._has_begun = False
        self._body = body = head.body(digits)
        self._exchange = exchange = Exchange(
            self,
            head.scope(digits),
            minor=head.minor,
            keeps=head.keeps,
            waits_for_leave=head.waits_for_leave,
        )
        self._due = None
        self._read_body(exchange, body, rest)
        if exchange.is_gone:
            return
        if not body.ended:
            self._allow(self._bounds.body_s)
            self._keeps_half(self._half_bytes or 1)  # also while nothing of the body has come
        task = self._loop.create_task(exchange.run(self._app))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _read_body(self, exchange: Exchange, body: Body, data: bytes) -> None:
        try:
            piece = body.feed(data)
        except BadMessage:
            self._refuse(MALFORMED)
            return
        if exchange.is_complete:
            self._throw_away(len(piece))
        elif piece:
            exchange.add(piece)
            if not body.ended:
                self._keeps_half(self._half_bytes + len(piece))
        if body.ended:
            self._body = self._due = None
            self._unread += body.rest
            self._keeps_half(len(self._unread))
            exchange.end()
            if exchange.is_complete:
                self._next()
                return
        elif body.waits:
            self._loop.call_soon(self._read_on, exchange, body)
        if self._is_stopped or self._unread or self._body is not None:
            self._gate()

    def _read_on(self, exchange: Exchange, body: Body) -> None:
        """Read what was left for this turn."""
        if self._body is body and not self._transport.is_closing():
            self._read_body(exchange, body, b"")

    def _keeps_half(self, octets: int) -> None:
        if octets != self._half_bytes:
            self._half_bytes = octets
            self._listener.halves.note(self, octets)

    def _throw_away(self, octets: int) -> None:
        self._left_bytes += octets
        if self._left_bytes > self._bounds.left_bytes:
            self._transport.close()

    def _gate(self) -> None:
        """Read on, or not, as what has been read allows."""
        exchange, body = self._exchange, self._body
        stops = self._lingering is None and (
            (exchange is not None and exchange.has_much)
            or (body is not None and body.waits)
            or (exchange is not None and len(self._unread) > _AHEAD_BYTES)
        )
        if stops == self._is_stopped or self._transport.is_closing():
            return
        self._is_stopped = stops
        if stops:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # What goes out.

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    async def taken(self) -> None:
        while self.is_full:
            self._taken = self._loop.create_future()
            try:
                await self._taken
            finally:
                self._taken = None

    def went_on(self) -> None:
        self._gate()

    def answered(self) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        self._keeps_half(0)
        if not exchange.keeps or self._transport.is_closing():
            self._transport.close()
        elif self._body is None:
            self._next()
        else:
            self._listener.idle.add(self)
            self._gate()

    def close(self) -> None:
        self._transport.close()

    def _next(self) -> None:
        """Look at what has come behind a request that is answered, and wait for more."""
        self._exchange = None
        self._left_bytes = 0
        self._allow(self._bounds.idle_s)
        self._listener.idle.add(self)
        if self._unread:
            data, self._unread = self._unread, bytearray()
            self._read_head(data)
        if self._is_stopped:
            self._gate()

    def _said_all(self, below: asyncio.Transport) -> None:
        """Close; where the rest of an answered body is still on its way, once it had time to come."""
        answered = self._exchange is not None and self._exchange.is_complete
        over = self._lingering is not None or self._left_bytes > self._bounds.left_bytes
        if over or not answered or self._body is None or below.is_closing():
            below.close()
            return
        self._due = None
        self._lingering = self._loop.call_later(self._bounds.linger_s, below.close)
        if self._is_stopped:
            self._is_stopped = False
            below.resume_reading()
        if below.can_write_eof():
            below.write_eof()

    def _refuse(self, refused: Refused) -> None:
        """Answer, unless an answer has begun, and close."""
        self._listener.count(refused.code)
        exchange = self._exchange
        if exchange is None or not exchange.is_begun:
            self._transport.write(said(refused))
        self._body = None
        if exchange is not None:
            exchange.leave()
        self._transport.close()

    # What takes too long.

    def _allow(self, limit_s: float) -> None:
        """Wait so long for what comes next. One timer is kept: most of what is waited for comes."""
        self._due = due = self._loop.time() + limit_s
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._look)
        elif due < self._timer.when():
            self._timer.cancel()
            self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._due is None:
            return
        if self._due > self._loop.time():
            self._timer = self._loop.call_at(self._due, self._look)
        elif self._unread and self._exchange is None:
            self._refuse(SLOW_HEAD)
        else:
            # Nothing came at all, or an endpoint still waits for the body: it learns from the close.
            self._transport.close()

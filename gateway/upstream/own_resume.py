"""The stream of one answer, taken up again where it broke off (MCP 2025-11-25, transports, resumability).

The request is never sent again: what is asked for is the rest of its answer, with the id of the last
event that came.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Final, Self

from gateway.domain.calls import Form, Message, RawAnswer, ServerEvent
from gateway.errors import UpstreamFailed
from gateway.ports import Upstream
from gateway.upstream.faults import Late, late, too_large
from gateway.upstream.own_asking import Asking
from gateway.upstream.settings import Limits, Timeouts
from gateway.wire.sse import event_id, retry_s

_MOST_TRIES: Final = 5
"""In a row, that bring nothing at all."""
_RETRY_S: Final = 1.0
"""The first pause, where the server asks for none; each that brings nothing doubles the next."""
_SHORTEST_S: Final = 0.1
_LONGEST_S: Final = 30.0
"""Unless the server asks for a longer one."""
_REMEMBERED: Final = 1_000
"""Ids of events that came."""
_USABLE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,1022}[\x21-\x7e])?")
"""An id that a header field can carry."""
PAUSED: Final = ServerEvent(raw=b"retry: 1000\n\n", data=None)
"""The server has closed the stream, and wants to be asked for the rest."""
_GET: Final = Message(form=Form.STREAM, method="GET", id=None, params={}, body=b"")


class Resumed:
    """The events of one answer, each once, over as many streams as it takes until the response.

    Whoever holds it closes it.
    """

    def __init__(
        self,
        events: AsyncIterator[ServerEvent],
        asking: Asking,
        relay: Upstream,
        *,
        timeouts: Timeouts,
        limits: Limits,
        ends_at: float,
        given_up: Callable[[], None],
    ) -> None:
        """Go on until `ends_at`, by the event loop's clock, at most.

        `given_up` is called when the upstream, which may still be working, is not waited for any more.
        """
        self._events = events
        self._asking = asking
        self._relay = relay
        self._timeouts = timeouts
        self._most_bytes = limits.stream_bytes
        self._ends_at = ends_at
        self._given_up = given_up
        self._taken_bytes = 0
        self._again = False
        """Whether this is not the first of its streams."""
        self._last_id = ""
        self._ids: deque[str] = deque(maxlen=_REMEMBERED)
        self._before: frozenset[str] = frozenset()
        """Ids of what came on earlier streams."""
        self._retry_s = _RETRY_S
        self._tries = 0
        """In a row, since anything came."""
        self._pauses = False
        """Whether it was said that the last stream has ended."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ServerEvent:
        """Return the next event, or `PAUSED` where a stream has ended before the answer.

        Raises:
            UpstreamFailed: The stream broke and cannot be taken up again, or the upstream fell silent.
            LimitExceeded: An event, or all of them, are larger than the limits allow.

        """
        while True:
            if self._pauses and not await self._taken_up():
                raise StopAsyncIteration
            self._pauses = False
            try:
                event = await self._next()
            except StopAsyncIteration:
                if not self._may_go_on:
                    raise
                self._pauses = True
                return PAUSED
            except Late:
                raise  # it was given up, and has been told so
            except UpstreamFailed:
                if not await self._taken_up():
                    raise
            else:
                if self._is_new(event):
                    return event

    async def aclose(self) -> None:
        """Stop reading."""
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()

    async def _next(self) -> ServerEvent:
        if not self._again:
            return await anext(self._events)  # which has clocks of its own
        # On a stream of a GET the upstream may be silent for ever; not while an answer is awaited.
        left_s = self._left_s()
        try:
            async with asyncio.timeout(min(left_s, self._timeouts.idle_s)):
                return await anext(self._events)
        except TimeoutError as error:
            self._given_up()
            if self._timeouts.idle_s < left_s:
                raise late("idle", self._timeouts.idle_s) from error
            raise late("hard maximum", self._timeouts.hard_s) from error

    def _is_new(self, event: ServerEvent) -> bool:
        """Take note of `event`, and say whether it has not come before."""
        self._tries = 0
        self._taken_bytes += len(event.raw)
        if self._taken_bytes > self._most_bytes:
            raise too_large(f"streams of more than {self._most_bytes} bytes")
        if (asked_s := retry_s(event)) is not None:
            self._retry_s = asked_s
        id_ = event_id(event)
        if id_ is None:
            return True
        self._last_id = id_ if _USABLE.fullmatch(id_) else ""
        self._ids.append(id_)
        return id_ not in self._before

    @property
    def _may_go_on(self) -> bool:
        return not self._asking.answered and bool(self._last_id) and self._tries < _MOST_TRIES

    async def _taken_up(self) -> bool:
        """Go on with another stream; `False` if there is no need for one, or no way to it."""
        await self.aclose()
        while self._may_go_on:
            pause_s = self._pause_s()
            if pause_s >= self._left_s():
                return False
            await asyncio.sleep(pause_s)
            self._tries += 1
            answer = await self._asked_for()
            if answer is None:
                continue
            if not isinstance(answer.body, bytes):
                self._events = answer.body
                self._again = True
                self._before = frozenset(self._ids)
                return True
            if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                return False  # it keeps nothing to come back for, or has forgotten the session
        return False

    async def _asked_for(self) -> RawAnswer | None:
        """Ask for what came after the last event; `None` if there was no answer."""
        wanted = self._asking.beside(_GET)
        headers = (*wanted.call.headers, ("last-event-id", self._last_id))
        wanted = replace(wanted, call=replace(wanted.call, headers=headers))
        try:
            async with asyncio.timeout(self._left_s()):
                return await self._relay.forward(wanted)
        except (UpstreamFailed, TimeoutError):
            return None

    def _pause_s(self) -> float:
        pause_s = max(_SHORTEST_S, self._retry_s)
        return max(pause_s, min(_LONGEST_S, pause_s * 2.0**self._tries))

    def _left_s(self) -> float:
        return self._ends_at - asyncio.get_running_loop().time()

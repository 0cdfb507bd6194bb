"""An upstream's event stream, read one event at a time."""

from collections.abc import Callable, Hashable, Iterator
from typing import Self

from gateway.domain.calls import ServerEvent
from gateway.domain.room import SHARE
from gateway.errors import LimitExceeded
from gateway.http1 import LATE, HttpFault, Response
from gateway.turns import Pace
from gateway.upstream.faults import broken_answer, too_large
from gateway.upstream.roomy import Answering
from gateway.upstream.settings import Limits, Timeouts
from gateway.wire.sse import EventReader


class EventStream:
    """The events of one answer, as they arrive and not sooner: a slow reader slows the upstream.

    Of many that have come at once its reader gets some in one turn of the loop.

    Whoever holds it closes it. It closes itself at its end, on a fault, and when the reader is
    cancelled while it waits.
    """

    def __init__(
        self,
        response: Response,
        *,
        timeouts: Timeouts,
        limits: Limits,
        server: Hashable,
        abandoned: Callable[[], None],
    ) -> None:
        """`abandoned` is called when we, not the upstream, end the stream before its end."""
        self._response = response
        self._timeouts = timeouts
        self._limits = limits
        self._abandoned = abandoned
        self._reader = EventReader(limits.wire)
        self._ready: Iterator[ServerEvent] = iter(())
        """What has come and was not asked for: it is cut into events one by one."""
        self._pace = Pace()
        self._taken_bytes = 0
        self._ended = False
        self._room = Answering(SHARE.get(), limits.wire.event_bytes, server)
        """What the event takes that is being read, or was given out last."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ServerEvent:
        """Return the next event.

        Raises:
            UpstreamFailed: The connection broke or the upstream fell silent.
            LimitExceeded: An event or the stream is larger than the limits allow, or there was no room
                for a large event in time, or it came too slowly.

        """
        self._room.settle(0)
        try:
            if self._pace.is_due:
                await self._pace.turn()
            event = await self._coming()
        except BaseException:
            await self.aclose()
            raise
        self._pace.hand(len(event.raw))
        return event

    async def aclose(self) -> None:
        """Close the connection at once, which cancels a call of the stateless revision.

        Waits for nothing, so that it also works while its caller is being cancelled.
        """
        self._room.settle(0)
        self._response.close()

    async def _coming(self) -> ServerEvent:
        while (event := self._next()) is None:
            if self._ended:
                raise StopAsyncIteration
            await self._room.grown(self._reader.pending)
            self._take(await self._chunk())
        return event

    async def _chunk(self) -> bytes:
        try:
            return await self._room.next(self._response.piece())
        except HttpFault as error:
            if isinstance(error, LATE):
                self._abandoned()
            raise broken_answer(error, self._timeouts) from error

    def _take(self, chunk: bytes) -> None:
        if not chunk:
            # What the upstream began and did not end is no event.
            self._ended = True
            self._ready = iter(self._reader.finish()[0])
            return
        self._taken_bytes += len(chunk)
        if self._taken_bytes > self._limits.stream_bytes:
            self._give_up()
            raise too_large(f"a stream of more than {self._limits.stream_bytes} bytes")
        self._ready = self._reader.feed(chunk)

    def _next(self) -> ServerEvent | None:
        try:
            return next(self._ready, None)
        except LimitExceeded:
            self._give_up()
            raise

    def _give_up(self) -> None:
        self._response.close()
        self._abandoned()

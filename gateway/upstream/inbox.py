"""What a local server says to one reader: a bounded queue, and the stream of events made of it."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final, Self

from gateway.domain._value import value
from gateway.domain.calls import ServerEvent
from gateway.domain.room import SHARE
from gateway.errors import GatewayError
from gateway.turns import Pace
from gateway.upstream.faults import late, too_large
from gateway.upstream.roomy import Answering
from gateway.upstream.settings import Limits, Timeouts
from gateway.wire.sse import data_event

_EACH: Final = 256
"""Bytes that a message takes by itself, however little it says."""


@value
class Heard:
    """One message of a server's."""

    line: bytes
    final: bool = False
    """Whether it is the response that its reader waits for."""
    beside: bool = False
    """Whether it does not say by a token whose it is."""


class Ending(Enum):
    """How a reader comes to read no more."""

    ANSWERED = auto()
    GONE = auto()
    """It went away."""
    GIVEN_UP = auto()
    """Too much came, or nothing."""


class Backlog:
    """What one process has said that its readers have not taken, of all of them together."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._less = asyncio.Event()

    def grow(self, octets: int) -> None:
        """Count so many bytes more, or less."""
        self._bytes += octets
        self._less.set()

    @property
    def is_full(self) -> bool:
        """Whether nothing more is read before some of it is taken."""
        return self._bytes >= self._most_bytes

    async def changed(self) -> None:
        """Return once somebody has taken something, or reads no more."""
        self._less.clear()
        await self._less.wait()


class Inbox:
    """Messages on their way to one reader; whoever is slow to read slows the server."""

    def __init__(self, backlog: Backlog, kept: Iterable[Heard] = ()) -> None:
        """`kept` comes first; once `backlog` is full, `put` waits."""
        self._backlog = backlog
        self._waiting = deque(kept)
        self._bytes = 0
        """What it has of the backlog: of all that waits, and of what was got and has no room elsewhere."""
        self._count(sum(map(_octets, self._waiting)))
        self._news = asyncio.Event()
        self._failure: GatewayError | None = None
        self._closed = False

    async def put(self, heard: Heard) -> None:
        """Add a message, once there is room for it; what nobody reads any more is dropped."""
        while self._backlog.is_full and not self._closed:
            await self._backlog.changed()
        if not self._closed:
            self._waiting.append(heard)
            self._count(_octets(heard))
            self._news.set()

    async def get(self) -> Heard:
        """Return the next message, which is counted here until it is `taken`.

        Raises:
            GatewayError: There will be none, because of this.

        """
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            self._news.clear()
            await self._news.wait()
        return self._waiting.popleft()

    def taken(self, heard: Heard) -> None:
        """Take note that a message that was got has its room elsewhere, or is given out."""
        if not self._closed:
            self._count(-_octets(heard))

    def fail(self, failure: GatewayError) -> None:
        """Let the reader, once it has read what there is, know that nothing more comes."""
        self._failure = self._failure or failure
        self._close()

    def close(self) -> None:
        """Take note that nobody reads any more."""
        self._waiting.clear()
        self._close()

    def _close(self) -> None:
        """Take nothing more, and wait for nobody: with a process that failed, or a reader that left."""
        self._closed = True
        self._count(-self._bytes)
        self._news.set()

    def _count(self, octets: int) -> None:
        self._bytes += octets
        self._backlog.grow(octets)


def _octets(heard: Heard) -> int:
    return _EACH + len(heard.line)


class Messages:
    """The messages of one inbox as events, until the response that its reader waits for.

    Whoever holds it closes it. It closes itself at its end and on a fault.
    """

    def __init__(
        self,
        inbox: Inbox,
        *,
        timeouts: Timeouts,
        limits: Limits,
        server: str,
        left: Callable[[Ending], None],
        listens: bool = False,
    ) -> None:
        """`left` is called once; one that `listens` has no idle limit."""
        self._inbox = inbox
        self._idle_s = None if listens else timeouts.idle_s
        self._hard_s = timeouts.hard_s
        self._ends_at = asyncio.get_running_loop().time() + timeouts.hard_s
        self._most_bytes = limits.stream_bytes
        self._taken_bytes = 0
        self._left = left
        self._room = Answering(SHARE.get(), limits.result_bytes, server)
        """What the message takes that was given out last."""
        self._pace = Pace()
        self._first: Heard | None = None
        self._ended = False

    async def first(self) -> Heard:
        """Return the first message, and keep it if it is not the response.

        Raises:
            UpstreamFailed, LimitExceeded: As `__anext__`.

        """
        heard = await self._next()
        if not heard.final:
            self._first = heard
        return heard

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ServerEvent:
        """Return the next event.

        Raises:
            UpstreamFailed: The process ended, spoke nonsense or fell silent.
            LimitExceeded: The stream, or a line, is larger than the limits allow, or there was no room
                for a large one in time.

        """
        if self._first is not None:
            heard, self._first = self._first, None
        elif self._ended:
            raise StopAsyncIteration
        else:
            heard = await self._next()
        return data_event(heard.line, beside=heard.beside)

    async def aclose(self) -> None:
        """Stop reading; waits for nothing, so it also works while its caller is being cancelled."""
        self._leave(Ending.GONE)

    async def _next(self) -> Heard:
        self._room.settle(0)
        try:
            if self._pace.is_due:
                await self._pace.turn()
            heard = await self._timed()
            await self._room.grown(len(heard.line))
            self._inbox.taken(heard)
            self._taken_bytes += len(heard.line)
            self._pace.hand(len(heard.line))
            if self._taken_bytes > self._most_bytes:
                raise too_large(f"a stream of more than {self._most_bytes} bytes")
        except GatewayError:
            self._leave(Ending.GIVEN_UP)
            raise
        except asyncio.CancelledError:
            self._leave(Ending.GONE)
            raise
        if heard.final:
            self._room.settle(len(heard.line))
            self._leave(Ending.ANSWERED)
        return heard

    async def _timed(self) -> Heard:
        left_s = self._ends_at - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(
                left_s if self._idle_s is None else min(left_s, self._idle_s)
            ):
                return await self._inbox.get()
        except TimeoutError as error:
            if self._idle_s is not None and self._idle_s < left_s:
                raise late("idle", self._idle_s) from error
            raise late("hard maximum", self._hard_s) from error

    def _leave(self, ending: Ending) -> None:
        self._room.settle(0)
        if not self._ended:
            self._ended = True
            self._inbox.close()
            self._left(ending)

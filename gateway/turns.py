"""Work that would hold the event loop, done beside it: bounded, and nobody's alone.

Pure Python beside the loop lets it have its turn every few milliseconds. What is quick stays where it
is, for the way to a thread and back costs more than that.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias, TypeVar

from gateway.errors import RateLimited

T = TypeVar("T")
Item = TypeVar("Item")

QUICK_NODES = 4_000
"""What `domain.nodes.weight` finds may be read in a turn of the loop: some milliseconds."""

_PLACES = 2
"""Threads. They share one interpreter: more would be no quicker, and the loop's turns rarer."""
_MOST_WAITING = 64
"""Of one person, or of one server by itself."""


_Whose: TypeAlias = tuple[asyncio.AbstractEventLoop, str]


class Turns:
    """Threads that one person never has more than one of, whatever they send at once.

    `who` is `Principal.person`: clients are made at will.
    """

    def __init__(self, *, places: int = _PLACES, most_waiting: int = _MOST_WAITING) -> None:
        self._threads = ThreadPoolExecutor(places, thread_name_prefix="douane-turns")
        self._most_waiting = most_waiting
        self._lines: dict[_Whose, asyncio.Lock] = {}
        self._waiting: Counter[_Whose] = Counter()

    async def take(self, who: str, work: Callable[..., T], *args: Any) -> T:
        """Return what `work` returns, done beside the loop once it is the turn of `who`.

        Work that was begun is done to its end, and keeps its place as long, also when nobody waits
        for it any more.

        Raises:
            RateLimited: So much of the same person's waits already.

        """
        if self._waiting[_whose(who)] >= self._most_waiting:
            raise RateLimited("too many large messages at once; wait a little and try again")
        return await self.finish(who, work, *args)

    async def finish(self, who: str, work: Callable[..., T], *args: Any) -> T:
        """Do as `take` does, however much waits: what is left to do of a call that was let in."""
        whose = _whose(who)
        line = self._lines.setdefault(whose, asyncio.Lock())
        self._waiting[whose] += 1
        try:
            await line.acquire()
        except asyncio.CancelledError:
            self._left(whose)
            raise
        done = asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *args))
        done.add_done_callback(lambda _: self._ended(whose, line))
        try:
            return await asyncio.shield(done)
        finally:
            # What it raises comes through here: with `done` it would be a cycle, and keep `args`.
            del done

    def close(self, last: Callable[[], object]) -> None:
        """Have `last` done once all that was begun is done, and begin nothing more."""
        self._threads.submit(last)
        self._threads.shutdown(wait=False)

    def _ended(self, whose: _Whose, line: asyncio.Lock) -> None:
        line.release()
        self._left(whose)

    def _left(self, whose: _Whose) -> None:
        self._waiting[whose] -= 1
        if not self._waiting[whose]:
            del self._waiting[whose], self._lines[whose]


def _whose(who: str) -> _Whose:
    """Return by what the line of `who` is known: an event loop that has ended lets nobody go on."""
    return asyncio.get_running_loop(), who


class Line:
    """Work of the same kind, one after the other: whoever asks for it takes no more than one thread."""

    def __init__(self, *, most_waiting: int = 8) -> None:
        self._most_waiting = most_waiting
        self._turn = asyncio.Lock()
        self._under_way = 0

    async def take(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return what `work` returns, begun once nothing before it is under way.

        It is done to its end, and keeps its place as long, also when nobody waits for it any more:
        a thread cannot be ended.

        Raises:
            RateLimited: So much waits already.

        """
        if self._under_way > self._most_waiting:
            raise RateLimited("too much of this is asked for at once; wait and try again")
        self._under_way += 1
        return await _to_its_end(self._done(work), self._ended)

    async def _done(self, work: Callable[[], Awaitable[T]]) -> T:
        async with self._turn:
            return await work()

    def _ended(self) -> None:
        self._under_way -= 1


async def in_thread(turn: asyncio.Lock | asyncio.Semaphore, work: Callable[[], T]) -> T:
    """Return what `work` returns, done in a thread that has `turn`: to its end, whoever waits for it.

    Let go by whoever waits, a lock would not keep the next thread from what this one is still at.
    """
    await turn.acquire()
    return await _to_its_end(asyncio.to_thread(work), turn.release)


async def awaited_whole(work: Callable[[], T]) -> T:
    """Return what `work` returns, done in a thread; who is cancelled meanwhile goes once it has ended.

    What a thread still reads must not be closed: SQLite ends the process over that.
    """
    done = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done])
        if not done.cancelled():
            done.exception()  # looked at: nobody hears of it any more
        raise


_UNDER_WAY: set[asyncio.Future[Any]] = set()
"""What nobody else may refer to any more."""


async def _to_its_end(work: Coroutine[Any, Any, T], ended: Callable[[], object]) -> T:
    """Return what `work` comes to, and call `ended` then, also if nobody waits for it any more."""

    def look(done: asyncio.Future[T]) -> None:
        _UNDER_WAY.discard(done)
        ended()
        if not done.cancelled():
            done.exception()  # looked at, also if whoever waited for it has gone

    task = asyncio.ensure_future(work)
    _UNDER_WAY.add(task)
    task.add_done_callback(look)
    try:
        return await asyncio.shield(task)
    finally:
        del task  # as in `Turns.take`


_TURNS = Turns()
"""Of this process: it has one interpreter."""


STEP = 64
"""Items of a list between two turns of the loop."""


async def in_steps(items: Sequence[Item]) -> AsyncIterator[Sequence[Item]]:
    """Yield `items`, which are quick one by one, some at a time; others have their turn between."""
    for start in range(0, len(items), STEP):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + STEP]


_AT_ONCE = 16 * 1024
_EACH = 256
"""Bytes that whatever is handed out counts for, however small it is."""


class Pace:
    """Tells when others are to have their turn, of what comes in small pieces and may be here at once.

    Whoever takes such pieces does not wait for the next one, and a clock of theirs would never be heard.
    """

    __slots__ = ("_handed",)

    def __init__(self) -> None:
        self._handed = 0

    def hand(self, octets: int) -> None:
        """Note that a piece of `octets` is handed out."""
        self._handed += _EACH + octets

    @property
    def is_due(self) -> bool:
        """Whether so much was handed out that others come before the next piece."""
        return self._handed > _AT_ONCE

    async def turn(self) -> None:
        """Let the others have their turn."""
        self._handed = 0
        await asyncio.sleep(0)


async def finished(who: str, nodes: int, work: Callable[..., T], *args: Any) -> T:
    """Return `work(*args)` as `in_turn` does, however much of the same waits: it must be done."""
    if nodes > QUICK_NODES:
        return await _TURNS.finish(who, work, *args)
    return work(*args)


async def in_turn(who: str, nodes: int, work: Callable[..., T], *args: Any) -> T:
    """Return `work(*args)`, which is about `nodes`: at once where that is quick, else beside the loop.

    Raises:
        RateLimited: As `Turns.take`.

    """
    if nodes <= QUICK_NODES:
        return work(*args)
    return await _TURNS.take(who, work, *args)

"""One piece of work at a time; whoever asks while it is done shares the next time it is."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gateway.errors import GatewayError

logger = logging.getLogger(__name__)


class Turns:
    """Does the same work again and again, never twice at once.

    Whoever asks gets a turn that begins after they asked, so it sees what they have done before. All
    who ask while a turn is taken share the next one. Whoever goes away ends it for nobody else.
    """

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._now: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def take(self) -> None:
        """Return once the work was done after now; raises what it raised."""
        await asyncio.shield(self.soon())

    def soon(self) -> asyncio.Task[None]:
        """Have the work done as soon as may be, and return the turn in which it is."""
        if self._next is None:
            self._next = asyncio.create_task(self._turn(self._now))
            self._next.add_done_callback(_tell)
        return self._next

    async def end(self) -> None:
        """End what is under way, and what waits."""
        turns = [task for task in (self._now, self._next) if task is not None]
        for task in turns:
            task.cancel()
        await asyncio.gather(*turns, return_exceptions=True)

    async def _turn(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        self._now, self._next = self._next, None
        await self._work()


def _tell(turn: asyncio.Task[None]) -> None:
    """Tell of a bug; what is refused on purpose has told that itself, whoever waits for it."""
    error = None if turn.cancelled() else turn.exception()
    if error is not None and not isinstance(error, GatewayError):
        logger.error("a change of the configuration has failed", exc_info=error)

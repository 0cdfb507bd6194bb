"""What another server says, kept for ten minutes, and through an outage of that server."""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from typing import Generic, TypeVar

from gateway.errors import EgressRefused, IdentityUnavailable, UpstreamFailed
from gateway.ports import Clock

T = TypeVar("T")

FRESH_S = 10 * 60
"""So long it is not asked for again."""

PAUSE_S = 30
"""Between two attempts, whatever made them needful: nobody can make us ask more often."""

FIRST_PAUSE_S = 1
"""The same, as long as there is nothing at all."""

LONGEST_OUTAGE_S = 24 * 60 * 60
"""What is older is not believed, lest a key that was withdrawn be good for ever."""


class Kept(Generic[T]):
    """One document of another server. Whoever wants it while it is fetched waits for one fetch."""

    def __init__(self, fetch: Callable[[], Awaitable[T]], *, clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._content: T | None = None
        self._fetched_at = -inf
        self._tried_at = -inf
        self._flight: asyncio.Task[None] | None = None
        self._fault = "never fetched"

    async def current(self) -> T:
        """Return what it says: as of the last ten minutes, or as it was before an outage.

        Raises:
            IdentityUnavailable: There is nothing, or nothing since a day.

        """
        return await self._not_older_than(FRESH_S, bearable_s=LONGEST_OUTAGE_S)

    async def newest(self) -> T:
        """Return what it says as of the last half minute.

        Raises:
            IdentityUnavailable: That is not known.

        """
        return await self._not_older_than(PAUSE_S, bearable_s=PAUSE_S)

    async def _not_older_than(self, wanted_s: float, *, bearable_s: float) -> T:
        if self._since(self._fetched_at) >= wanted_s:
            await self._refresh()
        content = self._content
        if content is None or self._since(self._fetched_at) >= bearable_s:
            raise IdentityUnavailable(
                "It cannot be told now who this is. Try again later.", detail=self._fault
            )
        return content

    async def _refresh(self) -> None:
        if self._flight is None:
            pause_s = FIRST_PAUSE_S if self._content is None else PAUSE_S
            if self._since(self._tried_at) < pause_s:
                return
            self._flight = asyncio.create_task(self._attempt())
        # Whoever hangs up does not take the answer from the others.
        await asyncio.shield(self._flight)

    async def _attempt(self) -> None:
        try:
            self._content = await self._fetch()
            self._fetched_at = self._clock()
        except (EgressRefused, UpstreamFailed, IdentityUnavailable) as fault:
            self._fault = fault.detail or fault.public
        finally:
            self._tried_at = self._clock()
            self._flight = None

    def _since(self, then: float) -> float:
        """Return the seconds since `then`; when the clock has gone back, that was long ago."""
        now = self._clock()
        return now - then if now >= then else inf

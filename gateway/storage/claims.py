"""Claims of one process, which others are asked for where there are any."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from gateway.ports import Clock

HELD_S: Final = 60.0
"""So long a claim is nobody else's: by then the others' memories show what was done."""

Elsewhere = Callable[[str, float, float], Awaitable[bool]]
"""Says at a time, the second, whether nobody has claimed a thing, which is this process's until the third."""


class ProcessClaims:
    """A `Claims`. By itself it is of one process, in which two things may come to the same as well."""

    def __init__(self, *, clock: Clock, elsewhere: Elsewhere | None = None) -> None:
        """`elsewhere` is asked last, where other processes claim things as well."""
        self._clock = clock
        self._elsewhere = elsewhere
        self._under_way: set[str] = set()
        self._ours: dict[str, float] = {}
        """What was claimed elsewhere for this process, and until when."""

    @asynccontextmanager
    async def taken(self, what: str) -> AsyncIterator[bool]:
        """Say whether it is to be done here; see `Claims`."""
        if what in self._under_way:
            yield False
            return
        self._under_way.add(what)
        try:
            yield await self._is_ours(what)
        finally:
            self._under_way.discard(what)

    async def _is_ours(self, what: str) -> bool:
        if self._elsewhere is None:
            return True
        now = self._clock()
        self._ours = {one: until for one, until in self._ours.items() if until > now}
        if what not in self._ours:
            if not await self._elsewhere(what, now, now + HELD_S):
                return False
            self._ours[what] = now + HELD_S
        return True

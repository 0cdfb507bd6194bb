"""How many browsers listen at the desk, and how they are told to end."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_MOST, _MOST_OF_ONE = 40, 4


class Streams:
    """The streams that are open, of everybody and of each."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()
        self._over = asyncio.Event()

    @contextmanager
    def one(self, person: str) -> Iterator[bool]:
        """Yield whether there is room for one more of `person`'s; it is theirs while the context is open."""
        fits = self._of.total() < _MOST and self._of[person] < _MOST_OF_ONE
        self._of[person] += fits
        try:
            yield fits
        finally:
            self._of[person] -= fits

    async def over(self, seconds: float) -> bool:
        """Wait so long; return whether every stream is to end."""
        try:
            await asyncio.wait_for(self._over.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def end(self) -> None:
        """Have every stream end; browsers come back by themselves."""
        self._over.set()

"""How many programs of one person run at once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.errors import RateLimited


class Turns:
    """Programs that run, counted for each person. Of one event loop.

    One that waits for a person does not run.
    """

    def __init__(self, most: int) -> None:
        """Allow `most` at once to each."""
        self._most = most
        self._running: Counter[str] = Counter()

    @contextmanager
    def of(self, person: str) -> Iterator[None]:
        """Count one program of this person's for as long as the context lasts.

        Raises:
            RateLimited: As many as are allowed run already.

        """
        if self._running[person] >= self._most:
            raise RateLimited(f"{self._most} programs of yours run already; let one end first")
        self._running[person] += 1
        try:
            yield
        finally:
            self._running[person] -= 1
            if not self._running[person]:
                del self._running[person]

    @property
    def running(self) -> int:
        """How many run, of everybody."""
        return self._running.total()

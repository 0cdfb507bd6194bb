"""How many programs of one principal run at once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.errors import RateLimited


class Turns:
    """Programs that run, counted for each principal. Of one event loop.

    One that waits for a person does not run.
    """

    def __init__(self, most: int) -> None:
        """Allow `most` at once to each."""
        self._most = most
        self._running: Counter[str] = Counter()

    @contextmanager
    def of(self, principal: str) -> Iterator[None]:
        """Count one program of this principal's for as long as the context lasts.

        Raises:
            RateLimited: As many as are allowed run already.

        """
        if self._running[principal] >= self._most:
            raise RateLimited(f"{self._most} programs of yours run already; let one end first")
        self._running[principal] += 1
        try:
            yield
        finally:
            self._running[principal] -= 1
            if not self._running[principal]:
                del self._running[principal]

    @property
    def running(self) -> int:
        """How many run, of everybody."""
        return self._running.total()

"""How many bytes of messages may be under way at once, over all requests and answers."""

from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

FREE: Final = 16 * 1024
"""Bytes of a message that are not counted: what everybody sends is held up by nobody's large bodies."""

UNDER_WAY: Final = 8 * 1024**2
"""Bytes of requests, and as many of answers. What a large message becomes while it is judged takes
several times its size."""


class Room:
    """So many bytes, handed out and given back. One event loop's."""

    def __init__(self, octets: int = UNDER_WAY) -> None:
        self._octets = octets
        self._taken = 0
        self._waiting: deque[tuple[int, Callable[[], object]]] = deque()

    @property
    def taken(self) -> int:
        """Bytes that are not given back."""
        return self._taken

    def take(self, octets: int) -> bool:
        """Take `octets` at once if they are there; one alone may be larger than all the room."""
        if self._waiting or not self._has(octets):
            return False
        self._taken += octets
        return True

    def wait(self, octets: int, taken: Callable[[], object]) -> Callable[[], None]:
        """Call `taken` once `octets` were taken, in order; what is returned ends the waiting."""
        entry = (octets, taken)
        self._waiting.append(entry)
        self._serve()

        def end() -> None:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self._serve()

        return end

    def give(self, octets: int) -> None:
        """Give bytes back; whoever waits is served."""
        self._taken -= octets
        self._serve()

    def _has(self, octets: int) -> bool:
        return not self._taken or self._taken + octets <= self._octets

    def _serve(self) -> None:
        while self._waiting and self._has(self._waiting[0][0]):
            octets, taken = self._waiting.popleft()
            self._taken += octets
            taken()


class Rooms:
    """Room for requests, and room for answers.

    They are apart, lest large requests keep each other's answers waiting: whoever waits for an answer
    holds no room for one.
    """

    def __init__(self, octets: int = UNDER_WAY) -> None:
        self.requests = Room(octets)
        self.answers = Room(octets)


class Share:
    """What one request has taken, with all that it led to; it gives everything back at its end."""

    def __init__(self, rooms: Rooms) -> None:
        self._requests = rooms.requests
        self.answers = rooms.answers
        self.over = False
        self._taken = 0
        self._held = 0

    def covers(self, octets: int) -> bool:
        """Whether there is room for a message of which `octets` are here; they are taken if so."""
        lacking = octets - self._taken
        if octets <= FREE or lacking <= 0:
            return True
        if not self._requests.take(lacking):
            return False
        self._taken += lacking
        return True

    def hold(self, octets: int) -> None:
        """Answer for `octets` of an answer, taken already; after the end they go back at once."""
        if self.over:
            self.answers.give(octets)
        else:
            self._held += octets

    def let_go(self) -> None:
        """Give back what earlier answers hold: the next one is about to be waited for."""
        self.answers.give(self._held)
        self._held = 0

    def end(self) -> None:
        """Give everything back."""
        self.over = True
        self.let_go()
        self._requests.give(self._taken)
        self._taken = 0


SHARE: ContextVar[Share | None] = ContextVar("share", default=None)
"""Of the request that is being answered; none where the gateway asks for itself."""

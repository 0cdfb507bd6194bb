"""What one question after the other looks for in a run's results: in each of them once.

What the user's words point at depends on the words and the results, and not on the call that is asked
about. So a call pays for what came since the one before, however long the run is.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from itertools import takewhile
from typing import Generic, Protocol, TypeVar, cast


class Numbered(Protocol):
    """A result, later ones with a greater number."""

    serial: int


Result = TypeVar("Result", bound=Numbered)
Found = TypeVar("Found")
Made = TypeVar("Made")


class Noted(Generic[Result, Found]):
    """What was found in which result, for the latest words."""

    def __init__(self, look: Callable[[Result, str], Found | None]) -> None:
        """`look` returns what is found in a result for some words; `None` for nothing."""
        self._look = look
        self._words: str | None = None
        self._last = 0
        self._found: dict[int, Found] = {}
        self._made: dict[Hashable, object] = {}
        """What was made of all that was found; as long as that is the same."""

    def hear(self, words: str, newest_first: Iterable[Result]) -> None:
        """Look for `words` in the results that came since; other words than before begin anew."""
        if words != self._words:
            self._words, self._last, self._found = words, 0, {}
            self._made.clear()
        fresh = list(takewhile(lambda result: result.serial > self._last, newest_first))
        for result in reversed(fresh):
            self._last = result.serial
            found = self._look(result, words)
            if found is not None:
                self._found[result.serial] = found
                self._made.clear()

    def once(self, name: Hashable, make: Callable[[Collection[Found]], Made]) -> Made:
        """Return what `make` makes of all that was found, oldest first; `name` stands for one `make`."""
        if name not in self._made:
            self._made[name] = make(self._found.values())
        return cast("Made", self._made[name])

    def drop(self, serial: int) -> None:
        """Forget the result `serial`."""
        if self._found.pop(serial, None) is not None:
            self._made.clear()

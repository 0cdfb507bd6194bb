"""When a decision point that does not answer is left alone, and when it is tried again.

Where nobody can connect, nobody is let wait for it. What else goes wrong may be of a question's making: it
keeps off whoever asked it, and nobody else. Whoever is kept off is refused, as without an answer.
"""

import math
from collections.abc import Callable
from typing import Final

from gateway.domain.bounded import Bounded
from gateway.errors import PolicyUnavailable

_FAILURES: Final = 5
"""In a row; after so many it is left alone."""
_REST_S: Final = 1.0
"""For so long at first; twice as long after each trial in vain."""
_LONGEST_S: Final = 30.0
_EVERYBODY: Final = ""
_MOST: Final = 10_000
_OCTETS: Final = 4 * 1024**2
_STATE: Final = 200
"""Bytes, about."""


class _Failing:
    """How it has failed one who asks, or everybody."""

    def __init__(self) -> None:
        self.failures = 0
        self.in_vain = 0
        self.until = -math.inf
        self.under_way = False
        """Whether one question is finding out if it answers again."""


class Attempt:
    """One question that is let through. Whoever asks it says what became of it, once."""

    def __init__(self, circuit: "Circuit", who: str, trials: list[_Failing]) -> None:
        self._circuit = circuit
        self._who = who
        self._trials = trials

    def succeeded(self) -> None:
        """Take note that it answered: that it is there is known of everybody, the rest of who asked."""
        self.left()
        self._circuit.answered(self._who)

    def failed(self, why: str, *, everybody: bool) -> None:
        """Take note that it did not; whether `everybody` would have fared as this one did."""
        self.left()
        self._circuit.failed(_EVERYBODY if everybody else self._who, why)

    def left(self) -> None:
        """Take note that nobody will know."""
        for one in self._trials:
            one.under_way = False


class Circuit:
    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` counts seconds and never goes back."""
        self._clock = clock
        self._last = ""
        self._failing: Bounded[str, _Failing] = Bounded(most=_MOST, octets=_OCTETS)

    def admit(self, who: str) -> Attempt:
        """Let a question of `who` through.

        Raises:
            PolicyUnavailable: It has failed too often, and it is not time yet, or another question is
                finding out.

        """
        trials = []
        for name in (_EVERYBODY, who):
            known = self._failing.get(name)
            if known is None or known.failures < _FAILURES:
                continue
            if known.under_way or self._clock() < known.until:
                raise PolicyUnavailable(
                    "the decision point is left alone for a moment: it did not answer",
                    detail=f"{known.failures} times in a row, the last time: {self._last}",
                )
            trials.append(known)
        for one in trials:
            one.under_way = True
        return Attempt(self, who, trials)

    def failed(self, name: str, why: str) -> None:
        """Count a failure that kept `name` from an answer."""
        self._last = why
        known = self._failing.get(name) or _Failing()
        known.failures += 1
        now = self._clock()
        # Many that were under way when it broke count once.
        if known.failures >= _FAILURES and now >= known.until:
            known.until = now + min(_LONGEST_S, _REST_S * 2.0 ** min(known.in_vain, 32))
            known.in_vain += 1
        self._failing.put(name, known, _STATE + len(name))

    def answered(self, who: str) -> None:
        """Let `who` through, and everybody whose own questions have not failed.

        What one makes it fail with is no better for another's answer: between good ones of others it
        would never be kept off.
        """
        for name in (_EVERYBODY, who):
            self._failing.pop(name)

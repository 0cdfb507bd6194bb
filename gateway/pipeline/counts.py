"""What is used of one quota, and what a call was charged of it until it has ended."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.quotas import Count, Quota
from gateway.ports.allowance import Use

_MOST_COUNTS: Final = 100_000
"""Of one quota in one span: beyond that nobody new is counted, and so nobody new is let through."""
_SOON_S: Final = 1
"""When to come back where nobody knows when a call ends."""


class Counts:
    """What is used of one quota in the span that it is in."""

    __slots__ = ("begin", "quota", "used")

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.begin = 0
        self.used: dict[tuple[str, ...], int] = {}

    def turn(self, now: float) -> None:
        """Begin the span of `now`, if it is a later one.

        A clock that jumps back leaves the span as it is: nothing may be used twice.
        """
        per = self.quota.per
        if per is not None and (begin := per.begins(now)) > self.begin:
            self.begin = begin
            self.used.clear()

    def left(self, under: tuple[str, ...]) -> int:
        if under not in self.used and len(self.used) >= _MOST_COUNTS:
            return 0
        return max(0, self.quota.most - self.used.get(under, 0))

    def add(self, under: tuple[str, ...], begin: int, amount: int) -> None:
        """Add to what is used of the span that began at `begin`, if that is not over."""
        if begin != self.begin:
            return
        used = self.used.get(under, 0) + amount
        if used > 0:
            self.used[under] = used
        else:
            self.used.pop(under, None)

    def learn(self, under: tuple[str, ...], begin: int, used: int) -> None:
        """Take what all gateways have used of the span that began at `begin`, if that is not over."""
        if begin == self.begin:
            self.used[under] = used

    def wait_s(self, now: float) -> int:
        """Return in how many seconds the next span begins."""
        per = self.quota.per
        if per is None:
            return _SOON_S
        return max(_SOON_S, math.ceil(self.begin + per.seconds(self.begin) - now))


@value
class Due:
    """What one call would use of one count."""

    counts: Counts
    under: tuple[str, ...]
    amount: int

    @property
    def fits(self) -> bool:
        return self.amount <= self.counts.left(self.under)

    def use(self, begin: int, amount: int, *, most: int | None = None) -> Use:
        """Return so much of the same count, of the span that began then, for all gateways' count."""
        return Use(
            quota=self.counts.quota.key, under=self.under, begin=begin, amount=amount, most=most
        )


class Taken:
    """What a call was charged, until it has ended."""

    __slots__ = ("_elsewhere", "_is_answered", "_is_open", "_of")

    def __init__(
        self, of: Sequence[tuple[Due, int]], elsewhere: Callable[[Sequence[Use]], None]
    ) -> None:
        """Take what was charged, each with the beginning of its span; `elsewhere` is told of changes."""
        self._of = of
        self._elsewhere = elsewhere
        self._is_open = True
        self._is_answered = False

    @property
    def charged(self) -> list[dict[str, Any]]:
        """What the call's intent says of it."""
        return [_told(due, begin, due.amount) for due, begin in self._of if due.counts.quota.per]

    def give_back(self) -> None:
        """Take all of it back: the call does not go out."""
        if self._is_open:
            self.forget()
            self._elsewhere([due.use(begin, -due.amount) for due, begin in self._of])

    def forget(self) -> None:
        """Take all of it back here: it was added nowhere else."""
        self._is_open = False
        for due, begin in self._of:
            due.counts.add(due.under, begin, -due.amount)

    def ended(self, *, answered: int) -> list[dict[str, Any]]:
        """Count the bytes of the answer, once, and return what the call's outcome says of it.

        A call whose stream was cut has ended, and may get its answer on another one.
        """
        ends, self._is_open = self._is_open, False
        counts = bool(answered) and not self._is_answered
        self._is_answered = self._is_answered or counts
        found, changed = [], []
        for due, begin in self._of:
            count = due.counts.quota.count
            if count is Count.UNDER_WAY and ends:
                due.counts.add(due.under, begin, -due.amount)
                changed.append(due.use(begin, -due.amount))
            elif count is Count.BYTES and counts:
                due.counts.add(due.under, begin, answered)
                changed.append(due.use(begin, answered))
                found.append(_told(due, begin, answered))
        self._elsewhere(changed)
        return found

    def unsent(self) -> list[dict[str, Any]]:
        """Take all of it back, and return what the outcome says of it, whose intent is durable."""
        if not self._is_open:
            return []
        self.give_back()
        self._is_answered = True
        return [{**one, "amount": -one["amount"]} for one in self.charged]


def _told(due: Due, begin: int, amount: int) -> dict[str, Any]:
    return {
        "quota": due.counts.quota.key,
        "under": list(due.under),
        "begin": begin,
        "amount": amount,
    }

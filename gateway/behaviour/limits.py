"""Where the ordinary ends: bounds from the days on which somebody was active."""

from collections.abc import Sequence
from math import ceil

WINDOW = 28
"""Days with calls that are remembered of everybody."""

HOURS = 24
_WEEK = 7
_ALL_HOURS = (1 << HOURS) - 1

FLOORS = {"rate": 120, "tool": 6, "destination": 6, "refusals": 20}
"""What is never out of the ordinary: calls in an hour, and new tools, new destinations and refusals
in a day."""

_TIMES_MEDIAN = 3.0
_TIMES_SPREAD = 8.0
_TIMES_MOST = {"rate": 3.5}
_TIMES_MOST_OTHERWISE = 1.5
_TO_SIGMA = 1.4826
"""Makes the median of absolute deviations an estimate of the standard deviation."""

_NEAR_HOURS = 3
_OFTEN = 5
"""One day in five."""

SETTLED_SENDS = 500


def bound(past: Sequence[int], what: str) -> int:
    """Return the most of `what` (see `FLOORS`) that is still ordinary after the days of `past`.

    By their median and spread, and well above the highest of them but one: a single odd day does
    not move it.
    """
    floor = FLOORS[what]
    if not past:
        return floor
    middle = _median(past)
    spread = _median([abs(count - middle) for count in past]) * _TO_SIGMA
    return max(
        floor,
        ceil(_TIMES_MEDIAN * middle),
        ceil(middle + _TIMES_SPREAD * spread),
        ceil(_TIMES_MOST.get(what, _TIMES_MOST_OTHERWISE) * (sorted(past)[-2:][0])),
    )


def usual_hours(days: Sequence[tuple[int, int]], today: int) -> int:
    """Return the hours of day number `today` that are ordinary, as a mask of 24 bits.

    `days` are pairs of a day's number and the hours of it that had calls. Ordinary is an hour close
    to one that had calls on the same day of the week, or on one day in five of all.
    """
    near = [_near(mask) for _, mask in days]
    same = 0
    for (day, _), mask in zip(days, near, strict=True):
        if day % _WEEK == today % _WEEK:
            same |= mask
    often = 0
    for hour in range(HOURS):
        active = sum(mask >> hour & 1 for mask in near)
        if active and active * _OFTEN >= len(near):
            often |= 1 << hour
    return same | often


def _median(counts: Sequence[float]) -> float:
    ordered, half = sorted(counts), len(counts) // 2
    return ordered[half] if len(counts) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _near(mask: int) -> int:
    """Return `mask` with the hours around each of its hours, across midnight as well."""
    wide = mask
    for step in range(1, _NEAR_HOURS + 1):
        wide |= mask << step | mask >> (HOURS - step)
        wide |= mask >> step | mask << (HOURS - step)
    return wide & _ALL_HOURS

"""How many calls a principal may make: token buckets, in this process's memory."""

import math
from typing import Final

from gateway.domain.bounded import Bounded, digest_of
from gateway.errors import Limit, RateLimited
from gateway.ports import Clock

_MOST_BUCKETS: Final = 50_000
_OCTETS: Final = 16 * 1024**2
_NAME: Final = "calls-per-minute"


class CallLimits:
    """One bucket for each key and rate; a bucket holds a minute's calls and fills evenly.

    Forgetting the least recently used bucket beyond 50,000 keys is the price of a bound; whoever
    can make that many principals was given them by an administrator.
    """

    def __init__(self, *, calls_per_minute: int, clock: Clock) -> None:
        self._calls_per_minute = calls_per_minute
        self._clock = clock
        self._buckets: Bounded[bytes, list[float]] = Bounded(most=_MOST_BUCKETS, octets=_OCTETS)
        """The level of each, and when it was that."""

    async def take(self, key: str, calls_per_minute: int | None = None) -> None:
        """Take one call from the bucket of `key`, with nothing awaited; see `Allowance`."""
        size = calls_per_minute or self._calls_per_minute
        now = self._clock()
        name = bucket_of(key, size)
        bucket = self._buckets.get(name)
        if bucket is None:
            self._buckets.put(name, bucket := [float(size), now])
        level, then = bucket
        # A clock that jumps back fills nothing.
        level = min(float(size), level + max(0.0, now - then) * size / 60)
        bucket[:] = level, now
        if level < 1:
            raise too_many(size, left=level)
        bucket[0] -= 1


def bucket_of(key: str, size: int) -> bytes:
    """Return the bucket of `key` at this rate.

    One rate's has nothing of another's: filled by the larger of two rates, it would give more than the
    smaller one allows.
    """
    return digest_of(f"{size}|{key}")


def too_many(size: int, *, left: float) -> RateLimited:
    """Return what is said where of `size` calls a minute less than one is `left`."""
    wait_s = math.ceil((1 - left) * 60 / size)
    return RateLimited(
        f"more than {size} calls a minute; wait {wait_s} seconds and try again",
        wait_s=wait_s,
        limits=[Limit(name=_NAME, most=size, unit="requests", span_s=60, left=0, wait_s=wait_s)],
    )

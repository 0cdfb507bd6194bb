"""How many calls a principal may make at all gateways together: each takes a portion at a time.

A bucket is one row of a database, and a call that changed it each time would wait for all others. So
a gateway takes a part of it, serves calls from that for a second, and puts back what is left over when
it asks again. All that is given out together is never more than what the bucket had.
"""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Final

from gateway.domain.bounded import Bounded
from gateway.errors import RateLimited
from gateway.pipeline.limits import bucket_of, too_many
from gateway.ports.buckets import Portions

_MOST_BUCKETS: Final = 50_000
_OCTETS: Final = 16 * 1024**2
_PART: Final = 20
"""A portion is this part of a bucket, and one call at least."""
_KEPT_S: Final = 1.0
"""What is left of a portion after this time is put back."""
_EMPTY_S: Final = 0.1
"""Whoever was told that there is nothing is not asked again so soon."""
_MINUTE_S: Final = 60.0


class _Lease:
    __slots__ = ("empty_until", "have", "level", "line", "since")

    def __init__(self) -> None:
        self.have = 0.0
        self.since = 0.0
        self.level = 0.0
        self.empty_until = -math.inf
        self.line = asyncio.Lock()


class LeasedLimits:
    """An `Allowance` of many gateways."""

    def __init__(
        self,
        portions: Portions,
        *,
        calls_per_minute: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Count seconds by `clock`, which never goes back."""
        self._portions = portions
        self._calls_per_minute = calls_per_minute
        self._clock = clock
        self._leases: Bounded[bytes, _Lease] = Bounded(most=_MOST_BUCKETS, octets=_OCTETS)

    async def take(self, key: str, calls_per_minute: int | None = None) -> None:
        """Take one call from the bucket of `key`; see `Allowance`."""
        size = calls_per_minute or self._calls_per_minute
        name = bucket_of(key, size)
        lease = self._leases.get(name)
        if lease is None:
            lease = _Lease()
            self._leases.put(name, lease)
        if self._served(lease):
            return
        async with lease.line:
            # Whoever was first has asked for all that wait, as far as it goes.
            if not self._served(lease):
                await self._lease(name, lease, size)
                lease.have -= 1

    def _served(self, lease: _Lease) -> bool:
        if lease.have < 1 or self._clock() - lease.since >= _KEPT_S:
            return False
        lease.have -= 1
        return True

    async def _lease(self, name: bytes, lease: _Lease, size: int) -> None:
        """Have a call in `lease`.

        Raises:
            RateLimited: There is none.

        """
        now = self._clock()
        if now < lease.empty_until:
            raise _refused(lease, size)
        portion = max(1.0, size // _PART)
        unused, lease.have = lease.have, 0.0
        found = await self._portions.take(
            name, size=size, in_s=_MINUTE_S, wanted=portion, unused=unused
        )
        lease.have, lease.level, lease.since = found.taken, found.level, self._clock()
        if lease.have < 1:
            lease.empty_until = now + _EMPTY_S
            raise _refused(lease, size)


def _refused(lease: _Lease, size: int) -> RateLimited:
    return too_many(size, left=min(0.99, lease.level))

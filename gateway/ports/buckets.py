"""Calls and attempts of which many gateways take and count each their part: seams of what they share."""

from collections.abc import Sequence
from typing import Protocol

from gateway.domain._value import value


@value
class Portion:
    """What was taken out of a bucket."""

    taken: float
    """How many calls; none, if less than one was left."""
    level: float
    """What is left in it."""


class Portions(Protocol):
    """Buckets that fill evenly, and that many gateways take from."""

    async def take(
        self, key: bytes, *, size: float, in_s: float, wanted: float, unused: float
    ) -> Portion:
        """Take up to so many calls out of a bucket, which holds `size` and is full again after `in_s`.

        What was taken before and is `unused` is put back first.

        Raises:
            AuditUnavailable: It cannot be reached, and nothing is known to be taken.

        """
        ...


class SharedThrottle(Protocol):
    """Attempts that many gateways count together; each raises `IdentityUnavailable` where it cannot."""

    async def note(self, of: Sequence[tuple[str, int]], *, window_s: float) -> int:
        """Count an attempt under each of these keys, of each as many as that in `window_s` seconds.

        Return 0; or else for how many seconds whoever tries must wait, and nothing was counted.
        """
        ...

    async def forgive(self, keys: Sequence[str]) -> None:
        """Take the latest attempt under each of these back: it was no guess."""
        ...

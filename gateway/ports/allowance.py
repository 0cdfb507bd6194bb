"""How many calls and attempts are left: seams of what many gateways count together."""

from collections.abc import Sequence
from typing import Protocol

from gateway.domain._value import value
from gateway.domain.identity import Proof


class Allowance(Protocol):
    """Calls by the minute."""

    async def take(self, key: str, calls_per_minute: int | None = None) -> None:
        """Take one call from the bucket of `key`, which holds so many or as many as all have.

        Raises:
            RateLimited: It is empty.
            AuditUnavailable: It cannot be told whether it is.

        """
        ...


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


class UsedProofs(Protocol):
    """Which DPoP proofs were used, at any gateway. Any thread may ask."""

    def use(self, proof: Proof, *, now: float) -> None:
        """Note the use of `proof`.

        Raises:
            ValueError: It was used before, or nobody can tell; the text says which.
            IdentityUnavailable: It cannot be noted.

        """
        ...

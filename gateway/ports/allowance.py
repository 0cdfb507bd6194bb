"""How many calls and attempts are left: seams of what many gateways count together."""

from collections.abc import Sequence
from typing import Protocol

from gateway.domain._value import value
from gateway.domain.identity import Proof


class Allowance(Protocol):
    """Calls by the minute."""

    async def take(self, key: str, calls_per_minute: int | None = None) -> None:
        """Take one call from the bucket of `key` at this rate, or at the one that all have.

        Two rates of one key have a bucket each.

        Raises:
            RateLimited: It is empty.
            AuditUnavailable: It cannot be told whether it is.

        """
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


@value
class Use:
    """What is to be added to a count that many gateways have together."""

    quota: str
    """Its key: of another quota nothing counts."""
    under: tuple[str, ...]
    begin: int
    """When the span began that it counts in; 0 for what counts until it has ended."""
    amount: int
    """Less than nothing, where something is given back."""
    most: int | None = None
    """How much there may be with it; `None` where it counts whatever there is."""


@value
class Used:
    """What came of that."""

    used: int
    """How much there is in all: with it, where all of them were added, else without."""
    fits: bool


class SharedCounts(Protocol):
    """What is used of quotas at all gateways together."""

    async def add(self, uses: Sequence[Use]) -> Sequence[Used]:
        """Add all of `uses`, or none of them if one does not fit.

        Raises:
            AuditUnavailable: They cannot be added, or it is not known whether they were.

        """
        ...

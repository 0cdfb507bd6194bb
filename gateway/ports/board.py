"""What gateways that share a database hold to alike: which policy is in force, and what is registered."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from gateway.domain._value import value
from gateway.domain.roster import Roster


@value
class Posted:
    """What stands on the board."""

    policy: str
    """Name of what is in force, as `roster.named` makes it of a policy and what is registered; empty where
    none is yet."""
    revision: int
    """How often another one came into force."""
    proposed: str = ""
    """Name of the one that comes into force once every gateway could decide by it; empty if none is to."""


class PolicyBoard(Protocol):
    """Which policy is in force: a change is so at every gateway that lives, or at none.

    So is which servers were registered at run time. Each of its methods raises `PolicyUnavailable` where
    nobody can say, and nothing is changed then.
    """

    @property
    def roster(self) -> Roster:
        """What is registered, as it was heard last: one for a process."""
        ...

    def seat(self) -> str:
        """Return a name of its own for whatever decides by a policy: there may be several in a process."""
        ...

    async def hear(self, seat: str, *, decides: str, prepared: str) -> Posted:
        """Say by which policy `seat` decides and could decide, and return what is in force then.

        With whoever is last to have what is proposed, that comes into force.
        """
        ...

    async def leave(self, seat: str) -> None:
        """Wait for `seat` no more."""
        ...

    async def propose(self, name: str, text: bytes, *, over: str, anew: bool) -> bool | None:
        """Have a policy be the next one, with what is registered, unless both are in force.

        False, and nothing was proposed, if the policy was in force before another one, and this is not
        said `anew` by somebody. `None` if what is registered is not called `over` any more.
        """
        ...

    async def refuse(self, name: str, because: str) -> None:
        """Have it come into force nowhere, if it is proposed."""
        ...

    async def problem(self, name: str) -> str:
        """Return why it was refused; empty if it was not."""
        ...

    async def refused(self) -> Sequence[str]:
        """Return by which names servers were to be registered that are in force nowhere, the newest of them first."""
        ...

    async def lacking(self, name: str) -> Sequence[str]:
        """Return who lives and could not decide by what is proposed by this name, by their names."""
        ...

    async def text(self, name: str) -> bytes:
        """Return the text that was proposed by this name."""
        ...

    async def seats(self) -> Mapping[str, str]:
        """Return by which policy each one decides that lives, by their names."""
        ...

    async def configured(self, told: str) -> Sequence[tuple[str, str]]:
        """Tell how this gateway is configured, and return what each that lives has told.

        Whoever is configured so for longest is first. Nothing is decided by it.
        """
        ...

    def follow(self, step: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        """Have `step` done whenever somebody finds that another policy is in force; return what ends that."""
        ...

"""By whose leave a policy comes into force: of one gateway at once; of many see `shared`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from gateway.domain._value import value
from gateway.policy.building import Built
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import Snapshot

CENTRAL: Final = "central"
"""What a policy is called on the board that a central server has: it names what it has itself."""

Origin = tuple[Snapshot | None, Mapping[str, Any]]
"""What a policy is built of: its files, if it is not a server's, and its data."""


class Agreement(Protocol):
    """What a holder asks before anything that it has built is in force."""

    async def settle(self, built: Built, origin: Origin, *, first: bool) -> Built:
        """Put what was built of `origin` in force, and return what is in force then.

        As the `first` of this process that is another one, if this one was replaced before.

        Raises:
            ConfigError: It did not come into force, anywhere.

        """
        ...

    async def register(self, before: str, servers: str) -> None:
        """Have `servers` be what is registered at every gateway, in the place of `before`; the policy stays.

        Raises:
            ConfigError: They came into force nowhere.

        """
        ...

    @property
    def problem(self) -> str:
        """Why this gateway is not ready; empty if it is."""
        ...

    @property
    def facts(self) -> Mapping[str, str]:
        """What there is to tell of it."""
        ...

    @property
    def revision(self) -> int:
        """How often another policy came into force everywhere; 0 where nobody counts."""
        ...

    async def close(self) -> None: ...


class Alone:
    """An `Agreement` where there is one gateway."""

    def __init__(self, put: Callable[[Built], None]) -> None:
        self._put = put

    async def settle(self, built: Built, origin: Origin, *, first: bool) -> Built:  # noqa: ARG002 - nobody is asked
        self._put(built)
        return built

    async def register(self, before: str, servers: str) -> None:
        """Ask nobody: where there is one gateway, a file says it."""

    @property
    def problem(self) -> str:
        return ""

    @property
    def facts(self) -> Mapping[str, str]:
        return {}

    @property
    def revision(self) -> int:
        return 0

    async def close(self) -> None:
        """Nothing is to be closed."""


@value
class Holder:
    """What a `Shared` agreement asks of whoever answers by the policy in force."""

    settings: PolicySettings
    decides: Callable[[], str]
    """Returns the digest of that policy; empty before there is one."""
    put: Callable[[Built], None]
    """Puts what was built here in force."""
    adopt: Callable[[Built], None]
    """Puts in force what somebody else has proposed, whatever lies here."""
    build: Callable[[Snapshot, Mapping[str, Any]], Awaitable[Built]]
    """Builds a policy of its files and its data."""


Agree = Callable[[Holder], Agreement]
"""Gives a holder those whose leave it asks."""

"""What clients were told of tools: where it is kept, and what holds calls back until they were."""

from collections.abc import Collection
from typing import Protocol

from gateway.domain.calls import Call
from gateway.domain.descriptions import Reader
from gateway.domain.identity import Principal
from gateway.domain.tools import Pinned


class DisclosureStore(Protocol):
    """Descriptions that were told, each by its `description_id`; no name of anything is kept.

    It says what somebody has been shown, and nothing of what they may do.
    """

    async def disclose(self, reader: Reader, described: Collection[str], *, now: float) -> None:
        """Keep that `reader` was told these descriptions; durable on return.

        Of one person so many are kept, with whatever clients, and of all so many: those go that were used
        longest ago, of that person or of whoever has most.
        """
        ...

    async def use(self, reader: Reader, described: str, *, now: float, idle_s: float) -> bool:
        """Return whether `reader` was told this description, and has used it within `idle_s`.

        If so, it counts as used `now`. After a restart that may be up to a tenth of `idle_s` ago.
        """
        ...

    async def forget(self, *, before: float) -> int:
        """Forget what was last used before then, and return how many that were."""
        ...


class DescriptionGate(Protocol):
    """It says what was read, and never what is allowed: policy is asked afterwards all the same."""

    async def require_read(self, call: Call, principal: Principal, pinned: Pinned) -> None:
        """Return if nothing has to be read before `call`, which is of a tool, or if it was.

        Raises:
            DescriptionRequired: Its description has to be read first.
            PolicyUnavailable: Nobody knows what its caller is shown.
            AuditUnavailable: It cannot be kept that the description is in use.

        """
        ...

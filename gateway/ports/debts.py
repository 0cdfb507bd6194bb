"""Where it is kept which calls of planes have no result yet."""

from collections.abc import Sequence
from typing import Protocol

from gateway.domain.planes import Debt


class DebtStore(Protocol):
    """Debts, durable with their records: what a restart finds here is never reported any more.

    An intent that says what it `owes` is one, until an outcome is on record of its decision.
    """

    def left(self) -> Sequence[Debt]:
        """Return what was kept when the store was opened, oldest first; from memory."""
        ...

    async def settle(self, decision: str) -> None:
        """Forget one that was `left`: whatever it stood for is in its run's label by now.

        Raises:
            AuditUnavailable: It is kept still, or not known not to be.

        """
        ...

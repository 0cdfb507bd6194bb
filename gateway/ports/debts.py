"""Where it is kept which calls of planes have no result yet."""

from collections.abc import Sequence
from typing import Protocol

from gateway.domain.planes import Debt


class DebtStore(Protocol):
    """Debts, durable: what a restart finds here is never reported any more."""

    def left(self) -> Sequence[Debt]:
        """Return what was kept when the store was opened, oldest first; from memory."""
        ...

    async def owe(self, debt: Debt) -> None:
        """Keep `debt`; durable on return.

        Raises:
            AuditUnavailable: It is not kept, or not known to be.

        """
        ...

    async def settle(self, decision: str) -> None:
        """Forget the debt of `decision`: whatever it stood for is in its run's label by now.

        Raises:
            AuditUnavailable: It is kept still, or not known not to be.

        """
        ...

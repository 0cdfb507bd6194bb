"""Questions to people that are asked, and answered, at whichever replica."""

from collections.abc import Callable

from gateway.domain.approvals import Approval, ApprovalRequest, ApprovalRules, ApprovalState
from gateway.errors import Changed
from gateway.ports.secrets import Sealer
from gateway.storage.approvals import DurableApprovalStore
from gateway.storage.postgres.state import SharedState
from gateway.storage.state import Tables


class SharedApprovalStore(DurableApprovalStore):
    """An `ApprovalStore` whose memory may be behind: it looks before anybody is asked anything."""

    def __init__(
        self,
        state: SharedState,
        tables: Tables,
        sealer: Sealer,
        rules: Callable[[], ApprovalRules],
    ) -> None:
        """Load every question through `tables`; see `DurableApprovalStore`."""
        super().__init__(state, tables, sealer, rules)
        self._state = state

    async def file(self, request: ApprovalRequest) -> Approval:
        """File a question, or count it; see `ApprovalStore`.

        Raises:
            Changed: It was answered elsewhere, and memory has the answer by now.

        """
        before = self._answer_to(request)
        await self._state.caught_up()
        after = self._answer_to(request)
        if after is not None and after != before:
            raise Changed(())
        return await super().file(request)

    def _answer_to(self, request: ApprovalRequest) -> Approval | None:
        found = self.find(request.fingerprint, request.scope, now=request.asked_at)
        return None if found is None or found.state is ApprovalState.WAITING else found

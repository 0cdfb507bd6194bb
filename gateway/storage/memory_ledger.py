"""Calls on record in memory, with what they use up."""

from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.premises import Premise, Premises, Uses
from gateway.errors import Changed
from gateway.ports import ApprovalStore, AuditLog
from gateway.ports.scripts import ScriptStore
from gateway.storage.ledger import Memory


class MemoryLedger:
    """A `Ledger` over stores that forget at the end. What it uses up stays so if the log refuses."""

    def __init__(
        self, log: AuditLog, memory: Memory, *, approvals: ApprovalStore, scripts: ScriptStore
    ) -> None:
        self._log = log
        self._memory = memory
        self._approvals = approvals
        self._scripts = scripts

    async def put(self, record: AuditRecord, premises: Premises, uses: Uses) -> LogEntry:
        """Keep `record` if `premises` hold; see `Ledger`."""
        self._memory.require(premises)
        if uses.script is not None and not await self._taken(uses):
            raise Changed([Premise.BUDGET])
        if not await self._used(uses):
            raise Changed([Premise.APPROVAL])
        return await self._log.append(record)

    async def caught_up(self) -> bool:
        """Say that memory is all there is."""
        return False

    async def _used(self, uses: Uses) -> bool:
        return uses.yes is None or await self._approvals.use(uses.yes, now=self._memory.now())

    async def _taken(self, uses: Uses) -> bool:
        if uses.script is None:
            return True
        now = self._memory.now()
        for grant in uses.grants:
            if await self._scripts.take(uses.script, grant, now=now):
                return True
        return False

"""A ledger whose calls rest on the policy that is in force at every gateway, and on what is registered there."""

from dataclasses import replace

from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.premises import Premise, Premises, Uses
from gateway.errors import Changed
from gateway.ports import Ledger
from gateway.storage.ledger import KnownPolicy
from gateway.storage.unsealed import Named


class PolicedLedger:
    """A `Ledger`: what is a no here is none elsewhere, and what is a yes here is compared."""

    def __init__(self, ledger: Ledger, policy: KnownPolicy, *, named: Named) -> None:
        """`named` says what a policy is called on the board, for a call of a server."""
        self._ledger = ledger
        self._policy = policy
        self._named = named

    async def put(self, record: AuditRecord, premises: Premises, uses: Uses) -> LogEntry:
        """Write `record` down if `premises` hold; see `Ledger`."""
        if not self._policy.holds(premises.policy):
            raise Changed([Premise.POLICY])
        name = self._named(premises.policy, str(record.fields.get("server") or ""))
        if not name:
            raise Changed([Premise.POLICY])
        # What is registered is named at the moment when it was looked at: the record is kept if that is so still.
        return await self._ledger.put(record, replace(premises, policy=name), uses)

    async def caught_up(self) -> bool:
        """Have memory show what other gateways have changed; see `Ledger`."""
        return await self._ledger.caught_up()

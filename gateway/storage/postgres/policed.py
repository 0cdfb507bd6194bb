"""A ledger whose calls rest on the policy that is in force at every gateway."""

from collections.abc import Callable
from dataclasses import replace

from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.premises import Premise, Premises, Uses
from gateway.errors import Changed
from gateway.ports import Ledger
from gateway.storage.ledger import KnownPolicy


class PolicedLedger:
    """A `Ledger`: what is a no here is none elsewhere, and what is a yes here is compared."""

    def __init__(self, ledger: Ledger, policy: KnownPolicy, *, named: Callable[[str], str]) -> None:
        """`named` says what a policy is called on the board."""
        self._ledger = ledger
        self._policy = policy
        self._named = named

    async def put(self, record: AuditRecord, premises: Premises, uses: Uses) -> LogEntry:
        """Write `record` down if `premises` hold; see `Ledger`."""
        if not self._policy.holds(premises.policy):
            raise Changed([Premise.POLICY])
        known = replace(premises, policy=self._named(premises.policy))
        return await self._ledger.put(record, known, uses)

    async def caught_up(self) -> bool:
        """Have memory show what other gateways have changed; see `Ledger`."""
        return await self._ledger.caught_up()

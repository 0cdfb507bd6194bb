"""Calls on record: written only while what they were decided on holds, with what they use up."""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from gateway.domain._value import value
from gateway.domain.approvals import Approval, ApprovalId, ApprovalState
from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.flow import RunId, RunState
from gateway.domain.premises import Premise, Premises, Uses
from gateway.domain.scripts import ScriptId
from gateway.domain.standing import StandingAnswer, is_as_approved
from gateway.domain.tools import Pin, Pinned, PinStatus, Profile, Target
from gateway.errors import Changed
from gateway.ports import Clock
from gateway.storage.approvals import DurableApprovalStore, Used
from gateway.storage.audit_log import Terms
from gateway.storage.pin_table import identity_of
from gateway.storage.scripts import taken
from gateway.storage.state import Tables

_RUN = "SELECT 1 FROM runs WHERE id = ? AND version = ? AND NOT ended"
_PIN = (
    "SELECT 1 FROM pins WHERE server = ? AND kind = ? AND name = ? AND profile = ?"
    " AND status = 'approved' AND approved = ? AND approved_identity = ?"
    " AND (expires_at IS NULL OR expires_at > ?)"
)
_YES = "SELECT 1 FROM approvals WHERE id = ? AND state = 'allowed' AND expires_at > ?"


class KnownRuns(Protocol):
    def find(self, run: RunId) -> RunState | None: ...


class KnownPins(Protocol):
    def find(self, target: Target, profile: Profile) -> Pin | None: ...


class KnownAnswers(Protocol):
    def get(self, id_: ApprovalId, *, now: float) -> Approval | None: ...


class KnownStanding(Protocol):
    def get(self, id_: ApprovalId) -> StandingAnswer | None: ...


class KnownPolicy(Protocol):
    def holds(self, digest: str) -> bool: ...


class Log(Protocol):
    async def put(self, record: AuditRecord, terms: Terms) -> LogEntry: ...


class Memory:
    """What the stores of this process show: all that anybody was told, and nothing else."""

    def __init__(
        self,
        *,
        runs: KnownRuns,
        pins: KnownPins,
        answers: KnownAnswers,
        standing: KnownStanding,
        policy: KnownPolicy,
        people: Callable[[], int],
        clock: Clock,
    ) -> None:
        """`people` says how often rights of anybody have ended."""
        self._runs = runs
        self._pins = pins
        self._answers = answers
        self._standing = standing
        self._policy = policy
        self._people = people
        self.now = clock

    def require(self, premises: Premises) -> None:
        """Return if `premises` hold.

        Raises:
            Changed: They do not.

        """
        if changed := frozenset(self._changed(premises)):
            raise Changed(changed)

    def require_elsewhere(self, premises: Premises) -> None:
        """Return if that holds which is in no table of the log's database: policy, people, what stands.

        Raises:
            Changed: It does not.

        """
        if changed := frozenset(self._changed_elsewhere(premises)):
            raise Changed(changed)

    def _changed_elsewhere(self, premises: Premises) -> Iterator[Premise]:
        if not self._policy.holds(premises.policy):
            yield Premise.POLICY
        if premises.people is not None and premises.people != self._people():
            yield Premise.PEOPLE
        for id_ in premises.standing:
            if not self._stands(id_, premises):
                yield Premise.STANDING

    def _changed(self, premises: Premises) -> Iterator[Premise]:
        run = self._runs.find(premises.run)
        if run is None or not run.live or run.run.version != premises.version:
            yield Premise.RUN
        yield from self._changed_elsewhere(premises)
        if premises.pinned is not None and not self._is_pinned(premises.pinned, premises.profile):
            yield Premise.PIN
        if premises.yes is not None:
            answer = self._answers.get(premises.yes, now=self.now())
            if answer is None or answer.state is not ApprovalState.ALLOWED:
                yield Premise.APPROVAL

    def _stands(self, id_: ApprovalId, premises: Premises) -> bool:
        answer, pin = self._standing.get(id_), self._pin(premises.pinned, premises.profile)
        if answer is None or pin is None or not is_as_approved(pin, answer):
            return False
        return answer.expires_at > self.now()

    def _pin(self, pinned: Pinned | None, profile: Profile | None) -> Pin | None:
        if pinned is None or profile is None:
            return None
        return self._pins.find(pinned.pin.target, profile)

    def _is_pinned(self, pinned: Pinned, profile: Profile | None) -> bool:
        pin = self._pin(pinned, profile)
        if pin is None or pin.status is not PinStatus.APPROVED:
            return False
        return pin.approved == pinned.manifest


class SqliteLedger:
    """A `Ledger`: comparison, use and record are one transaction, or one turn of the event loop.

    Where the journal takes a record before the database does, memory is compared: one process has
    the database, so memory has all that was acknowledged. What uses something up is never journaled.
    """

    def __init__(self, log: Log, memory: Memory, approvals: DurableApprovalStore) -> None:
        self._log = log
        self._memory = memory
        self._approvals = approvals

    async def put(self, record: AuditRecord, premises: Premises, uses: Uses) -> LogEntry:
        """Write `record` down if `premises` hold, with what it `uses`; see `Ledger`."""
        terms = _Terms(memory=self._memory, approvals=self._approvals, premises=premises, uses=uses)
        return await self._log.put(record, terms)

    async def caught_up(self) -> bool:
        """Say that memory has all there is: one process has the database."""
        return False


@value
class _Terms:
    memory: Memory
    approvals: DurableApprovalStore
    premises: Premises
    uses: Uses

    @property
    def uses_up(self) -> bool:
        return self.uses.yes is not None or self.uses.script is not None

    def require_in_memory(self) -> None:
        self.memory.require(self.premises)

    def meet(self, connection: sqlite3.Connection) -> Used | None:
        """Compare with the tables, and use up what is used; see `Terms`."""
        now = self.memory.now()
        self.memory.require_elsewhere(self.premises)
        if changed := frozenset(_changed(connection, self.premises, now)):
            raise Changed(changed)
        uses = self.uses
        if uses.script is not None and not _taken(connection, uses.script, uses.grants, now):
            raise Changed([Premise.BUDGET])
        if uses.yes is None:
            return None
        used = self.approvals.use_in(connection, uses.yes, now=now)
        if not used[0]:
            raise Changed([Premise.APPROVAL])
        return used

    def remember(self, met: Any) -> None:
        if met is not None:
            self.approvals.remember(met)


def _changed(connection: Tables, premises: Premises, now: float) -> Iterator[Premise]:
    if not _has(connection, _RUN, premises.run, premises.version):
        yield Premise.RUN
    pinned, profile = premises.pinned, premises.profile
    if pinned is not None:
        name = ("",) * 4 if profile is None else identity_of((pinned.pin.target, profile))
        manifest = pinned.manifest
        if not _has(connection, _PIN, *name, manifest.definition.text, manifest.identity, now):
            yield Premise.PIN
    if premises.yes is not None and not _has(connection, _YES, premises.yes, now):
        yield Premise.APPROVAL


def _has(connection: Tables, sql: str, *values: object) -> bool:
    return connection.execute(sql, values).fetchone() is not None


def _taken(
    connection: Tables, script: ScriptId, grants: tuple[int | None, ...], now: float
) -> bool:
    return any(taken(connection, script, grant, now=now) for grant in grants)

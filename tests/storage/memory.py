"""What a gateway keeps, forgotten at the end: the record, pins, runs and what stands in a ledger."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from gateway.audit.record import Entry, RecordEncoder, Terms
from gateway.audit.redaction import Level, Levels, Redaction
from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.epoch import Epoch
from gateway.domain.flow import RunId
from gateway.domain.labels import Label
from gateway.domain.premises import Premise, Premises, Uses
from gateway.domain.scripts import ScriptId
from gateway.domain.tools import Pin, Profile, Sighting, Target, UpstreamId
from gateway.errors import AuditUnavailable, Changed
from gateway.flow.redaction import RecordScreen
from gateway.pins.diff import classify
from gateway.pins.names import tools_elsewhere
from gateway.pins.observe import approved_pin, observed, revoked_pin, with_body
from gateway.ports import ApprovalStore, AuditLog, Clock
from gateway.ports.scripts import ScriptStore
from gateway.storage.audit_log import to_its_end
from gateway.storage.ledger import Memory
from gateway.storage.pin_table import PinKey, PinTable
from gateway.storage.pins import known, sighted
from gateway.storage.run_changes import Belonging, Change, Kept, OwnerName
from gateway.storage.run_tables import Job
from gateway.storage.runs import RunLimits, RunNames, Runs

_NO_SECRET = b"memory keeps nothing worth a key"


class MemoryAuditLog:
    """An `AuditLog` whose `records` and `entries` can be looked at."""

    def __init__(self, redaction: Redaction = Redaction.HASHED) -> None:
        self.records: list[AuditRecord] = []
        self.entries: list[Entry] = []
        self.failure = ""
        """While it is not empty, nothing can be recorded, for that reason."""
        terms = Terms(
            keys=(_NO_SECRET,), levels=Levels(Level(redaction=redaction)), screen=RecordScreen()
        )
        self._encoder = RecordEncoder(log_id="douane/memory", terms=terms)

    async def append(self, record: AuditRecord) -> LogEntry:
        """Keep `record`, after the same checks as a durable log's; see `AuditLog`."""
        return await to_its_end(self._append(record))

    async def _append(self, record: AuditRecord) -> LogEntry:
        entry = self._encoder.encode(record)
        await asyncio.sleep(0)  # a durable log never answers at once either
        if self.failure:
            raise AuditUnavailable("the audit log cannot record this now", detail=self.failure)
        if any(earlier.id == record.id for earlier in self.records):
            raise AuditUnavailable("the audit log cannot record this now", detail="id is taken")
        self.records.append(record)
        self.entries.append(entry)
        return LogEntry(id=record.id, leaf_index=len(self.entries) - 1)


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


class MemoryPinStore:
    """A `PinStore`."""

    def __init__(
        self, *, clock: Clock, pins: Sequence[Pin] = (), epoch: Epoch | None = None
    ) -> None:
        self._clock = clock
        self._pins = PinTable(epoch or Epoch())
        self._pins.put(pins)

    def find(self, target: Target, profile: Profile) -> Pin | None:
        return self._pins.find(target, profile, self._clock())

    def all(self, server: UpstreamId | None = None) -> Sequence[Pin]:
        return self._pins.all(server, self._clock())

    @property
    def version(self) -> int:
        return self._pins.version(self._clock())

    async def observe(self, sightings: Sequence[Sighting]) -> Sequence[Pin]:
        """Note what upstreams show; see `PinStore`."""
        changed: dict[PinKey, Pin] = {}
        for sighting in sightings:
            key = sighted(sighting)
            pin = observed(changed.get(key) or self.find(*key), sighting)
            if pin is not None:
                changed[key] = pin
        self._pins.put(changed.values())
        return list(changed.values())

    async def approve(
        self,
        target: Target,
        profile: Profile,
        *,
        expected: str,
        identity: str | None = None,
        by: str,
        note: str,
        user_id: str = "",
        people: int = 1,
        counts: Callable[[str], bool] = lambda _: False,
        expires_at: float | None = None,
    ) -> Pin:
        """Approve what was last observed; see `PinStore`."""
        pin = known(self.find(target, profile), target)
        approved = approved_pin(
            pin,
            expected=expected,
            identity=identity,
            by=by,
            at=self._clock(),
            note=note,
            user_id=user_id,
            people=people,
            counts=counts,
            expires_at=expires_at,
            change=classify(
                pin.approved, pin.observed, elsewhere=tools_elsewhere(self.all(), target.server)
            ),
        )
        self._pins.put([approved])
        return approved

    async def revoke(self, target: Target, profile: Profile, *, by: str, note: str) -> Pin:
        """Withdraw the approval; see `PinStore`."""
        pin = revoked_pin(known(self.find(target, profile), target), note=note)
        self._pins.put([pin])
        return pin

    async def keep_body(self, target: Target, profile: Profile, digest: str) -> Pin:
        """Keep what a prompt said when it was first used; see `PinStore`."""
        pin = with_body(known(self.find(target, profile), target), digest)
        self._pins.put([pin])
        return pin


class MemoryRunTable:
    """A `RunTable` that forgets at the end."""

    def __init__(self) -> None:
        self._runs: dict[RunId, Kept] = {}
        self._generations: dict[OwnerName, int] = defaultdict(int)

    def find(self, run: RunId) -> Kept | None:
        return self._runs.get(run)

    def parts(self, run: RunId) -> Sequence[Kept]:
        return [k for k in self._runs.values() if k.run.part_of == run and not k.ended]

    def wholes(self, owner: OwnerName) -> Sequence[Kept]:
        mine = (k for k in self._runs.values() if k.owner == owner and k.run.part_of is None)
        return [kept for kept in mine if not kept.ended]

    def keep(self, kept: Kept) -> None:
        self._runs[kept.run.id] = kept

    def note_read(self, runs: Sequence[RunId]) -> Sequence[RunId]:
        """Keep nothing: whoever commits it has noted it."""
        return ()

    def note_seen(self, program: ScriptId, run: RunId, label: Label) -> None:
        """Keep nothing: whoever commits it has noted it."""

    def belong(self, belonging: Belonging) -> None:
        """Keep nothing: whoever commits it remembers it."""

    def forget(self) -> None:
        """Keep all: it is not for long."""

    def may_have_forgotten(self) -> bool:
        return False

    def next_generation(self, owner: OwnerName) -> int:
        self._generations[owner] += 1
        return self._generations[owner]


class MemoryRunLedger:
    """Makes changes at once."""

    def __init__(self) -> None:
        self._table = MemoryRunTable()

    async def make(self, job: Job, committed: Callable[[Change], None]) -> Change:
        """Make the change that `job` describes."""
        change = job(self._table)
        committed(change)
        return change


class MemoryRunStore(Runs):
    """A `RunStore`."""

    def __init__(self, *, limits: RunLimits | None = None, elapsed: Clock = time.monotonic) -> None:
        """Begin with no runs, and the limits of a gateway that nobody configured."""
        limits = limits or RunLimits()
        names = RunNames(_NO_SECRET, by_person=limits.by_person)
        super().__init__(MemoryRunLedger(), names, limits=limits, elapsed=elapsed)

"""The same stores, forgetting at the end: for tests, and for trying things out."""

import asyncio
import time
from collections.abc import Mapping, Sequence

from gateway.audit.record import Entry, RecordEncoder, Terms
from gateway.audit.redaction import Level, Levels, Redaction
from gateway.domain.approvals import (
    Approval,
    ApprovalId,
    ApprovalRequest,
    ApprovalRules,
    ApprovalState,
    Span,
)
from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.document import Digest
from gateway.domain.epoch import Epoch
from gateway.domain.identity import Client, ClientKind
from gateway.domain.tools import Pin, Profile, Sighting, Target, UpstreamId
from gateway.errors import AuditUnavailable
from gateway.flow.redaction import RecordScreen
from gateway.pins.names import tools_elsewhere
from gateway.pins.observe import approved_pin, observed, revoked_pin, with_body
from gateway.ports import Clock
from gateway.storage.identity.clients import already_taken
from gateway.storage.pin_table import PinKey, PinTable
from gateway.storage.pins import known, sighted
from gateway.storage.questions import (
    HOUR_S,
    Book,
    answered,
    asked_again,
    at,
    over,
    require_room,
    used,
    waits,
    withdrawn,
)
from gateway.storage.run_tables import MemoryRunLedger
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
        entry = self._encoder.encode(record)
        await asyncio.sleep(0)  # a durable log never answers at once either
        if self.failure:
            raise AuditUnavailable("the audit log cannot record this now", detail=self.failure)
        if any(earlier.id == record.id for earlier in self.records):
            raise AuditUnavailable("the audit log cannot record this now", detail="id is taken")
        self.records.append(record)
        self.entries.append(entry)
        return LogEntry(id=record.id, leaf_index=len(self.entries) - 1)


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
        by: str,
        note: str,
        user_id: str = "",
        people: int = 1,
        expires_at: float | None = None,
    ) -> Pin:
        """Approve what was last observed; see `PinStore`."""
        pin = known(self.find(target, profile), target)
        approved = approved_pin(
            pin,
            expected=expected,
            by=by,
            at=self._clock(),
            note=note,
            user_id=user_id,
            people=people,
            expires_at=expires_at,
            elsewhere=tools_elsewhere(self.all(), target.server),
        )
        self._pins.put([approved])
        return approved

    async def revoke(self, target: Target, profile: Profile, *, by: str, note: str) -> Pin:  # noqa: ARG002 - the port's; who it was is in the audit log
        """Withdraw the approval; see `PinStore`."""
        pin = revoked_pin(known(self.find(target, profile), target), note=note)
        self._pins.put([pin])
        return pin

    async def keep_body(self, target: Target, profile: Profile, digest: str) -> Pin:
        """Keep what a prompt said when it was first used; see `PinStore`."""
        pin = with_body(known(self.find(target, profile), target), digest)
        self._pins.put([pin])
        return pin


class MemoryRunStore(Runs):
    """A `RunStore`."""

    def __init__(self, *, limits: RunLimits | None = None, elapsed: Clock = time.monotonic) -> None:
        """Begin with no runs, and the limits of a gateway that nobody configured."""
        limits = limits or RunLimits()
        names = RunNames(_NO_SECRET, by_person=limits.by_person)
        super().__init__(MemoryRunLedger(), names, limits=limits, elapsed=elapsed)


class MemoryApprovalStore:
    """An `ApprovalStore`."""

    def __init__(self, rules: ApprovalRules | None = None) -> None:
        self._rules = rules or ApprovalRules()
        self._book = Book()

    def find(self, fingerprint: Digest, scope: Digest, *, now: float) -> Approval | None:
        return self._book.find(fingerprint, scope, now)

    def get(self, id_: ApprovalId, *, now: float) -> Approval | None:
        found = self._book.get(id_)
        return None if found is None else at(found, now)

    def all(self, *, now: float) -> Sequence[Approval]:
        return self._book.all(now)

    def counts(self, *, now: float) -> Mapping[ApprovalState, int]:
        return self._book.counts(now)

    def earlier(self, request: ApprovalRequest) -> Approval | None:
        return self._book.earlier(request)

    def yeses(self, principal: str) -> Sequence[Approval]:
        return self._book.yeses(principal)

    def under(self, digest: Digest, *, now: float) -> Sequence[Approval]:
        return self._book.under(digest, now)

    async def file(self, request: ApprovalRequest) -> Approval:
        """File a question, or count it; see `ApprovalStore`."""
        now = request.asked_at
        same = self._book.waiting(request.fingerprint, now)
        if same is not None:
            return self._kept(asked_again(same))
        self._book.forget(self._book.outlived(request, self._rules.keep_s))
        mine = self._book.of(request.principal)
        require_room(
            self._rules,
            waiting=sum(at(one, now).state is ApprovalState.WAITING for one in mine),
            this_hour=sum(one.request.asked_at > now - HOUR_S for one in mine),
        )
        return self._kept(waits(request))

    async def answer(
        self,
        id_: ApprovalId,
        *,
        allow: bool,
        span: Span,
        by: str,
        by_user_id: str,
        note: str,
        now: float,
    ) -> Approval:
        """Answer a waiting question, once; see `ApprovalStore`."""
        return self._kept(
            answered(
                self._book.get(id_),
                self._rules,
                allow=allow,
                span=span,
                by=by,
                by_user_id=by_user_id,
                note=note,
                now=now,
            )
        )

    async def withdraw(self, id_: ApprovalId, *, now: float) -> Approval:
        """Have a waiting question answered by nobody; see `ApprovalStore`."""
        return self._kept(withdrawn(self._book.get(id_), now))

    async def end(self, id_: ApprovalId, *, now: float) -> Approval:
        """Have a question wait, or its yes count, no more; see `ApprovalStore`."""
        return self._kept(over(self._book.get(id_), now))

    async def use(self, id_: ApprovalId, *, now: float) -> bool:
        """Use up a yes for one call; see `ApprovalStore`."""
        await asyncio.sleep(0)  # a durable store never answers at once either
        after = used(self._book.get(id_), now)
        if after is not None:
            self._book.keep(after)
        return after is not None

    def _kept(self, approval: Approval) -> Approval:
        self._book.keep(approval)
        return approval


class MemoryClientStore:
    """A `ClientStore` that knows of no grants and no consents: every client is unused."""

    def __init__(self, clients: Sequence[Client] = ()) -> None:
        self._clients = {client.id: client for client in clients}

    def find(self, client_id: str) -> Client | None:
        return self._clients.get(client_id)

    def all(self) -> Sequence[Client]:
        """Return every client, by name."""
        return sorted(self._clients.values(), key=lambda client: (client.name, client.id))

    def add(self, client: Client) -> None:
        """Keep a new client; see `ClientStore`."""
        if client.id in self._clients or any(_same_name(client, one) for one in self.all()):
            raise already_taken(client)
        self._clients[client.id] = client

    def refresh(self, client: Client) -> None:
        """Keep what a `DOCUMENT` says now; see `ClientStore`."""
        before = self._clients.get(client.id, client)
        if not client.kind is before.kind is ClientKind.DOCUMENT:
            raise already_taken(client)
        self._clients[client.id] = client

    def remove(self, client_id: str) -> Client | None:
        """Forget a client; `None` if there is none of that id."""
        return self._clients.pop(client_id, None)

    def remove_unused(self, before: float) -> int:
        """Forget the clients made before then that no administrator registered."""
        unused = [
            client.id
            for client in self.all()
            if client.kind is not ClientKind.REGISTERED and client.created_at < before
        ]
        for client_id in unused:
            del self._clients[client_id]
        return len(unused)


def _same_name(one: Client, other: Client) -> bool:
    return one.name == other.name and one.kind is other.kind is ClientKind.REGISTERED

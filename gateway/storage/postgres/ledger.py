"""Calls on record in PostgreSQL: kept while what they were decided on holds, with what they use up and raise."""

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, Protocol

from gateway.audit.record import RecordEncoder
from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.flow import RunId
from gateway.domain.premises import Premise, Premises, Uses
from gateway.errors import AuditUnavailable, Changed
from gateway.storage.audit_log import Waited, encoded, nobody, to_its_end
from gateway.storage.committer import NOT_RECORDED
from gateway.storage.postgres.lanes import Kept, Lanes
from gateway.storage.postgres.terms import FREELY, Raise, Terms

_NO_WHOLE: Final = "whole"
"""What is said where there is no whole run to raise."""
_MOST_TRIES: Final = 3


class KnownRuns(Protocol):
    """What memory shows of runs. Other replicas change them as well."""

    async def look_again(self, run: RunId) -> None:
        """Have memory show a run, and the whole runs beside it, as they are by now."""
        ...


Begin = Callable[[Raise], Awaitable[object]]
"""Raises a run whose owner has no live whole run, which begins with that."""

Look = Callable[[], Awaitable[object]]
"""Has a memory show what is so by now."""

NO_MEMORIES: Final[Mapping[Premise, Look]] = {}

Others = Callable[[], Awaitable[bool]]
"""Has every memory show what other replicas have committed; says whether any lacked some."""


async def no_others() -> bool:
    """Say that there is nobody else."""
    return False


class PostgresLedger:
    """An `AuditLog` and a `Ledger`: comparison, use, raise and record are one statement.

    Any record can have premises: a refusal that rests on what is not so any more is not kept either.
    """

    def __init__(
        self,
        lanes: Lanes,
        encoder: RecordEncoder,
        *,
        runs: KnownRuns,
        begin: Begin,
        memories: Mapping[Premise, Look] = NO_MEMORIES,
        others: Others = no_others,
    ) -> None:
        """`memories` says for each kind of premise how that which it was read from is read anew."""
        self._lanes = lanes
        self._encoder = encoder
        self._runs = runs
        self._begin = begin
        self._memories = memories
        self._others = others
        self.waited: Waited = nobody

    async def append(self, record: AuditRecord) -> LogEntry:
        """Return only once `record` is durable; see `AuditLog`. Its place in the log comes later."""
        await to_its_end(self._kept(record, FREELY))
        return LogEntry(id=record.id)

    async def put(self, record: AuditRecord, premises: Premises, uses: Uses) -> LogEntry:
        """Write `record` down if `premises` hold, with what it `uses`; see `Ledger`."""
        kept = await self._kept(record, Terms(premises=premises, uses=uses))
        if kept.changed:
            changed = frozenset(Premise(one) for one in kept.changed.split())
            await self._look_again(changed, premises.run)
            raise Changed(changed)
        if uses.yes is not None:
            with suppress(AuditUnavailable):  # the call is on record
                await self._look_again(frozenset([Premise.APPROVAL]), premises.run)
        return LogEntry(id=record.id)

    async def caught_up(self) -> bool:
        """Have memory show what other replicas have changed; see `Ledger`."""
        return await self._others()

    async def conclude(self, record: AuditRecord, raises: Raise) -> LogEntry:
        """Return once `record` is durable, and what it says of its run is joined into that before it.

        Raises:
            Fault: There is no such run.
            AuditUnavailable: As `append`.

        """
        for _ in range(_MOST_TRIES):
            kept = await self._kept(record, Terms(raises=raises))
            if kept.changed != _NO_WHOLE:
                for run in kept.raised:
                    await self._runs.look_again(RunId(run))
                return LogEntry(id=record.id)
            await self._begin(raises)
        raise AuditUnavailable(NOT_RECORDED, detail="its principal's run ends again and again")

    async def _look_again(self, changed: frozenset[Premise], run: RunId) -> None:
        """Have memory show what has changed: what is decided again would be found changed again."""
        if Premise.RUN in changed:
            await self._runs.look_again(run)
        for look in {
            id(look): look for what, look in self._memories.items() if what in changed
        }.values():
            await look()

    async def _kept(self, record: AuditRecord, terms: Terms) -> Kept:
        began = time.perf_counter()
        kept = await self._lanes.put(await encoded(self._encoder, record), terms)
        if not kept.changed:
            self.waited("log", time.perf_counter() - began)
        return kept

"""The follower that learns what is usual, and writes down what departs from it."""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from functools import partial

from gateway.behaviour.baselines import Baselines
from gateway.behaviour.deviations import Deviation, Kind
from gateway.behaviour.observation import OUTCOME, observed
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.errors import AuditUnavailable
from gateway.ports import AuditLog, Clock
from gateway.ports.behaviour import BaselineStore
from gateway.ports.following import NotDelivered, StoredRecord
from gateway.turns import awaited_whole

logger = logging.getLogger(__name__)

_AT_ONCE = 16
"""Records between which calls have their turn: about a third of a millisecond."""
_KEEP_EVERY_S = 5.0
_STALE_S = 86400.0
"""Whoever begins with a log that is there already learns from it and tells nothing old."""


class DeviationSink:
    """The `Sink` and the `CursorStore` of one follower, so that state and cursor move together.

    They are kept every few seconds, not with every page: what was learned after that is learned
    again after a restart. A record of a deviation has the same id whenever it is derived, so what
    was told of it then is not told twice.
    """

    def __init__(
        self,
        *,
        baselines: Callable[[], Baselines],
        store: BaselineStore,
        audit: AuditLog,
        is_recorded: Callable[[str], bool],
        count: Callable[[Kind], None],
        clock: Clock,
    ) -> None:
        """Take `baselines`, which gives some that know nothing.

        `is_recorded` looks up an id in the log; it blocks, and no two calls of it overlap.
        """
        self._new = baselines
        self.baselines = baselines()
        self._store = store
        self._audit = audit
        self._is_recorded = is_recorded
        self._count = count
        self._clock = clock
        self._learned = -1
        """The leaf index of the last record that was learned from, kept or not."""
        self._untold: list[Deviation] = []
        self._kept_at: float | None = None

    async def cursor(self, name: str) -> int | None:  # noqa: ARG002 - the port's
        """Take up what was kept, and return from how much of the log it comes."""
        kept, rows = await self._store.kept()
        self.baselines = self._new()
        try:
            await asyncio.to_thread(self.baselines.restore, rows)
        except ValueError as error:
            logger.warning("what is usual is learned anew from the log: %s", error)
            await self._store.forget()
            self.baselines, kept = self._new(), None
        self._learned = -1 if kept is None else kept
        self._untold.clear()
        return kept

    async def move(self, name: str, leaf_index: int) -> None:  # noqa: ARG002 - the port's
        """Keep what was learned up to `leaf_index`, all of it or nothing, if it is time to."""
        now = self._clock()
        if self._kept_at is not None and 0 <= now - self._kept_at < _KEEP_EVERY_S:
            return
        await self._store.keep(leaf_index, self.baselines.changes())
        self.baselines.saved()
        self._kept_at = now

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Learn from `records`, each once, and record what departs from the ordinary.

        Raises:
            NotDelivered: It could not be recorded now.

        """
        looked_at = 0
        for record in records:
            if record.leaf_index <= self._learned:
                continue  # learned from by a delivery that did not get to its end
            self._learned = record.leaf_index
            if OUTCOME not in record.body:
                continue
            seen = observed(record.leaf_index, record.body)
            if seen is not None:
                self._untold += self.baselines.learn(seen)
            looked_at += 1
            if looked_at % _AT_ONCE == 0:
                await asyncio.sleep(0)
        while self._untold:
            await self._tell(self._untold[0])
            del self._untold[0]

    async def _tell(self, deviation: Deviation) -> None:
        if self._clock() - deviation.time > _STALE_S:
            return
        record = _record(deviation, self._clock())
        if not await awaited_whole(partial(self._is_recorded, record.id)):
            try:
                await self._audit.append(record)
            except AuditUnavailable as error:
                raise NotDelivered(error.detail or error.public) from error
            logger.warning("%s is on record as %s", record.fields["code"], record.id)
        self._count(deviation.kind)


def _record(deviation: Deviation, now: float) -> AuditRecord:
    code = deviation.kind.code
    fields = {
        **deviation.subject.fields,
        "code": code,
        "reasons": [{"code": code, "message": deviation.message}],
        "evidence": deviation.evidence,
    }
    return AuditRecord(kind=RecordKind.SYSTEM, time=now, id=_id(deviation), fields=fields)


def _id(deviation: Deviation) -> str:
    """Return the id that this deviation always has; like all ids it begins with its time."""
    told = f"{deviation.kind}\0{deviation.subject.view}\0{deviation.leaf_index}\0{deviation.record}"
    digest = hashlib.sha256(told.encode()).hexdigest()
    return f"{round(deviation.time * 1000):012x}{digest[:20]}"

"""The log in PostgreSQL, to whoever reads it, follows it, keeps it or removes what is old."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg

from gateway.audit.bundle import BundleVerification
from gateway.audit.checkpoint import VerifierKey
from gateway.audit.cosignature import WitnessKey
from gateway.audit.query import Statement
from gateway.domain.audit import UNPLACED, LogEntry
from gateway.errors import AuditUnavailable
from gateway.storage.bundles import BundleReader
from gateway.storage.connection import Readable
from gateway.storage.index_tables import PARTITION
from gateway.storage.postgres.answers import PostgresAnswers, PostgresIndex
from gateway.storage.postgres.connection import connect
from gateway.storage.postgres.dialect import POSTGRES
from gateway.storage.postgres.following import (
    CHECKPOINTS,
    NEWEST_CHECKPOINT,
    RECORDS,
    PostgresSource,
    PostgresTurn,
)
from gateway.storage.postgres.keeping import PostgresJobs
from gateway.storage.postgres.locks import Lock
from gateway.storage.postgres.reading import READER, PostgresLogReader, SharedReading, verify_log
from gateway.storage.retention import (
    SEGMENT_RECORDS,
    LogRetention,
    NotRemovable,
    Removed,
    Segment,
)
from gateway.storage.segments import segment_verified_in
from gateway.storage.verify import Verification

T = TypeVar("T")

_PLACED_WITHIN_S: Final = 1.0
_LOOK_AGAIN_S: Final = 0.02


class PostgresBundles(BundleReader):
    """What an export is made of, over a connection that comes back by itself."""

    def selected(self, statement: Statement, part: range) -> Sequence[tuple[int, bytes]]:
        """Return what a filter selects of these records; see `BundleReader`."""
        return super().selected(statement.spelled(POSTGRES), part)


class PostgresRetention(LogRetention):
    """What archives and removes records of a log in PostgreSQL."""

    def __init__(self, log: "PostgresLog", **more: Any) -> None:
        """Take `log`, and the rest as `LogRetention` does."""
        super().__init__(log.jobs, **more)
        self._log = log

    async def _archived(self, before_us: int) -> list[Segment]:
        async with self._log.alone():
            return await super()._archived(before_us)

    async def _pruned(self, before_us: int) -> Removed:
        async with self._log.alone():
            return await super()._pruned(before_us)

    def _opened(self) -> Readable:
        return self._log.opened()

    def _removed(self, connection: Any, *, stop: int) -> None:
        connection.execute("SELECT prune_1(?)", (stop,))

    async def _placed(self, entry: LogEntry) -> int:
        place = await self._log.place(entry.id)
        return UNPLACED if place is None else place

    def _stops(self, first: int, stop: int) -> Iterator[int]:
        """Yield partitions that go as a whole, and else what a statement removes in some seconds."""
        while first < stop:
            end = (first // PARTITION + 1) * PARTITION
            if first % PARTITION or end > stop:
                end = min(first + SEGMENT_RECORDS, end, stop)
            yield end
            first = end


class PostgresLog:
    """Opens each view of the log by itself; all of them connect at first use."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._looking = SharedReading.of(conninfo)
        self.jobs = PostgresJobs(conninfo)
        """Runs changes of the tables beside the log: cursors, holds, cosignatures."""

    def close(self) -> None:
        """Let go of what the log itself has open; each view is closed by whoever opened it."""
        self._looking.close()
        self.jobs.close()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Archive or remove within the context, while no other replica does.

        Raises:
            NotRemovable: Another one does.
            AuditUnavailable: Nobody can say.

        """
        turn = PostgresTurn(self._conninfo, Lock.KEEP)
        try:
            if not await _alone(turn):
                raise NotRemovable("another gateway archives or removes records just now")
            if not await asyncio.to_thread(self._looked, _may_remove):
                raise NotRemovable(
                    "the database's user may not archive or remove records: whoever owns the tables "
                    "admits one that keeps the archive (`douane storage tables --admit ROLE --keeper`)"
                )
            yield
        finally:
            await asyncio.to_thread(turn.close)

    def opened(self) -> Readable:
        """Return the log as it is read."""
        return SharedReading.of(self._conninfo)

    def reader(self) -> PostgresLogReader:
        """Return what reads records and proves them."""
        return PostgresLogReader(self.opened())

    def records(self) -> PostgresSource:
        """Return what followers of records read."""
        return PostgresSource(self._conninfo, RECORDS)

    def checkpoints(self) -> PostgresSource:
        """Return the same of signed checkpoints."""
        return PostgresSource(self._conninfo, CHECKPOINTS)

    def newest_checkpoint(self) -> PostgresSource:
        """Return the same of the newest one alone."""
        return PostgresSource(self._conninfo, NEWEST_CHECKPOINT)

    def bundles(self) -> PostgresBundles:
        """Return what exports are made of."""
        return PostgresBundles(self.opened())

    def index(self) -> PostgresIndex:
        """Return what keeps the index up with the log."""
        return PostgresIndex(self._conninfo)

    def answers(self, *, indexed: bool = True) -> PostgresAnswers:  # noqa: ARG002 - it is always there
        """Return what answers questions."""
        return PostgresAnswers.open(self._conninfo)

    def turn(self) -> PostgresTurn:
        """Return whose turn it is to follow the log."""
        return PostgresTurn(self._conninfo)

    @contextmanager
    def reading(self) -> Iterator[PostgresLogReader]:
        """Read for one look of a follower's.

        Raises:
            AuditUnavailable: It cannot be read now.

        """
        try:
            yield PostgresLogReader(self._looking)
        except sqlite3.Error as error:
            raise _unreadable(error) from error

    def retention(self, **more: Any) -> PostgresRetention:
        """Return what archives and removes what is old; see `LogRetention`."""
        return PostgresRetention(self, **more)

    def newest(self) -> int:
        """Return the last record's leaf index; -1 if there is none.

        Raises:
            AuditUnavailable: The log cannot be read now; so for all that follow.

        """
        return self._looked(PostgresLogReader.newest)

    def has(self, record_id: str) -> bool:
        """Say whether a record is durable, in the log or before it."""
        return self._looked(lambda log: log.find(record_id) is not None or log.waits(record_id))

    def lag_s(self) -> float:
        """Return for how long the oldest record has waited that is durable and not in the log."""
        return self._looked(PostgresLogReader.lag_s)

    async def place(self, record_id: str) -> int | None:
        """Return where a record of that id stands, once it does; `None` if it does not in a second."""
        patience = time.monotonic() + _PLACED_WITHIN_S
        while True:
            found = await asyncio.to_thread(self._looked, lambda log: log.find(record_id))
            if found is not None:
                return int(found["leaf_index"])
            if time.monotonic() > patience:
                return None
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def placed(self, entry: LogEntry) -> int:
        """Return where a record stands, or would if it came next: what is before was there before it."""
        place = await self.place(entry.id)
        return await asyncio.to_thread(self.newest) + 1 if place is None else place

    def verify(
        self,
        verifier: VerifierKey,
        *,
        checkpoints: Sequence[tuple[str, str]] = (),
        witnesses: Sequence[WitnessKey] = (),
    ) -> Verification:
        """Compare the log with itself and with every checkpoint there is; see `verify`.

        Raises:
            AuditUnavailable: It could not be read to its end, so that nothing was found.

        """
        try:
            with closing(connect(self._conninfo, application=READER)) as connection:
                return verify_log(
                    connection, verifier, checkpoints=checkpoints, witnesses=witnesses
                )
        except (psycopg.Error, sqlite3.Error) as error:
            raise _unreadable(error) from error

    def segment_verified(self, path: Path, verifier: VerifierKey | None) -> BundleVerification:
        """Check an archived file by itself and against this log; see `segment_verified`."""
        return segment_verified_in(path, verifier, self.opened)

    def _looked(self, look: Callable[[PostgresLogReader], T]) -> T:
        with self.reading() as log:
            return look(log)


def _may_remove(log: PostgresLogReader) -> bool:
    return log.may_remove()


async def _alone(turn: PostgresTurn) -> bool:
    try:
        return await asyncio.to_thread(turn.asked)
    except psycopg.Error as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> AuditUnavailable:
    return AuditUnavailable("the audit log cannot be read", detail=str(error))

"""The one thread that writes: whatever is waiting goes into one transaction, then all are told."""

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gateway.audit.record import Entry
from gateway.domain._value import value
from gateway.domain.audit import LogEntry
from gateway.errors import AuditUnavailable, ConfigError
from gateway.storage.database import CommitUnknown, Database, Job, JobOutcome

T = TypeVar("T")

_LARGEST_BATCH = 1024
_ENDED = "the writer has ended"
_NOT_RECORDED = "the audit log cannot record this now"


@value
class Signing:
    """When what was written is signed: whichever comes first."""

    every_s: float = 1.0
    """After the first record that no checkpoint covers."""
    records: int = 5_000


EVERY_SECOND = Signing()


class NotAccepted(AuditUnavailable):
    """The log could take records, but not this one: its id is another one's."""


class _Item:
    """One thing to write, and who waits for it."""

    __slots__ = ("committed", "entry", "expires", "future", "job", "late", "outcome", "signs")

    def __init__(
        self,
        future: asyncio.Future[Any],
        *,
        expires: float,
        entry: Entry | None = None,
        job: Job | None = None,
        committed: Callable[[Any], None] | None = None,
        late: Sequence[Entry] = (),
        signs: bool = False,
    ) -> None:
        self.future = future
        self.expires = expires
        self.entry = entry
        self.job = job
        self.committed = committed
        self.late = late
        self.signs = signs
        self.outcome = JobOutcome()


class Writer:
    """Writes for one event loop. What was awaited is durable; nothing is told before its COMMIT.

    A write that misses its deadline is refused. It may still happen later, so a refused record can
    be in the log, but an acknowledged one is always there.
    """

    def __init__(
        self,
        database: Database,
        *,
        reopen: Callable[[], Database],
        deadline_s: float,
        capacity: int = 10_000,
        signing: Signing = EVERY_SECOND,
    ) -> None:
        """Start writing to `database`, which from now on is the writer's own.

        `reopen` opens it anew after a failure; `capacity` is how many writes may wait.
        """
        self._signing = signing
        self.recorded = database.tree.size
        """How many records are in the log, as far as their writers were told."""
        self._unwritten = ""
        self._unsigned = ""
        self._database: Database | None = database
        self._reopen = reopen
        self._deadline_s = deadline_s
        self._capacity = capacity
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Item] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._ended = False
        self._submitted: list[_Item] = []
        self._waiting: deque[_Item] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._unsigned_since: float | None = None
        self._sign(database)
        self._thread = threading.Thread(target=self._work, name="douane-writer", daemon=True)
        self._thread.start()

    async def append(self, entry: Entry) -> LogEntry:
        """Return once `entry` is durable.

        Raises:
            AuditUnavailable: It is not, or not known to be, within the deadline.

        """
        item = _Item(self._loop.create_future(), expires=self._expiry(), entry=entry)
        self._submit(item)
        index: int = await item.future
        return LogEntry(id=str(entry.columns[0]), leaf_index=index)

    async def run(
        self,
        job: Callable[[sqlite3.Connection], T],
        *,
        committed: Callable[[T], None] | None = None,
    ) -> T:
        """Return what `job` returns, once its changes are durable; its own errors are raised.

        `committed` is called with the result on the event loop, in the order of the commits, even
        if nobody waits for the result any more: memory follows the database.

        Raises:
            AuditUnavailable: The change did not happen, or is not known to have, in time.

        """
        item = _Item(
            self._loop.create_future(), expires=self._expiry(), job=job, committed=committed
        )
        self._submit(item)
        result: T = await item.future
        return result

    def absorb(
        self, late: Sequence[Entry], job: Callable[[sqlite3.Connection], T]
    ) -> "asyncio.Future[T]":
        """Write what was kept elsewhere meanwhile, in one transaction with `job`.

        It stands before whatever is submitted after it. A record that is in the log already is
        left out: the write that nobody waited for any more may have happened. The result is the
        job's; it fails with `AuditUnavailable` as `run` does, but no deadline ends it.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._submit(_Item(future, expires=float("inf"), job=job, late=late), timed=False)
        return future

    async def sign(self) -> None:
        """Return once everything that was recorded before is covered by a checkpoint.

        Raises:
            AuditUnavailable: It is not, or not known to be, within the deadline.

        """
        item = _Item(
            self._loop.create_future(), expires=self._expiry(), job=change_nothing, signs=True
        )
        self._submit(item)
        await item.future

    async def close(self) -> None:
        """Write what is waiting, sign the log and close it."""
        self._hand_over()
        with self._wake:
            self._closing = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)
        if self._timer is not None:
            self._timer.cancel()

    @property
    def problem(self) -> str:
        """Why the last attempt to write, or else to sign, failed; empty if neither did."""
        return self._unwritten or self._unsigned

    @property
    def depth(self) -> int:
        """How many writes wait for the thread."""
        return len(self._queue) + len(self._submitted)

    def _expiry(self) -> float:
        return self._loop.time() + self._deadline_s

    def _submit(self, item: _Item, *, timed: bool = True) -> None:
        if self._closing:
            raise AuditUnavailable(_NOT_RECORDED, detail="the log is closed")
        if self.depth >= self._capacity:
            raise AuditUnavailable(_NOT_RECORDED, detail="too many records wait")
        if not self._submitted:
            # Whatever else this turn of the event loop submits wakes the thread with it, once.
            self._loop.call_soon(self._hand_over)
        self._submitted.append(item)
        if not timed:
            return
        self._waiting.append(item)
        if self._timer is None:
            # One timer serves all: whoever came first expires first.
            self._timer = self._loop.call_at(item.expires, self._expire)

    def _hand_over(self) -> None:
        submitted, self._submitted = self._submitted, []
        with self._wake:
            ended = self._ended
            if not ended:
                self._queue.extend(submitted)
                self._wake.notify()
        if ended and submitted:
            self._settle(submitted, 0, _ENDED)

    def _expire(self) -> None:
        self._timer, now = None, self._loop.time()
        while self._waiting:
            item = self._waiting[0]
            if not item.future.done():
                if item.expires > now:
                    self._timer = self._loop.call_at(item.expires, self._expire)
                    return
                item.future.set_exception(
                    AuditUnavailable(_NOT_RECORDED, detail="not durable within the deadline")
                )
            self._waiting.popleft()

    def _settle(
        self,
        batch: list[_Item],
        first: int,
        failure: str,
        kind: type[AuditUnavailable] = AuditUnavailable,
    ) -> None:
        """Tell everybody in a batch, on the event loop; `failure` is why none of it happened."""
        index = first
        for item in batch:
            outcome = item.outcome
            if failure:
                outcome.error = kind(_NOT_RECORDED, detail=failure)
            elif item.entry is not None:
                outcome.result = index
                index += 1
            elif outcome.error is None and item.committed is not None:
                item.committed(outcome.result)
            if item.future.done():
                continue
            if outcome.error is not None:
                item.future.set_exception(outcome.error)
            else:
                item.future.set_result(outcome.result)
        self.recorded = max(self.recorded, index)
        while self._waiting and self._waiting[0].future.done():
            self._waiting.popleft()

    # From here on: the thread.

    def _work(self) -> None:
        try:
            while (batch := self._next_batch()) is not None:
                if batch:
                    self._write(batch)
                if self._database is not None and self._signing_is_due():
                    self._sign(self._database)
            if self._database is not None:
                self._sign(self._database)
        finally:
            self._end()

    def _end(self) -> None:
        """Refuse what still waits: whatever ended the thread, nothing hangs."""
        with self._wake:
            self._closing = self._ended = True
            left = list(self._queue)
            self._queue.clear()
        if left:
            self._tell(left, 0, _ENDED)
        if self._database is not None:
            self._database.close()

    def _next_batch(self) -> list[_Item] | None:
        """Return what waits, nothing when it is time to sign, or `None` at the end."""
        with self._wake:
            while not self._queue:
                if self._closing:
                    return None
                if self._unsigned_since is None:
                    self._wake.wait()
                    continue
                left = self._unsigned_since + self._signing.every_s - time.monotonic()
                if left <= 0:
                    return []
                self._wake.wait(left)
            if self._queue[0].late:
                return [self._queue.popleft()]
            batch: list[_Item] = []
            while self._queue and not self._queue[0].late and len(batch) < _LARGEST_BATCH:
                batch.append(self._queue.popleft())
            return batch

    def _write(self, batch: list[_Item]) -> None:
        try:
            first = self._commit(batch)
        except sqlite3.IntegrityError as error:
            if len(batch) == 1:
                self._tell(batch, 0, f"the record was not accepted: {error}", NotAccepted)
                return
            for item in batch:  # one record's id is taken already; the others are innocent
                self._write([item])
        except (sqlite3.Error, OSError, ConfigError) as error:
            self._unwritten = str(error)
            self._tell(batch, 0, self._unwritten)
        except BaseException as error:  # a fault of our own: it ends the thread, in `_end`
            self._unwritten = f"the writer has ended: {error!r}"
            self._tell(batch, 0, self._unwritten)
            raise
        else:
            self._unwritten = ""
            self._sign_for([item for item in batch if item.signs])
            self._tell(batch, first, "")

    def _sign_for(self, asked: Sequence[_Item]) -> None:
        if not asked or self._database is None:
            return
        self._sign(self._database)
        for item in asked if self._unsigned else ():
            item.outcome.error = AuditUnavailable(_NOT_RECORDED, detail=self._unsigned)

    def _commit(self, batch: list[_Item]) -> int:
        if self._database is None:
            self._database = self._reopen()
        database = self._database
        expected_batch = database.batch + 1
        try:
            first = database.commit(
                [item.entry for item in batch if item.entry is not None],
                [(item.job, item.outcome) for item in batch if item.job is not None],
                late=batch[0].late,
            )
        except CommitUnknown:
            # Without a database there is nothing to sign, so nothing to wake up for.
            self._database, self._unsigned_since = None, None
            database.close()
            self._database = self._reopen()
            if self._database.batch != expected_batch:
                raise
            self._database.settle()
            first = self._database.tree.size - sum(item.entry is not None for item in batch)
        if self._unsigned_since is None and self._database.tree.size > self._database.signed_size:
            self._unsigned_since = time.monotonic()
        return first

    def _signing_is_due(self) -> bool:
        if self._unsigned_since is None or self._database is None:
            return False
        if self._database.tree.size - self._database.signed_size >= self._signing.records:
            return True
        return time.monotonic() - self._unsigned_since >= self._signing.every_s

    def _sign(self, database: Database) -> None:
        """Sign what is new; if that fails, it is tried again with the next records."""
        self._unsigned_since = None
        if database.signed_size == database.tree.size:
            return
        try:
            database.sign()
        except (sqlite3.Error, OSError, ConfigError) as error:
            self._unsigned = f"no checkpoint could be signed: {error}"
        else:
            self._unsigned = ""

    def _tell(
        self,
        batch: list[_Item],
        first: int,
        failure: str,
        kind: type[AuditUnavailable] = AuditUnavailable,
    ) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settle, batch, first, failure, kind)


def change_nothing(_: sqlite3.Connection) -> None:
    """Leave all to the batch that it is in, which counts itself, durably."""

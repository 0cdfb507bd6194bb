"""Where records and changes of state become durable: the event loop's end of the one writer.

Whatever waits goes into one transaction of the writer's thread. Where there is a journal, what a
call waits for is durable there first, and the thread takes it up a moment later, many at once.
"""

import asyncio
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from gateway.audit.record import Entry
from gateway.domain.audit import LogEntry
from gateway.errors import AuditUnavailable, Changed
from gateway.storage.committer import (
    ENDED,
    NOT_RECORDED,
    Committer,
    Item,
    NotAccepted,
    Queue,
    Signing,
)
from gateway.storage.connection import Durability
from gateway.storage.database import Database
from gateway.storage.journal import Journal, JournalFailed
from gateway.storage.syncing import Syncing

__all__ = ["EVERY_SECOND", "NotAccepted", "Signing", "Writer", "change_nothing"]

T = TypeVar("T")

logger = logging.getLogger(__name__)

EVERY_SECOND: Final = Signing()
_LATER_S: Final = 0.1
"""How long a record stands in the journal alone while all is well."""


class Writer:
    """Writes for one event loop. What was awaited is durable; nothing is told before its COMMIT.

    A write that misses its deadline is refused. It may still happen later, so a refused record can
    be in the log, but an acknowledged one is always there. With what uses something up it is one or
    the other: refused, it does not happen, and once its transaction has begun whoever waits hears
    what comes of it, however long that takes.
    """

    def __init__(
        self,
        database: Database,
        *,
        reopen: Callable[[], Database],
        deadline_s: float,
        capacity: int = 10_000,
        signing: Signing = EVERY_SECOND,
        journal: Journal | None = None,
        durability: Durability = Durability.POWER,
    ) -> None:
        """Start writing to `database`, which from now on is the writer's own, as is `journal`.

        `reopen` opens it anew after a failure; `capacity` is how many writes may wait;
        `durability` is what records of the journal survive before anybody is told.
        """
        self.recorded = database.tree.size
        """How many records are in the log, as far as their writers were told."""
        self._deadline_s = deadline_s
        self._capacity = capacity
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self._next = database.tree.size
        """The place of the next record in the log, while there is nothing `_unplaced`."""
        self._unplaced = 0
        """How much that takes places in the log is under way, and not in the journal."""
        self._submitted: list[Item] = []
        self._waiting: deque[Item] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._queue = Queue()
        self._journal = journal
        self._syncing = (
            Syncing(journal, partial(self._synced, journal=journal))
            if journal is not None and durability is Durability.POWER
            else None
        )
        self._committer = Committer(
            database,
            reopen=reopen,
            queue=self._queue,
            journal=journal,
            signing=signing,
            tell=self._tell,
        )
        work = self._committer.work
        self._thread = threading.Thread(target=work, name="douane-writer", daemon=True)
        self._thread.start()

    async def append(
        self,
        entry: Entry,
        *,
        may_lag: bool = False,
        if_holds: Callable[[], None] | None = None,
        job: Callable[[sqlite3.Connection], T] | None = None,
        committed: Callable[[T], None] | None = None,
    ) -> LogEntry:
        """Return once `entry` is durable; one that `may_lag` can come into the log a moment later.

        Its place there is known in any case. With a `job` it is written only if what it rests on
        holds: that says so in the transaction that writes it, or raises why not, and changes what
        goes with it. Where the journal takes the record there is no transaction yet: `if_holds`
        says it of memory, which has all that anybody was told.

        Raises:
            Changed: It was not written, as `job` or `if_holds` said.
            AuditUnavailable: It is not, or not known to be, durable within the deadline.

        """
        item = Item(
            self._loop.create_future(),
            expires=self._loop.time() + self._deadline_s,
            entry=entry,
            job=job,
            committed=committed,
            may_lag=may_lag,
            if_holds=if_holds,
        )
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
        item = Item(
            self._loop.create_future(),
            expires=self._loop.time() + self._deadline_s,
            job=job,
            committed=committed,
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
        self._submit(Item(future, expires=float("inf"), job=job, late=late), timed=False)
        return future

    async def sign(self) -> None:
        """Return once everything that was recorded before is covered by a checkpoint.

        Raises:
            AuditUnavailable: It is not, or not known to be, within the deadline.

        """
        item = Item(
            self._loop.create_future(),
            expires=self._loop.time() + self._deadline_s,
            job=change_nothing,
            signs=True,
        )
        self._submit(item)
        await item.future

    async def close(self) -> None:
        """Write what is waiting, sign the log and close it."""
        self._hand_over()
        self._closing = True
        self._queue.close()
        await asyncio.to_thread(self._thread.join)
        if self._syncing is not None:
            await self._syncing.close()
        if self._journal is not None:
            self._journal.finish()
        for timer in (self._timer, self._later):
            if timer is not None:
                timer.cancel()

    @property
    def problem(self) -> str:
        """Why the last attempt to write, or else to sign, failed; empty if neither did."""
        return self._committer.problem

    @property
    def depth(self) -> int:
        """How many writes wait for the thread."""
        return len(self._queue) + len(self._submitted)

    def _submit(self, item: Item, *, timed: bool = True) -> None:
        if self._closing or self._queue.closed:
            raise AuditUnavailable(NOT_RECORDED, detail="the log is closed")
        if len(self._queue) + len(self._submitted) >= self._capacity:
            raise AuditUnavailable(NOT_RECORDED, detail="too many records wait")
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
        submitted = [item for item in submitted if _holds(item)]
        if not submitted:
            return
        is_journaled = self._in_journal(submitted)
        awaited = False
        for item in submitted:
            if not (is_journaled and item.may_lag):
                awaited = True
                self._unplaced += item.takes_places
        if not self._queue.put(submitted, awaited=awaited):
            self._settle(submitted, 0, ENDED)
        elif not awaited and self._later is None:
            self._later = self._loop.call_later(_LATER_S, self._look)

    def _look(self) -> None:
        self._later = None
        self._queue.wake()

    def _in_journal(self, submitted: list[Item]) -> bool:
        """Have the records that may lag in the journal, and say whether they are.

        They are only where it is known which places they will have in the log: nothing that takes
        one comes before them, or with them, and the database takes what it is given. What it does
        not take is not meant to last in the journal either, and whoever reads would not know of it.
        """
        journal = self._journal
        if journal is None or journal.problem or self._unplaced or not self._committer.is_able:
            return False
        if any(item.takes_places and not item.may_lag for item in submitted):
            return False
        items = [item for item in submitted if item.may_lag]
        try:
            if not items or not journal.put(
                [item.entry for item in items if item.entry is not None], self._next
            ):
                return False
        except JournalFailed as error:
            logger.error("records wait for the database from now on: %s", error)  # noqa: TRY400 - no bug of ours
            return False
        for index, item in enumerate(items, self._next):
            item.is_journaled, item.result = True, index
            item.job = item.committed = None  # it held, and whoever waits is told so
        self._next += len(items)
        if self._syncing is None:
            _acknowledge(items)
        else:
            self._syncing.add(items)
        return True

    def _synced(self, items: list[Item], problem: str, journal: Journal) -> None:
        if not problem and journal.is_in_place():
            _acknowledge(items)
            return
        logger.error("records wait for the database from now on: %s", problem or journal.problem)
        self._queue.wake()

    def _expire(self) -> None:
        self._timer, now = None, self._loop.time()
        while self._waiting:
            item = self._waiting[0]
            if not item.future.done():
                if item.expires > now:
                    self._timer = self._loop.call_at(item.expires, self._expire)
                    return
                if item.take():
                    item.future.set_exception(
                        AuditUnavailable(NOT_RECORDED, detail="not durable within the deadline")
                    )
            self._waiting.popleft()

    def _settle(
        self,
        batch: list[Item],
        first: int,
        failure: str,
        kind: type[AuditUnavailable] = AuditUnavailable,
    ) -> None:
        """Tell everybody in a batch, on the event loop; `failure` is why none of it happened."""
        index = first
        for item in batch:
            if failure:
                item.error = kind(NOT_RECORDED, detail=failure)
            elif item.error is None and item.committed is not None:
                item.committed(item.result)
            if item.is_stored:
                item.result = index
                index += 1
            self._unplaced -= item.takes_places and not item.is_journaled
            if item.future.done():
                continue
            if item.error is not None:
                item.future.set_exception(item.error)
            else:
                item.future.set_result(item.result)
        self.recorded = max(self.recorded, index)
        self._next = max(self._next, index)
        while self._waiting and self._waiting[0].future.done():
            self._waiting.popleft()

    def _tell(
        self,
        batch: list[Item],
        first: int,
        failure: str,
        kind: type[AuditUnavailable] = AuditUnavailable,
    ) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settle, batch, first, failure, kind)


def _acknowledge(items: Sequence[Item]) -> None:
    for item in items:
        if not item.future.done():
            item.future.set_result(item.result)


def _holds(item: Item) -> bool:
    """Say whether what `item` rests on holds now, and tell whoever waits for it if not."""
    if item.if_holds is None:
        return True
    try:
        item.if_holds()
    except Changed as changed:
        if not item.future.done():
            item.future.set_exception(changed)
        return False
    return True


def change_nothing(_: sqlite3.Connection) -> None:
    """Leave all to the batch that it is in, which counts itself, durably."""

"""The thread that writes: whatever is waiting goes into one transaction, then all are told."""

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from gateway.audit.record import Entry
from gateway.domain._value import value
from gateway.errors import AuditUnavailable, ConfigError
from gateway.storage.database import CommitUnknown, Database, Job, JobOutcome
from gateway.storage.journal import Journal

logger = logging.getLogger(__name__)

_LARGEST_BATCH: Final = 1024
_MANY: Final = 512
"""Records of the journal that wake the thread before it is told to."""
_AGAIN_S: Final = 0.5
"""After this time, records of the journal that the database did not take are tried again."""
ENDED: Final = "the writer has ended"
NOT_RECORDED: Final = "the audit log cannot record this now"


@value
class Signing:
    """When what was written is signed: whichever comes first."""

    every_s: float = 1.0
    """After the first record that no checkpoint covers."""
    records: int = 5_000


class NotAccepted(AuditUnavailable):
    """The log could take records, but not this one: its id is another one's."""


class Item(JobOutcome):
    """One thing to write, what came of it, and who waits for it."""

    __slots__ = (
        "_mine", "_turn", "committed", "entry", "expires", "future", "if_holds", "is_journaled", "job", "late", "may_lag", "signs", "takes_places",
    )  # fmt: skip

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
        may_lag: bool = False,
        if_holds: Callable[[], None] | None = None,
    ) -> None:
        self.future = future
        self.expires = expires
        self.entry = entry
        self.job = job
        self.committed = committed
        self.late = late
        self.signs = signs
        self.may_lag = may_lag
        """Whether to be in the journal is enough; only a record can be."""
        self.if_holds = if_holds
        """Raises why it is not written after all; asked where the journal is to take it, of memory."""
        self.result = None
        self.error = None
        self.takes_places = entry is not None or bool(late)
        """Whether the log is longer once it is written."""
        self.is_journaled = False
        uses_up = if_holds is not None and not may_lag
        self._turn = threading.Lock() if uses_up else None
        """Whoever takes it has the last word: the thread that writes, or who waits no longer."""
        self._mine = False

    def take(self) -> bool:
        """Take the last word on whether it is written; false if the other side has it."""
        return self._turn is None or self._turn.acquire(blocking=False)

    def write(self, connection: sqlite3.Connection) -> Any:
        """Do its job; a call's record is written only for whoever waits for it.

        Raises:
            AuditUnavailable: Nobody does any more.

        """
        if self.if_holds is not None and not self._mine:
            self._mine = not self.future.done() and self.take()
            if not self._mine:
                raise AuditUnavailable(NOT_RECORDED, detail="nobody waits for it any more")
        return None if self.job is None else self.job(connection)

    @property
    def is_stored(self) -> bool:
        """Whether the log has a record of it, once its batch is committed."""
        return self.entry is not None and self.error is None


class Tell(Protocol):
    """Has everybody in a batch told; `failure` is why none of it happened."""

    def __call__(
        self,
        batch: list[Item],
        first: int,
        failure: str,
        kind: type[AuditUnavailable] = AuditUnavailable,
    ) -> None: ...


class Queue:
    """What waits for the thread, and when it is to look."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._changed = threading.Condition()
        self._is_awaited = False
        """Whether anybody waits for what is in it."""
        self.closed = False
        """Whether what is put here is written no more."""
        self._ended = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, items: Iterable[Item], *, awaited: bool) -> bool:
        """Add what is to be written, and say whether there is a thread for it.

        What nobody awaits is left until there is much of it, somebody does, or `wake` is called.
        """
        with self._changed:
            if self._ended:
                return False
            self._items.extend(items)
            if awaited or len(self._items) >= _MANY:
                self._wake()
        return True

    def wake(self) -> None:
        """Have the thread write what is there."""
        with self._changed:
            self._wake()

    def close(self) -> None:
        """Have the thread end once everything is written."""
        with self._changed:
            self.closed = True
            self._wake()

    def end(self) -> list[Item]:
        """Take nothing more, and return what is left."""
        with self._changed:
            self.closed = self._ended = True
            left = list(self._items)
            self._items.clear()
        return left

    def next(self, until: float | None) -> list[Item] | None:
        """Return what waits, nothing once it is `until` (monotonic), or `None` at the end."""
        with self._changed:
            while not self._is_awaited:
                if self.closed:
                    break
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return []
                self._changed.wait(left)
            if not self._items:
                self._is_awaited = False
                return None if self.closed else []
            return self._batch()

    def _wake(self) -> None:
        self._is_awaited = True
        self._changed.notify()

    def _batch(self) -> list[Item]:
        if self._items[0].late:
            return [self._items.popleft()]
        batch: list[Item] = []
        while self._items and not self._items[0].late and len(batch) < _LARGEST_BATCH:
            batch.append(self._items.popleft())
        self._is_awaited = bool(self._items)
        return batch


class Committer:
    """Owns the database. All but `problem` and `is_able` belongs to the thread."""

    def __init__(
        self,
        database: Database,
        *,
        reopen: Callable[[], Database],
        queue: Queue,
        journal: Journal | None,
        signing: Signing,
        tell: Tell,
    ) -> None:
        """Write what comes into `queue`, and have `tell` called after each batch."""
        self._signing = signing
        self._unwritten = ""
        self._unsigned = ""
        self._database: Database | None = database
        self._reopen = reopen
        self._queue = queue
        self._journal = journal
        self._tell = tell
        self._owed: list[Item] = []
        """Those in the journal that the database did not take: they come before all others."""
        self._unsigned_since: float | None = None
        self._sign(database)

    @property
    def problem(self) -> str:
        """Why the last attempt to write, or else to sign, failed; empty if neither did."""
        return self._unwritten or self._unsigned

    @property
    def is_able(self) -> bool:
        """Whether the last attempt to write succeeded, and the next one has where to write."""
        database = self._database
        return not self._unwritten and database is not None and database.is_in_place()

    def work(self) -> None:
        """Write until the queue is closed."""
        try:
            while (batch := self._queue.next(self._until())) is not None:
                if batch or self._owed:
                    self._write(batch)
                if self._database is not None and self._signing_is_due():
                    self._sign(self._database)
            if self._owed:
                self._write([])
            if self._database is not None:
                self._sign(self._database)
        finally:
            self._end()

    def _end(self) -> None:
        """Refuse what still waits: whatever ended the thread, nothing hangs."""
        if left := self._queue.end():
            self._tell(left, 0, ENDED)
        if self._database is not None:
            self._database.close()

    def _until(self) -> float | None:
        if self._owed:
            return time.monotonic() + _AGAIN_S
        if self._unsigned_since is None:
            return None
        return self._unsigned_since + self._signing.every_s

    def _write(self, batch: list[Item]) -> None:
        try:
            first = self._commit(batch)
        except sqlite3.IntegrityError as error:
            self._write_apart(batch, str(error))  # one record's id is taken already
        except (sqlite3.Error, OSError, ConfigError) as error:
            self._fail(batch, str(error))
        except Exception as error:
            logger.exception("writing to the log met a bug")
            self._unwritten = repr(error)
            self._write_apart(batch, repr(error))
        except BaseException as error:  # it ends the thread, in `_end`
            self._unwritten = f"the writer has ended: {error!r}"
            self._tell(batch, 0, self._unwritten)
            raise
        else:
            self._unwritten = ""
            self._sign_for([item for item in batch if item.signs])
            self._tell(batch, first, "")

    def _write_apart(self, batch: list[Item], why: str) -> None:
        """Write each by itself: one of them cannot be written, and the others are innocent."""
        if len(batch) > 1:
            for item in batch:
                self._write([item])
        elif not batch or self._owed or batch[0].is_journaled:
            self._fail(batch, why)
        else:
            self._tell(batch, 0, f"the record was not accepted: {why}", NotAccepted)

    def _fail(self, batch: list[Item], why: str) -> None:
        self._unwritten = why
        self._owed += [item for item in batch if item.is_journaled]
        self._tell(batch, 0, why)

    def _sign_for(self, asked: Sequence[Item]) -> None:
        if not asked or self._database is None:
            return
        self._sign(self._database)
        for item in asked if self._unsigned else ():
            item.error = AuditUnavailable(NOT_RECORDED, detail=self._unsigned)

    def _commit(self, batch: list[Item]) -> int:
        if self._database is None:
            self._database = self._reopen()
        database = self._database
        expected_batch = database.batch + 1
        try:
            first = database.commit(
                [(item.entry, item) for item in batch if item.entry is not None],
                [(item.write, item) for item in batch if item.job is not None],
                late=self._late(batch),
            )
        except CommitUnknown:
            # Without a database there is nothing to sign, so nothing to wake up for.
            self._database, self._unsigned_since = None, None
            database.close()
            self._database = self._reopen()
            if self._database.batch != expected_batch:
                raise
            self._database.settle()
            first = self._database.tree.size - sum(item.is_stored for item in batch)
        self._owed.clear()
        if self._journal is not None:
            self._journal.taken(self._database.tree.size)
        if self._unsigned_since is None and self._database.tree.size > self._database.signed_size:
            self._unsigned_since = time.monotonic()
        return first

    def _late(self, batch: list[Item]) -> Sequence[Entry]:
        owed = [item.entry for item in self._owed if item.entry is not None]
        return (*owed, *batch[0].late) if batch else owed

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

"""The audit log that goes on in a spool while the database fails, and returns to it in order."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gateway.audit.record import Entry, RecordEncoder
from gateway.domain._value import value
from gateway.domain.audit import AuditRecord, LogEntry, RecordKind
from gateway.errors import AuditUnavailable, Changed
from gateway.ports import Clock
from gateway.storage.audit_log import (
    OF_CALLS,
    Terms,
    Waited,
    encoded,
    nobody,
    put_on,
    to_its_end,
)
from gateway.storage.spool import Spool, Spooled
from gateway.storage.writer import NotAccepted, Writer, change_nothing

T = TypeVar("T")
_Writes = Callable[[Entry], Awaitable[LogEntry]]

logger = logging.getLogger(__name__)

NOWHERE_YET = -1
"""The leaf index of a record that is durable in the spool, and has no place in the log yet."""

_PART = 1024
_AGAIN_S = 0.5
_MOST_NAMED = 20
_NOT_RECORDED = "the audit log cannot record this now"
_DONE = "done"


@value
class SpoolSettings:
    """Where records go that the database does not take."""

    path: Path
    capacity: int
    """In bytes, taken at the start."""


class SpoolingLog:
    """An `AuditLog` whose every record is durable in one of two places before `append` returns.

    What the database refuses or does not take in time goes to the spool, and so does everything
    after it, until the spool is in the log: in order, once each, followed by a `gap` record. A
    spool that is full, moved or failing refuses. What is no record is never spooled.
    """

    def __init__(
        self,
        writer: Writer,
        encoder: RecordEncoder,
        spool: Spool,
        *,
        deadline_s: float,
        clock: Clock,
        absorbed: str,
    ) -> None:
        """Use `spool`, of which the log has what `absorbed` says (see `absorbed_of`)."""
        self._writer = writer
        self._encoder = encoder
        self._spool = spool
        self._deadline_s = deadline_s
        self._clock = clock
        self._absorbed, self._done = taken_up(absorbed, spool.nonce)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="douane-spool")
        self._pending: list[tuple[Entry, Terms | None, asyncio.Future[str]]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._recovering: asyncio.Task[None] | None = None
        self._admitted = asyncio.Event()
        self._admitted.set()
        self._broken = ""
        self._closed = False
        self.waited: Waited = nobody
        self.why = ""
        """Why records are spooled, where they are."""
        self._diverted = False
        self.recovered = 0
        """How many records came back from the spool since the start."""

    async def begin(self, found: Spooled) -> int:
        """Bring into the log what an earlier process left in the spool, as far as possible now.

        Returns how many records that is about.
        """
        known = self._absorbed
        # Somebody may have come behind what was noted as the last: who noted it was not told.
        if self._done and all(number <= known for number, _ in found.entries):
            await self._empty()
            return 0
        if found.entries or found.damaged:
            logger.warning("bringing back what an earlier process left in the spool")
            self.why = "an earlier process ended before the spool was in the log"
            self._diverted = True
            try:
                await self._drain()
            except AuditUnavailable as error:
                self._divert(error.detail)
        return sum(number > known for number, _ in found.entries)

    async def append(self, record: AuditRecord) -> LogEntry:
        """Return only once `record` is durable, in the log or in the spool; see `AuditLog`.

        Raises:
            AuditUnavailable: It is in neither, or not known to be, within the deadline of each.
            ValueError: A field is not one of the contract's.

        """
        writes = partial(self._writer.append, may_lag=record.kind in OF_CALLS)
        return await to_its_end(self._timed(record, writes))

    async def put(self, record: AuditRecord, terms: Terms) -> LogEntry:
        """Return only once `record` is durable, which it is only on these `terms`.

        What uses something up is never spooled: whether anything was left, only the database knows. Nor is
        what owes something: a start has to find that before it answers anybody.

        Raises:
            Changed: They are not met, and the log has not got it.
            AuditUnavailable: As `append`; also where they are not met, and the log may have got it before.

        """
        return await self._timed(record, partial(put_on, self._writer, terms=terms), terms)

    async def _timed(
        self, record: AuditRecord, writes: _Writes, terms: Terms | None = None
    ) -> LogEntry:
        began = time.perf_counter()
        entry = await encoded(self._encoder, record)
        stays = "owes" in record.fields or (terms is not None and terms.uses_up)
        found, place = await self._append(entry, writes, terms, is_spooled=not stays)
        self.waited(place, time.perf_counter() - began)
        return found

    async def _append(
        self, entry: Entry, writes: _Writes, terms: Terms | None, *, is_spooled: bool
    ) -> tuple[LogEntry, str]:
        if not self._admitted.is_set():
            await self._admission()
        was_tried = not self._diverted
        if was_tried:
            try:
                return await writes(entry), "log"
            except NotAccepted:
                raise
            except AuditUnavailable as error:
                if self._closed:
                    raise
                self._divert(error.detail)
        if not is_spooled:
            raise AuditUnavailable(_NOT_RECORDED, detail=self.why)
        try:
            await self._keep(entry, terms)
        except Changed as changed:
            if not was_tried:
                raise
            # It may have come into the log: decided anew, the call would stand there twice.
            raise AuditUnavailable(
                _NOT_RECORDED, detail=f"{self.why}; meanwhile changed: {changed}"
            ) from changed
        return LogEntry(id=str(entry.columns[0]), leaf_index=NOWHERE_YET), "spool"

    async def close(self) -> None:
        """Stop; what is in the spool comes into the log at the next start."""
        self._closed = True
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.wait([self._recovering])
        if self._flushing is not None:
            await self._flushing
        await asyncio.to_thread(self._pool.shutdown)
        self._spool.close()

    @property
    def problem(self) -> str:
        """Why the spool could not take a record either; empty if it could."""
        return self._broken or self._spool.problem

    @property
    def spooling(self) -> bool:
        """Whether records are in the spool, or go there."""
        return self._recovering is not None

    @property
    def spooled(self) -> int:
        """How many records are in the spool and not in the log yet."""
        return self._spool.written - self._absorbed - 1 if self.spooling else 0

    @property
    def used(self) -> float:
        """How much of the spool is taken, from 0 to 1."""
        return self._spool.used / self._spool.capacity

    def _divert(self, why: str) -> None:
        """Have records go to the spool from now on, until it is in the log."""
        self._diverted = True
        if self._recovering is None:
            self.why = why
            logger.error("the audit log takes no records, they are spooled: %s", why)
            self._recovering = asyncio.create_task(self._recover())

    async def _admission(self) -> None:
        """Wait while the last part of the spool is on its way into the log."""
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._admitted.wait()
        except TimeoutError as error:
            why = "the spool is not back in the log within the deadline"
            raise AuditUnavailable(_NOT_RECORDED, detail=why) from error

    async def _keep(self, entry: Entry, terms: Terms | None) -> None:
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._admitted.wait()
                self._divert(self.why)  # the log may have taken records again meanwhile
                kept: asyncio.Future[str] = asyncio.get_running_loop().create_future()
                self._pending.append((entry, terms, kept))
                if self._flushing is None:
                    self._flushing = asyncio.create_task(self._flush())
                problem = await kept
        except TimeoutError:
            problem = "not durable in the spool within the deadline"
        if problem:
            raise AuditUnavailable(_NOT_RECORDED, detail=f"{self.why}; {problem}")

    async def _flush(self) -> None:
        """Write what waits, all of it with one wait for the disk, until nothing does."""
        while self._pending:
            waiting, self._pending = self._pending, []
            batch = [(entry, kept) for entry, terms, kept in waiting if _holds(terms, kept)]
            problem = self._broken
            if not problem and batch:
                try:
                    await self._with_spool(lambda: self._spool.append([one for one, _ in batch]))  # noqa: B023 - awaited here
                except OSError as error:
                    problem = str(error)
                except Exception as error:  # whoever waits is told, and nobody waits for ever
                    logger.exception("writing to the spool met a bug")
                    problem = repr(error)
            for _, kept in batch:
                if not kept.done():
                    kept.set_result(problem)
        self._flushing = None

    async def _recover(self) -> None:
        while self._diverted:
            await asyncio.sleep(_AGAIN_S)
            try:
                await self._drain()
            except AuditUnavailable as error:
                logger.debug("the spool waits: %s", error.detail)
            except Exception:
                logger.exception("bringing the spool back met a bug; it is tried again")
        self._recovering = None

    async def _drain(self) -> None:
        """Bring everything into the log, in order, and let it take records again.

        Raises:
            AuditUnavailable: It does not take them yet.

        """
        await self._writer.run(change_nothing)
        rest = await self._unread(self._absorbed)
        while len(rest.entries) > _PART:
            for start in range(0, len(rest.entries), _PART):
                part = rest.entries[start : start + _PART]
                await self._absorb([entry for _, entry in part], str(part[-1][0]))
                self._absorbed = part[-1][0]
            rest = await self._unread(self._absorbed)
        # Whoever comes now waits, for as long as the last part takes: nothing overtakes it.
        self._admitted.clear()
        try:
            if self._flushing is not None:
                await self._flushing
            await self._return(await self._unread(self._absorbed))
            self._diverted = False
        finally:
            self._admitted.set()

    async def _return(self, rest: Spooled) -> None:
        if self._broken or not (self._spool.written or rest.damaged):
            return  # nothing was kept: whoever tried was refused
        if rest.damaged:
            await self._set_aside()
        last = rest.entries[-1][0] if rest.entries else self._absorbed
        entries = [*(entry for _, entry in rest.entries), self._gap(rest)]
        await self._absorb(entries, f"{last} {_DONE}")
        await self._empty()
        logger.warning("the audit log takes records again; what was spooled is in it")

    async def _empty(self) -> None:
        self._absorbed, self._done = -1, False
        try:
            await self._with_spool(self._spool.empty)
        except OSError as error:
            # What came behind would be taken for what is in the log already.
            self._broken = f"the spool could not be emptied: {error}"
            logger.exception("the spool could not be emptied: it takes no records until a restart")

    async def _absorb(self, entries: Sequence[Entry], upto: str) -> None:
        job = partial(_note, text=f"{self._spool.nonce} {upto}")
        try:
            await self._writer.absorb(entries, job)
        except NotAccepted:
            if len(entries) == 1:
                await self._set_aside()
                logger.error("a spooled record has another one's id: %s", entries[0].columns[0])  # noqa: TRY400 - no bug of ours
                return
            for entry in entries[:-1]:
                await self._absorb([entry], str(self._absorbed))
            await self._absorb(entries[-1:], upto)
        else:
            self.recovered += len(entries)

    async def _set_aside(self) -> None:
        try:
            kept = await self._with_spool(self._spool.set_aside)
        except OSError as error:
            raise AuditUnavailable(_NOT_RECORDED, detail=f"the spool: {error}") from error
        logger.warning("not all of the spool can come into the log; a copy of it is %s", kept)

    async def _unread(self, number: int) -> Spooled:
        try:
            return await self._with_spool(lambda: self._spool.after(number))
        except OSError as error:
            raise AuditUnavailable(_NOT_RECORDED, detail=f"the spool: {error}") from error

    async def _with_spool(self, act: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, act)

    def _gap(self, rest: Spooled) -> Entry:
        count = self._spool.written
        message = f"{count} records before this one were kept in the spool: {self.why}"
        reasons = [{"code": "spooled", "message": message}]
        if rest.damaged:
            told = f"{rest.damaged} bytes of the spool are no whole record"
            reasons.append({"code": "spool_damaged", "message": told})
        now = self._clock()
        fields: dict[str, Any] = {
            "code": "spooled",
            "reasons": reasons,
            "evidence": {"records": count, "unreadable_bytes": rest.damaged},
        }
        name = f"{int(now * 1000):012x}{self._spool.nonce[:12]}{count & 0xFFFFFFFF:08x}"
        return self._encoder.encode(
            AuditRecord(kind=RecordKind.GAP, time=now, id=name, fields=fields)
        )


def _holds(terms: Terms | None, kept: asyncio.Future[str]) -> bool:
    """Say whether what a record rests on holds as it is written, and tell whoever waits for it if not."""
    if terms is None:
        return True
    if kept.done():
        return False  # whoever asked was told that it is not kept
    try:
        terms.require_in_memory()
    except Changed as changed:
        kept.set_exception(changed)
        return False
    return True


def taken_up(absorbed: str, nonce: str) -> tuple[int, bool]:
    """Return up to which number the spool named `nonce` is in the log, and if that was its end."""
    of, _, upto = absorbed.partition(" ")
    if of != nonce:
        return -1, False
    number, _, done = upto.partition(" ")
    return int(number), done == _DONE


def absorbed_of(connection: sqlite3.Connection) -> str:
    """Return how much of which spool is in the log, as it was noted with the last of it."""
    return _meta(connection, "spool")


def place_of(connection: sqlite3.Connection) -> str:
    """Return where the spool was when one was last used; empty if none was."""
    return _meta(connection, "spool_path")


def note_place(connection: sqlite3.Connection, *, place: str) -> None:
    """Keep where the spool is, so that it is not forgotten when it is configured no more."""
    _keep_meta(connection, "spool_path", place)


def _note(connection: sqlite3.Connection, *, text: str) -> None:
    _keep_meta(connection, "spool", text)


def _meta(connection: sqlite3.Connection, key: str) -> str:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return "" if row is None else str(row[0])


def _keep_meta(connection: sqlite3.Connection, key: str, text: str) -> None:
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, text),
    )

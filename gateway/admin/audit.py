"""What people read in the audit log, and how they prove that nobody changed it."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from gateway.admin.archive import Answers, Archive, unusable
from gateway.admin.journal import Journal
from gateway.admin.person import Person, Role, beside
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.audit.query import (
    Filter,
    Order,
    QueryError,
    Statement,
    compile_filter,
    cursor_of,
    time_us,
    told,
)
from gateway.audit.questions import LATE_S, of_decision
from gateway.errors import NotFound
from gateway.ports import Clock
from gateway.turns import in_thread

T = TypeVar("T")
OrderWord = Literal["newest", "oldest"]

_PAGE = 500
_COUNTED = 20_000
"""Records that are counted in one read, which takes less than a tenth of a second."""
_TAIL_INTERVAL_S = 0.5


class Statistics(Protocol):
    """What is in the log, counted."""

    @property
    def records(self) -> int: ...
    @property
    def first_time_us(self) -> int | None: ...
    @property
    def last_time_us(self) -> int | None: ...
    @property
    def signed(self) -> int: ...
    @property
    def kinds(self) -> dict[str, int]: ...
    @property
    def verdicts(self) -> dict[str, int]: ...
    @property
    def codes(self) -> dict[str, int]: ...
    @property
    def outcome_unknown(self) -> int: ...


class Proof(Protocol):
    @property
    def members(self) -> Row:
        """The inclusion proof as a JSON object."""
        ...


class AuditReader(Protocol):
    """Blocking reads of the log; used by one thread at a time."""

    def find(self, record_id: str) -> Row | None: ...
    def waits(self, record_id: str) -> bool: ...
    def lag_s(self) -> float: ...
    def after(self, leaf_index: int, limit: int) -> Rows: ...
    def newest(self) -> int: ...
    def first_since(self, time_us: int) -> int: ...
    def calls(self, first: int, end: int) -> dict[tuple[str, str], int]: ...
    def statistics(self) -> Statistics: ...
    def inclusion(self, record_id: str) -> Proof:
        """Prove that a record is in the signed log.

        Raises:
            LookupError: There is none, or it is not signed yet.

        """
        ...


ValueHashes = Callable[[Any], Sequence[str]]
"""The keyed hashes that may stand in records for a JSON value, or for bytes, newest key first."""


class AuditDesk:
    """Use cases over the log, for auditors and admins. Results are the contract's records."""

    def __init__(
        self,
        reader: AuditReader,
        archive: Archive,
        journal: Journal,
        *,
        hashes_of: ValueHashes,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._archive = archive
        self._journal = journal
        self._hashes_of = hashes_of
        self._clock = clock
        self._turn = asyncio.Lock()

    async def query(
        self,
        person: Person,
        *,
        server: str | None = None,
        tool: str | None = None,
        principal: str | None = None,
        verdict: str | None = None,
        code: str | None = None,
        run: str | None = None,
        since: str | None = None,
        until: str | None = None,
        where: str | None = None,
        order: OrderWord = "newest",
        after: str | None = None,
        limit: int = 100,
    ) -> Rows:
        """Return records, newest first if nothing else is said; that it was asked is on record.

        Raises:
            Forbidden: The person is neither auditor nor admin; so for all of these.
            BadCommand: A time, the expression or the cursor cannot be read, or the log is too
                large for what is asked.
            AuditUnavailable: It cannot be recorded that it was asked; so for all of these.

        """
        _need_auditor(person)
        asked = Filter(
            server=server,
            tool=tool,
            principal=principal,
            verdict=verdict,
            code=code,
            run=run,
            since=since,
            until=until,
            where=where,
            order=Order(order),
            after=after,
            limit=limit,
        )
        if after is not None:
            last = await self._read(lambda: self._reader.find(after))
            asked = asked if last is None else replace(asked, after=cursor_of(last, asked.order))
        self._statement(asked)  # what cannot be read is refused, and is no read
        what = told(asked, lambda text: self._hashes_of(text)[0])
        own = (await self._journal.read(person, "audit.query", what)).leaf_index
        return await self._query(replace(asked, before_leaf=own))

    async def of_run(self, run: str, most: int) -> Rows:
        """Return the newest `most` records of a run, oldest first; whoever asks says who may."""
        return (await self._query(Filter(run=run, limit=most)))[::-1]

    async def calls_since(self, since: str) -> Mapping[tuple[str, str], int]:
        """Count the calls of tools that were let through; whoever asks says who may.

        Raises:
            BadCommand: The time cannot be read.

        """
        try:
            begin = time_us(since, self._clock())
        except QueryError as error:
            raise unusable(error) from error
        first = await self._read(lambda: self._reader.first_since(begin))
        end = await self._read(self._reader.newest) + 1
        found: Counter[tuple[str, str]] = Counter()
        for start in range(first, end, _COUNTED):
            stop = min(start + _COUNTED, end)
            found.update(await self._read(partial(self._reader.calls, start, stop)))
        return found

    async def explain(self, person: Person, *, decision: str) -> Rows:
        """Return every record of a decision, oldest first.

        Raises:
            NotFound: There is none.

        """
        _need_auditor(person)
        await self._journal.read(person, "audit.explain", decision)

        def read(answers: Answers) -> Rows:
            marked = answers.records(answers.marked(decision, _PAGE))
            return of_decision(marked, decision)

        found, _ = await self._archive.asked(read)
        if not found:
            raise NotFound("no record of that decision; `douane audit query` finds decisions")
        return found[::-1]

    async def show(self, person: Person, *, record: str, proof: bool = False) -> Row:
        """Return the record of an id or a leaf index, with `proof` also the proof that it is in the signed log.

        Raises:
            NotFound: There is no such record, or no checkpoint vouches for it yet.

        """
        _need_auditor(person)
        await self._journal.read(person, "audit.show", record)
        found = await self._read(lambda: self._reader.find(record))
        if found is None and await self._read(lambda: self._reader.waits(record)):
            raise NotFound("that record has no place in the log yet; it will within a second")
        if found is None:
            raise NotFound("no record of that id or leaf; `douane audit query` finds records")
        if not proof:
            return found
        try:
            shown = await self._read(lambda: self._reader.inclusion(found["id"]))
        except LookupError as error:
            raise NotFound(str(error)) from error
        return {**found, "proof": shown.members}

    async def tail(
        self, person: Person, *, lines: int = 10, follow: bool = False
    ) -> AsyncGenerator[Row, None]:
        """Yield the newest records, oldest first, and with `follow` every new one, without end.

        That somebody looks is on record once, and is not among what they see.
        """
        _need_auditor(person)
        own = await self._journal.read(person, "audit.tail", f"{lines} lines, follow = {follow}")
        last = own.leaf_index - 1 - max(lines, 0)
        while True:
            page = await self._after(last)
            for record in page:
                last = record["leaf_index"]
                if record["id"] != own.id:
                    yield record
            if len(page) == _PAGE:
                continue
            if not follow:
                return
            await asyncio.sleep(_TAIL_INTERVAL_S)

    async def export(self, person: Person) -> AsyncGenerator[Row, None]:
        """Yield every record that is there when it begins, oldest first."""
        _need_auditor(person)
        end = (await self._journal.read(person, "audit.export", "every record")).leaf_index - 1
        last = -1
        while last < end:
            for record in await self._after(last):
                last = record["leaf_index"]
                if last > end:
                    return
                yield record

    async def stats(self, person: Person) -> Row:
        """Return the log's counts, by kind, verdict and code."""
        _need_auditor(person)
        await self._journal.read(person, "audit.stats", "counts")
        found = await self._read(self._reader.statistics)
        return {
            "records": found.records,
            "signed": found.signed,
            "first_time": _time(found.first_time_us),
            "last_time": _time(found.last_time_us),
            "outcome_unknown": found.outcome_unknown,
            "kinds": found.kinds,
            "verdicts": found.verdicts,
            "codes": found.codes,
        }

    async def lag(self, person: Person) -> Row:
        """Return for how long the oldest record waits that is in no answer yet, and whether that is too long."""
        _need_auditor(person)
        found = await self._read(self._reader.lag_s)
        return {"lag_s": round(found, 1), "late": found >= LATE_S}

    async def hash(self, person: Person, *, content: Any) -> Row:
        """Return the keyed hashes by which a value is found in records.

        `json` is that of the JSON value; `bytes`, of a text's UTF-8, is that of a body as it came.
        `former` are those of either under earlier keys: older records have them.
        """
        _need_auditor(person)
        json_, *former = await beside(person, self._hashes_of, content)
        await self._journal.read(person, "audit.hash", json_)
        bytes_ = None
        if isinstance(content, str):
            octets = content.encode(errors="surrogatepass")
            bytes_, *older = await beside(person, self._hashes_of, octets)
            former += older
        return {"json": json_, "bytes": bytes_, "former": former}

    async def _query(self, asked: Filter) -> Rows:
        return await self._archive.page(self._statement(asked))

    def _statement(self, asked: Filter) -> Statement:
        try:
            return compile_filter(asked, now=self._clock(), hashes_of=self._hashes_of)
        except QueryError as error:
            raise unusable(error) from error

    async def _after(self, leaf_index: int) -> Rows:
        return await self._read(lambda: self._reader.after(leaf_index, _PAGE))

    async def _read(self, read: Callable[[], T]) -> T:
        # In a thread, so that a long query does not hold up the calls; one at a time, because
        # there is one connection.
        return await in_thread(self._turn, read)


def _need_auditor(person: Person) -> None:
    person.need(Role.AUDITOR, Role.ADMIN)


def _time(time_us: int | None) -> str | None:
    return None if time_us is None else rfc3339(time_us / 1e6)

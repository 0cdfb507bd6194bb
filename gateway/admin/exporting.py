"""What people take out of the log, and how far those have come who get it as it grows."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Protocol, TypeVar

import orjson

from gateway.admin.archive import unusable
from gateway.admin.journal import Change, Journal
from gateway.admin.person import Person, Role
from gateway.admin.rows import Row, Rows
from gateway.audit.bundle import BundleWriter
from gateway.audit.checkpoint import VerifierKey
from gateway.audit.merkle import leaf_hash
from gateway.audit.query import Filter, HashesOf, QueryError, Statement, compile_filter
from gateway.domain.audit import RecordKind
from gateway.errors import BadCommand, NotFound
from gateway.ports import Clock
from gateway.ports.following import Refused
from gateway.turns import in_thread

T = TypeVar("T")

_WINDOW = 2_000
"""How many records one read looks at."""
_APART = 1_000
"""How many records there are at least between two checkpoints in an export."""


class BundleReader(Protocol):
    """Blocking reads of the log; used by one thread at a time."""

    @property
    def front(self) -> int: ...
    def head(self) -> tuple[int, str] | None: ...
    def heads(self, after: int, stop: int) -> Sequence[tuple[int, str]]: ...
    def witnessed(self, size: int) -> Mapping[int, str]: ...
    def selected(self, statement: Statement, part: range) -> Sequence[tuple[int, bytes]]: ...
    def root_of(self, part: range) -> bytes: ...
    def newest(self) -> int: ...
    def cursors(self) -> Sequence[tuple[str, int]]: ...


class Cursors(Protocol):
    async def forget(self, name: str) -> None:
        """Forget a follower.

        Raises:
            LookupError: There is none of that name.

        """
        ...


class Following(Protocol):
    """A follower that is at work."""

    @property
    def name(self) -> str: ...
    @property
    def done(self) -> int: ...
    @property
    def failing(self) -> str: ...
    @property
    def refused(self) -> Refused | None: ...
    async def skip(self, leaf_index: int) -> None:
        """Pass over the record that it stands at.

        Raises:
            LookupError: It stands at another one, or at none.

        """
        ...


class ExportDesk:
    """Use cases of whoever takes the record away, for auditors and admins."""

    def __init__(
        self,
        reader: BundleReader,
        cursors: Cursors,
        journal: Journal,
        *,
        key: VerifierKey,
        sign: Callable[[], Awaitable[None]],
        configured: Callable[[], Collection[str]],
        at_work: Callable[[], Sequence[Following]],
        hashes_of: HashesOf,
        clock: Clock,
    ) -> None:
        """Take the followers that the configuration names, and those that are at work now.

        `sign` returns once a checkpoint covers all that was recorded before.
        """
        self._reader = reader
        self._cursors = cursors
        self._journal = journal
        self._key = key
        self._sign = sign
        self._configured = configured
        self._at_work = at_work
        self._hashes_of = hashes_of
        self._clock = clock
        self._turn = asyncio.Lock()

    async def bundle(
        self,
        person: Person,
        *,
        since: str | None = None,
        until: str | None = None,
        where: str | None = None,
    ) -> AsyncGenerator[Row, None]:
        """Yield the lines of an export that proves itself, of all that is there when it begins.

        Raises:
            Forbidden: The person is neither auditor nor admin; so for all of these.
            BadCommand: A time or the expression cannot be read, or needs the index of words.
            AuditUnavailable: What is there could not be signed.
            NotFound: The log has no checkpoint: somebody took it out of the database.

        """
        person.need(Role.AUDITOR, Role.ADMIN)
        asked = {"since": since, "until": until, "where": where}
        selection = {name: text for name, text in asked.items() if text is not None}
        statement = self._statement(Filter(since=since, until=until, where=where))
        told = ", ".join(selection) or "every record"
        await self._journal.read(person, "audit.bundle", told)
        # The newest records wait up to a second for their checkpoint; who asks now wants them too.
        await self._sign()
        head = await self._read(self._reader.head)
        if head is None:
            raise NotFound("the log has no checkpoint any more; run `douane audit verify`")
        size, note = head
        writer = BundleWriter(
            key=self._key, size=size, root_of=self._reader.root_of, selection=selection
        )
        between = 0 if selection else size
        cosigned = await self._read(partial(self._reader.witnessed, size - 1))
        pages = _Pages(self._reader, writer, statement, between=between, cosigned=cosigned)
        yield orjson.loads(writer.begin())
        for start in range(await self._read(lambda: self._reader.front), size, _WINDOW):
            part = range(start, min(start + _WINDOW, size))
            for line in await self._read(partial(pages.of, part)):
                yield orjson.loads(line)
        for line in await self._read(lambda: list(writer.checkpoint(size, note))):
            yield orjson.loads(line)

    async def records(
        self,
        person: Person,
        *,
        since: str | None = None,
        until: str | None = None,
        where: str | None = None,
        header: bool = False,
    ) -> AsyncGenerator[Row, None]:
        """Yield records with their exact text, of all that are there when it begins.

        With `header`, first which log they are of, its size then, and what was asked for.

        Raises:
            Forbidden: The person is neither auditor nor admin; so for all of these.
            BadCommand: A time or the expression cannot be read, or needs the index of words.

        """
        person.need(Role.AUDITOR, Role.ADMIN)
        asked = {"since": since, "until": until, "where": where}
        selection = {name: text for name, text in asked.items() if text is not None}
        statement = self._statement(Filter(since=since, until=until, where=where))
        told = ", ".join(selection) or "every record"
        end = (await self._journal.read(person, "audit.records", told)).leaf_index
        if header:
            log = {"log_id": self._key.name, "key": str(self._key)}
            yield {**log, "size": end, "selection": selection}
        for start in range(await self._read(lambda: self._reader.front), end, _WINDOW):
            part = range(start, min(start + _WINDOW, end))
            for leaf_index, body in await self._read(
                partial(self._reader.selected, statement, part)
            ):
                leaf = leaf_hash(body).hex()
                yield {"leaf_index": leaf_index, "leaf_hash": leaf, "body": body.decode()}

    async def list(self, person: Person) -> Rows:
        """Return everybody who gets the record as it grows, and how far each has come."""
        person.need(Role.AUDITOR, Role.ADMIN)
        newest = await self._read(self._reader.newest)
        kept = dict(await self._read(self._reader.cursors))
        at_work = {one.name: one for one in self._at_work()}
        configured = self._configured()
        rows = []
        for name in sorted({*kept, *at_work, *configured}):
            follower = at_work.get(name)
            done = kept.get(name, -1) if follower is None else follower.done
            refused = None if follower is None else follower.refused
            state = "not running" if name in configured else "not configured"
            if follower is not None:
                state = "failing" if follower.failing else "ok"
            rows.append(
                {
                    "name": name,
                    "state": state,
                    "done": done,
                    "behind": max(newest - done, 0),
                    "error": "" if follower is None else follower.failing,
                    "refused": None if refused is None else refused.leaf_index,
                    "answer": "" if refused is None else refused.answer,
                }
            )
        return rows

    async def evidence(self, person: Person) -> Row:
        """Return how many records there are, how many the newest checkpoint covers, and that one.

        `cosigned` is how many of them the newest checkpoint covers that a witness has seen.
        """
        person.need(Role.AUDITOR, Role.ADMIN)
        head = await self._read(self._reader.head)
        size, note = head or (0, None)
        cosigned = await self._read(partial(self._reader.witnessed, size))
        return {
            "log_id": self._key.name,
            "records": await self._read(self._reader.newest) + 1,
            "signed": size,
            "cosigned": max(cosigned, default=None),
            "checkpoint": note,
        }

    async def forget(self, person: Person, *, name: str) -> Row:
        """Forget how far one has come that is no longer configured: it holds nothing back then.

        Raises:
            BadCommand: It is configured.
            NotFound: There is none of that name.

        """
        person.need(Role.ADMIN)
        if name in {*self._configured(), *(one.name for one in self._at_work())}:
            raise BadCommand(f"{name} is at work; take it out of the configuration first")
        if name not in dict(await self._read(self._reader.cursors)):
            raise NotFound("no such export; `douane audit exports` lists them")
        change = Change(
            kind=RecordKind.ADMIN,
            method="audit.exports.forget",
            code="forgotten",
            subject=name,
            fields={"target": name},
        )
        await self._journal.make(person, change, partial(self._cursors.forget, name))
        return {"name": name, "state": "forgotten"}

    async def skip(self, person: Person, *, name: str, leaf_index: int) -> Row:
        """Have an export pass over the one record that it stands at because that is refused.

        Raises:
            BadCommand: It stands at another record, or at none.
            NotFound: None of that name is at work.

        """
        person.need(Role.ADMIN)
        follower = next((one for one in self._at_work() if one.name == name), None)
        if follower is None:
            raise NotFound("no such export is at work; `douane audit exports` lists them")
        refused = follower.refused
        if refused is None or refused.leaf_index != leaf_index:
            raise _elsewhere(name, refused)
        change = Change(
            kind=RecordKind.ADMIN,
            method="audit.exports.skip",
            code="skipped",
            subject=f"{name} has not had record {leaf_index}",
            fields={"target": name, "evidence": {"leaf_index": leaf_index}},
            note=refused.answer,
        )

        async def act() -> None:
            try:
                await follower.skip(leaf_index)
            except LookupError as error:
                raise _elsewhere(name, follower.refused) from error

        await self._journal.make(person, change, act)
        return {"name": name, "state": "skipped", "leaf_index": leaf_index}

    def _statement(self, asked: Filter) -> Statement:
        try:
            statement = compile_filter(asked, now=self._clock(), hashes_of=self._hashes_of)
        except QueryError as error:
            raise unusable(error) from error
        if statement.words:
            raise BadCommand("an export selects by fields; search words by `douane audit query`")
        return statement

    async def _read(self, read: Callable[[], T]) -> T:
        # In a thread, so that it does not hold up the calls; one at a time, because there is one
        # connection.
        return await in_thread(self._turn, read)


def _elsewhere(name: str, refused: Refused | None) -> BadCommand:
    at = "at no record that is refused" if refused is None else f"at record {refused.leaf_index}"
    return BadCommand(f"{name} stands {at}; only that one can be passed over")


class _Pages:
    """The lines of one export, a window of the log at a time."""

    def __init__(
        self,
        reader: BundleReader,
        writer: BundleWriter,
        statement: Statement,
        *,
        between: int,
        cosigned: Mapping[int, str],
    ) -> None:
        """Write checkpoints between the records, if of fewer than `between`, and all `cosigned`."""
        self._reader = reader
        self._writer = writer
        self._statement = statement
        self._between = between
        self._cosigned = dict(cosigned)
        self._signed = 0

    def of(self, part: range) -> list[str]:
        """Return the lines of the records in `part`; it blocks."""
        return list(self._lines(part))

    def _lines(self, part: range) -> Iterator[str]:
        heads = self._heads(part)
        for leaf_index, body in self._reader.selected(self._statement, part):
            yield from self._before(leaf_index, heads)
            yield from self._writer.record(leaf_index, body)
        yield from self._before(part.stop, heads)

    def _before(self, leaf_index: int, heads: list[tuple[int, str]]) -> Iterator[str]:
        """Yield the checkpoints that belong before this record, and take them off."""
        while heads and heads[0][0] <= leaf_index:
            yield from self._writer.checkpoint(*heads.pop(0))

    def _heads(self, part: range) -> list[tuple[int, str]]:
        """Return checkpoints to stand between the records, in order: not too many."""
        # That of the front, too: its records are gone, and their tree's roots are here.
        sizes = [size for size in self._cosigned if part.start <= size <= part.stop]
        found = {size: self._cosigned.pop(size) for size in sizes}
        # Among a selection more would split what is left out, and make the export longer.
        for size, note in self._reader.heads(part.start, part.stop) if self._between else ():
            if size - self._signed >= _APART and size < self._between:
                found.setdefault(size, note)
                self._signed = size
        return sorted(found.items())

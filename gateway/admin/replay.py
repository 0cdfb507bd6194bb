"""What another policy would have decided, and why a past decision was made."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Protocol

from gateway.admin.archive import unusable
from gateway.admin.journal import Change, Journal
from gateway.admin.person import Person, Role
from gateway.admin.rows import Row, Rows
from gateway.audit.query import (
    Filter,
    HashesOf,
    Order,
    QueryError,
    Statement,
    compile_filter,
    time_us,
    told,
)
from gateway.domain.audit import RecordKind
from gateway.errors import BadCommand
from gateway.ports import Clock
from gateway.turns import Line

MOST_DECISIONS = 100_000
"""Of one replay, if nobody asks for fewer or more."""
_PAGE = 200
"""Records that are read and decided in one go, some tens of milliseconds in a thread."""
_REST = 1.0
"""How long a replay waits after each page, as a part of the time that the page took."""
_TOLD = ("id", "time", "decision_id", "principal", "client", "server", "target", "policy_digest")
_DECIDED = "(kind = intent or kind = outcome)"


class Comparison(Protocol):
    @property
    def members(self) -> dict[str, Any]:
        """`finding` (`same`, `changed`, `inexact`), `before`, `after`, `lacking`."""
        ...


class Trial(Protocol):
    """A policy that recorded decisions are put to; blocking, and used by one thread at a time."""

    @property
    def digest(self) -> str: ...
    def compare(self, record: Mapping[str, Any]) -> Comparison | None:
        """Put a record's decision to it; `None` where the record keeps no question."""
        ...


class Reader(Protocol):
    """Blocking reads of the log; used by one thread at a time."""

    def query(self, statement: Statement) -> Rows: ...
    def newest(self) -> int: ...
    def first_since(self, time_us: int) -> int: ...


Trials = Callable[[Mapping[str, str] | None], Trial]
"""Compiles a policy, given as texts by their paths, or the one in its configured place. Raises
`ConfigError` if it cannot be used."""

Explained = Callable[[Mapping[str, Any]], Row]
"""Puts a record's decision to the policy that made it once more; or only says where in its text the
record's reasons stand."""

AGAIN: Mapping[str, str] = {
    "same": "asked again, the policy that decided says the same",
    "changed": "asked again, the policy that decided says something else",
    "inexact": "the verdict stands as recorded; the record keeps hashes of some values, or nothing of them, so "
    "the policy that decided cannot be asked again which other rules held",
    "gone": "the text of the policy that decided is not kept any more",
    "no_question": "the record does not keep what policy was asked",
    "not_asked": "the policy that decided was not asked again",
}
"""What each `finding` of an explanation means."""

ExplainRecords = Callable[..., Awaitable[Rows]]


class ReplayDesk:
    """Use cases over recorded decisions, for auditors and admins. One replay at a time."""

    def __init__(
        self,
        reader: Reader,
        journal: Journal,
        *,
        trials: Trials,
        explained: Explained,
        placed: Explained,
        records_of: ExplainRecords,
        hashes_of: HashesOf,
        clock: Clock,
    ) -> None:
        """Take what compiles a policy, what explains a record, by asking and by reading, and who
        finds a decision's records.

        `hashes_of` gives what stands in the log for a value that is not written down.
        """
        self._reader = reader
        self._journal = journal
        self._trials = trials
        self._explained = explained
        self._placed = placed
        self._records_of = records_of
        self._hashes_of = hashes_of
        self._clock = clock
        self._turn = asyncio.Lock()
        self._line = Line()

    async def explain(self, person: Person, *, decision: str, again: bool = True) -> Rows:
        """Return every record of a decision, oldest first, and then `{"reevaluation": {...}}`.

        Without `again` the policy is not asked again, which takes seconds: `rules` are then those in
        whose text the reasons of the newest refusal stand, or of the newest record.

        Raises:
            Forbidden: The person is neither auditor nor admin.
            NotFound: There is no record of it.
            RateLimited: Too many explanations wait already.

        """
        person.need(Role.AUDITOR, Role.ADMIN)
        records = await self._records_of(person, decision=decision)
        if not again:
            told = await asyncio.to_thread(self._placed, _refusal(records))
            return [*records, {"reevaluation": told}]
        asked = [record for record in records if "question" in record] or records[-1:]
        told = await self._line.take(lambda: asyncio.to_thread(self._explained, asked[-1]))
        return [*records, {"reevaluation": told}]

    async def replay(
        self,
        person: Person,
        *,
        since: str = "7d",
        until: str | None = None,
        where: str | None = None,
        limit: int = MOST_DECISIONS,
        files: dict[str, str] | None = None,
    ) -> AsyncGenerator[Row, None]:
        """Yield what a policy would have said otherwise of the decisions since then, oldest first.

        `files` are the policy's, by their paths in its folder; without them it is the one in its
        configured place. Each row says its `finding`: `changed`, `inexact` (the answer may depend on
        what no record says), `progress`, and last `summary`. Calls go on meanwhile.

        Raises:
            Forbidden: The person is neither auditor nor admin.
            BadCommand: A time or the expression cannot be read, or another replay is under way.
            ConfigError: The policy cannot be used.

        """
        person.need(Role.AUDITOR, Role.ADMIN)
        window = self._window(since=since, until=until, where=where)
        if limit < 1:
            raise BadCommand("the limit is at least 1")
        if self._turn.locked():
            raise BadCommand("another replay is under way")
        asked = Filter(since=since, until=until, where=where, limit=limit, order=Order.OLDEST)
        which = told(asked, lambda text: self._hashes_of(text)[0])
        async with self._turn:
            trial = await self._journal.make(
                person,
                _change(which, configured=files is None),
                lambda: self._line.take(lambda: asyncio.to_thread(self._trials, files)),
            )
            async for row in self._replayed(trial, window, since, limit):
                yield row

    async def _replayed(
        self, trial: Trial, window: Callable[[int, int], Statement], since: str, limit: int
    ) -> AsyncGenerator[Row, None]:
        loop = asyncio.get_running_loop()
        first = await asyncio.to_thread(self._reader.first_since, time_us(since, self._clock()))
        end = await asyncio.to_thread(self._reader.newest) + 1
        summary = _Summary(trial.digest)
        for start in range(first, end, _PAGE):
            stop = min(start + _PAGE, end)
            began = loop.time()
            rows = await asyncio.to_thread(self._page, trial, window(start, stop), summary, limit)
            for row in rows:
                yield row
            if summary.decisions >= limit:
                summary.more = summary.more or stop < end
                break
            yield {"finding": "progress", "done": stop - first, "of": end - first}
            await asyncio.sleep((loop.time() - began) * _REST)
        yield summary.row

    def _page(self, trial: Trial, statement: Statement, summary: "_Summary", limit: int) -> Rows:
        """Put one page of records to the policy; return what is not as it was."""
        records = sorted(self._reader.query(statement), key=lambda record: record["leaf_index"])
        rows = []
        for record in records:
            if summary.decisions >= limit:
                summary.more = True
                break
            compared = trial.compare(record)
            if compared is None:
                summary.skip(record)
                continue
            found = compared.members
            summary.add(record, found)
            if found["finding"] != "same":
                rows.append({**{name: record.get(name) for name in _TOLD}, **found})
        return rows

    def _window(
        self, *, since: str, until: str | None, where: str | None
    ) -> Callable[[int, int], Statement]:
        """Return what makes the query for the records of a range of leaf indexes."""
        now = self._clock()
        # By itself first: what is no expression must not become one between our brackets.
        self._compiled(Filter(since=since, until=until, where=where), now)

        def statement(start: int, stop: int) -> Statement:
            terms = f"leaf_index >= {start} and leaf_index < {stop} and {_DECIDED}"
            if where is not None:
                terms = f"{terms} and ({where})"
            asked = Filter(since=since, until=until, where=terms, limit=_PAGE)
            return self._compiled(asked, now)

        return statement

    def _compiled(self, asked: Filter, now: float) -> Statement:
        try:
            statement = compile_filter(asked, now=now, hashes_of=self._hashes_of)
        except QueryError as error:
            raise unusable(error) from error
        if statement.words:
            raise BadCommand("a replay selects by fields; search words by `douane audit query`")
        return statement


class _Summary:
    """What a replay has found so far."""

    def __init__(self, digest: str) -> None:
        self._digest = digest
        self._findings: Counter[str] = Counter()
        self._changes: Counter[tuple[str, str, str, str, tuple[str, ...]]] = Counter()
        self._lacking: Counter[str] = Counter()
        self._unrecorded = 0
        self._first: str | None = None
        self._last: str | None = None
        self.more = False
        """Whether the limit left decisions out."""

    @property
    def decisions(self) -> int:
        return self._findings.total()

    def add(self, record: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        """Count one decision."""
        self._findings[found["finding"]] += 1
        self._lacking.update(found["lacking"])
        self._first = self._first or record["time"]
        self._last = record["time"]
        if found["finding"] == "changed":
            before, after = found["before"], found["after"]
            codes = before["reasons"] if after["verdict"] == "allow" else after["reasons"]
            self._changes[
                str(record.get("server")),
                str(record.get("target")),
                before["verdict"],
                after["verdict"],
                tuple(codes),
            ] += 1

    def skip(self, record: Mapping[str, Any]) -> None:
        """Count a decision of policy's whose question was never written down, or left out."""
        decided = record["kind"] == RecordKind.INTENT.value and "pin_digest" in record
        self._unrecorded += decided or "question" in record.get("truncated", ())

    @property
    def row(self) -> Row:
        return {
            "finding": "summary",
            "policy_digest": self._digest,
            "decisions": self.decisions,
            "same": self._findings["same"],
            "changed": self._findings["changed"],
            "inexact": self._findings["inexact"],
            "without_question": self._unrecorded,
            "changes": [
                {
                    "server": server,
                    "target": target,
                    "before": before,
                    "after": after,
                    "reasons": list(codes),
                    "count": count,
                }
                for (server, target, before, after, codes), count in self._changes.most_common()
            ],
            "lacking": dict(self._lacking.most_common()),
            "first": self._first,
            "last": self._last,
            "more": self.more,
        }


def _refusal(records: Rows) -> Row:
    """Return the newest record of a decision that says no, or that asks; else the newest."""
    said_no = [one for one in records if one.get("verdict") in {"deny", "ask"}]
    return (said_no or records)[-1]


def _change(which: str, *, configured: bool) -> Change:
    subject = f"{'the configured policy' if configured else 'a policy of theirs'}, {which}"
    return Change(
        kind=RecordKind.ADMIN, method="policy.replay", code="replayed", subject=subject, fields={}
    )

"""Ready-made questions about the log, answered from its index, each on record before it is."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from gateway.admin.archive import Answers, Archive, unusable
from gateway.admin.journal import Journal
from gateway.admin.person import Person, Role, beside
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.audit.query import (
    Filter,
    Order,
    QueryError,
    compile_filter,
    cursor_of,
    place_of,
    time_us,
)
from gateway.audit.questions import (
    QUESTIONS,
    Progress,
    finding,
    of_approval,
    of_decision,
    of_policy,
    sending,
)
from gateway.domain._value import value
from gateway.errors import BadCommand
from gateway.ports import Clock

Question = Literal[
    "sent-outside",
    "who-called",
    "denied",
    "denied-by-rule",
    "flows",
    "top",
    "undeclared",
    "where-went",
    "timeline",
]
Subject = Literal["principal", "client", "tool"]

_MOST = 1000
_MOST_SENDINGS = 100
"""Each takes several reads."""
_AFTER_ALL = (1 << 62, 1 << 62)
_HOUR_US = 3_600_000_000
_SINCE = "7d"


@value
class Asked:
    """What a question is about; `None` where it says nothing."""

    server: str | None = None
    tool: str | None = None
    principal: str | None = None
    source: str | None = None
    subject: Subject = "principal"
    allowed: bool | None = None
    since: str = _SINCE
    limit: int = 20
    after: str | None = None
    hashes: tuple[str, ...] = ()


@value
class Answer:
    rows: Rows
    progress: Progress
    whole_hours: bool = False
    """Whether it counts from the beginning of an hour on."""
    next: str | None = None
    """The cursor of the next page, if there may be one."""


class AskDesk:
    def __init__(
        self,
        archive: Archive,
        journal: Journal,
        *,
        hashes_of: Callable[[Any], Sequence[str]],
        clock: Clock,
    ) -> None:
        self.archive = archive
        self._journal = journal
        self._hashes_of = hashes_of
        self._clock = clock

    async def questions(self, person: Person) -> Rows:
        """Return every question with what it asks.

        Raises:
            Forbidden: The person is neither auditor nor admin; so for `ask`.

        """
        _need_auditor(person)
        return [{"question": name, "asks": text} for name, text in QUESTIONS.items()]

    async def ask(
        self,
        person: Person,
        *,
        question: Question,
        server: str | None = None,
        tool: str | None = None,
        principal: str | None = None,
        source: str | None = None,
        subject: Subject = "principal",
        allowed: bool | None = None,
        content: Any = None,
        since: str = _SINCE,
        limit: int = 20,
        after: str | None = None,
    ) -> Row:
        """Answer a question, and say up to which record the answer goes.

        `source` is the server whose data it is, `content` the value that is looked for.

        Raises:
            BadCommand: The question needs something that is not said, or the log is too large.
            AuditUnavailable: It cannot be recorded that it was asked, or there is no index.

        """
        _need_auditor(person)
        asked = Asked(
            server=server,
            tool=tool,
            principal=principal,
            source=source,
            subject=subject,
            allowed=allowed,
            since=since,
            limit=min(max(limit, 1), _MOST),
            after=after,
            hashes=await beside(person, self._hashes, content) if question == "where-went" else (),
        )
        _need_all(question, asked)
        try:
            since_us = time_us(since, self._clock())
            before = _AFTER_ALL if after is None else place_of(after, Order.NEWEST)
        except QueryError as error:
            raise unusable(error) from error
        await self._journal.read(person, "audit.ask", _told(question, asked))
        answer = await self._answer(question, asked, since_us, before)
        if answer.whole_hours:
            since_us -= since_us % _HOUR_US
        return {
            "question": question,
            "since": rfc3339(since_us / 1e6),
            "through": answer.progress.through,
            "complete": answer.progress.complete,
            **({"lag_s": round(answer.progress.lag_s, 1)} if answer.progress.late else {}),
            "next": answer.next,
            "rows": answer.rows,
        }

    async def _answer(
        self, question: Question, asked: Asked, since_us: int, before: tuple[int, int]
    ) -> Answer:
        match question:
            case "denied":
                return await self._paged(partial(_refused, asked, since_us, before), asked)
            case "timeline":
                return await self._paged(partial(_timeline, asked, self._clock()), asked)
            case "sent-outside":
                return await self._paged(partial(sent, asked, since_us, before), asked)
            case "where-went":
                rows, progress = await self.archive.asked(partial(found, asked))
                return Answer(rows=rows, progress=progress)
            case _:
                counted = partial(_counted, question, asked, since_us, int(self._clock() * 1e6))
                rows, progress = await self.archive.asked(counted)
                return Answer(rows=rows, progress=progress, whole_hours=True)

    async def _paged(self, read: Callable[[Answers], Rows], asked: Asked) -> Answer:
        rows, progress = await self.archive.asked(read)
        more = len(rows) == asked.limit
        return Answer(
            rows=rows, progress=progress, next=cursor_of(rows[-1], Order.NEWEST) if more else None
        )

    def _hashes(self, content: Any) -> tuple[str, ...]:
        found = list(self._hashes_of(content))
        if isinstance(content, str):
            found += self._hashes_of(content.encode(errors="surrogatepass"))
        return tuple(found)


_NEEDS: dict[str, tuple[str, ...]] = {
    "sent-outside": ("source",),
    "who-called": ("server", "tool"),
    "flows": ("source",),
    "timeline": ("principal",),
}


def _need_auditor(person: Person) -> None:
    person.need(Role.AUDITOR, Role.ADMIN)


def _need_all(question: str, asked: Asked) -> None:
    for name in _NEEDS.get(question, ()):
        if getattr(asked, name) is None:
            raise BadCommand(f"{question} needs {name}")


def _told(question: str, asked: Asked) -> str:
    """Return what was asked, for the log: names as they are, a value as its hash."""
    about = [
        f"{name} = {told}"
        for name in ("server", "tool", "principal", "source", "subject", "allowed", "since")
        if (told := getattr(asked, name)) is not None
    ]
    return ", ".join([question, *about, *asked.hashes[:1]])


def _counted(question: str, asked: Asked, since_us: int, now_us: int, answers: Answers) -> Rows:
    match question:
        case "who-called":
            called = str(asked.server), str(asked.tool)
            rows = answers.who_called(*called, since_us, asked.limit)
        case "top":
            rows = answers.top(asked.subject, since_us, asked.limit)
        case "undeclared":
            rows = answers.undeclared(since_us, asked.limit)
        case "flows":
            rows = answers.flows(str(asked.source), asked.server, since_us, asked.limit)
        case _:
            rows = answers.refusals(since_us, asked.limit, now_us)
    return [_timed(row) for row in rows]


def _refused(asked: Asked, since_us: int, before: tuple[int, int], answers: Answers) -> Rows:
    return answers.refused(since_us, before, asked.limit)


def _timeline(asked: Asked, now: float, answers: Answers) -> Rows:
    statement = compile_filter(
        Filter(principal=asked.principal, since=asked.since, after=asked.after, limit=asked.limit),
        now=now,
    )
    return answers.page(statement)


def found(asked: Asked, answers: Answers) -> Rows:
    """Return where one of the hashes stands, newest record first."""
    leaves = {leaf for one in asked.hashes for leaf in answers.marked(one, asked.limit)}
    newest = sorted(leaves, reverse=True)[: asked.limit]
    told = (finding(record, asked.hashes) for record in answers.records(newest))
    return [row for row in told if row is not None]


def sent(asked: Asked, since_us: int, before: tuple[int, int], answers: Answers) -> Rows:
    """Return the calls that sent data of the source outside, or were to, with who approved them."""
    source = str(asked.source)
    limit = min(asked.limit, _MOST_SENDINGS)
    signed = answers.signed()
    told: Rows = []
    for record in answers.outside(source, since_us, before, asked.allowed, limit):
        same = of_decision(_marked(answers, record.get("decision_id")), record["decision_id"])
        question = next((r["approval_id"] for r in (*same, record) if r.get("approval_id")), None)
        digest = record.get("policy_digest")
        told.append(
            sending(
                record,
                source=source,
                same=same,
                approvals=of_approval(_marked(answers, question), str(question)),
                policies=of_policy(_marked(answers, digest), str(digest)),
                signed=signed,
            )
        )
    return told


def _marked(answers: Answers, text: str | None) -> Rows:
    return [] if text is None else answers.records(answers.marked(text, _MOST))


def _timed(row: Row) -> Row:
    return {
        **{name: content for name, content in row.items() if name != "last_us"},
        "last": rfc3339(row["last_us"] / 1e6),
    }

"""What people do with runs: look at them, read their story, end them, and vouch for what they saw."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, Protocol

from gateway.admin.journal import Change, Journal
from gateway.admin.person import EVERY_ROLE, How, Person, Role
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.admin.whose import registered
from gateway.domain.audit import RecordKind
from gateway.domain.flow import FlowReview, Run, RunId, RunState
from gateway.domain.labels import Confidentiality, Effect, Integrity, Label
from gateway.errors import BadCommand, Denied, Forbidden, NotFound, PolicyUnavailable
from gateway.flow.evidence import why_untrusted
from gateway.flow.picture import picture
from gateway.flow.question import flow_input
from gateway.flow.story import Story, rows, tell
from gateway.ports import Clock
from gateway.ports.identity import ClientStore

MOST_STEPS = 1000
_MOST_RECORDS = 3 * MOST_STEPS
"""A call has two records, and a third where its server asks for something."""
_READERS = (Role.APPROVER, Role.ADMIN, Role.AUDITOR)
_VOUCHERS = (Role.APPROVER, Role.ADMIN)

IntegrityWord = Literal["trusted", "untrusted"]
ConfidentialityWord = Literal["public", "internal", "private", "secret"]


class RunKeeper(Protocol):
    """Runs as they are in memory, and what a person may change about them."""

    def all(self) -> Sequence[RunState]:
        """Return every run, oldest first."""
        ...

    def find(self, run: RunId) -> RunState | None: ...
    def acts_for(self, run: RunId, people: Collection[str]) -> bool:
        """Whether the run is one of calls for any of `people`, given as `ISSUER|SUBJECT`.

        True also where nobody knows.
        """
        ...

    async def end(self, run: RunId) -> Run | None: ...
    async def look_at(self, run: RunId) -> str:
        """Return by what a person's look at a live run is known; empty, where there is none.

        Whatever is read from memory after that is of this look, or newer.
        """
        ...

    async def lower_label(self, run: RunId, seen: Label, label: Label, *, look: str) -> Run | None:
        """Give the run `label` in place of `seen`, durably, on a person's word.

        `None`, and nothing changes, if its label is no longer `seen`, or if anything has come into
        it since that `look`, also what it has read before: what was read meanwhile is not what the
        person spoke for. The client's whole run keeps its own, and what a plane owes stays owed.
        """
        ...


RunRecords = Callable[[str, int], Awaitable[Rows]]
"""Returns the newest so many audit records of a run, oldest first."""


class SelfApproval(Protocol):
    """What policy says of people who answer for themselves."""

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        """Return only with True if policy says so."""
        ...


class RunDesk:
    def __init__(
        self,
        runs: RunKeeper,
        records: RunRecords,
        journal: Journal,
        *,
        clients: ClientStore,
        policy: SelfApproval,
        issuer: str,
        clock: Clock,
    ) -> None:
        """Take our own `issuer`: the one of people who sign in here."""
        self._runs = runs
        self._records = records
        self._journal = journal
        self._clients = clients
        self._policy = policy
        self._issuer = issuer
        self._clock = clock

    async def list(self, person: Person, *, live: bool = False, limit: int = 100) -> Rows:
        """Return one row a run, newest first; with `live` those that calls can still be in."""
        person.need(*EVERY_ROLE)
        found = (state for state in reversed(self._runs.all()) if state.live or not live)
        return [_row(state) for state in islice(found, max(limit, 0))]

    async def show(self, person: Person, *, run: str) -> Row:
        """Return a run with the results that its label comes from, and its steps in their order.

        `because` says why it is untrusted, and `principals` whose calls these are. `left_out` says that there were more steps before these.
        `look` names this look at it, for `relabel`; it is empty where the run has ended.

        Raises:
            Forbidden: The person is neither approver, admin nor auditor; so for `picture`.
            NotFound: There is no such run; so for all of these.

        """
        person.need(*_READERS)
        look = await self._runs.look_at(RunId(run))  # before all that is shown of it
        await self._journal.read(person, "runs.show", run)
        state, story = await self._told(run)
        head: Row = {"run": run, "live": False} if state is None else _row(state)
        sources = () if state is None else state.run.sources
        return {
            **head,
            "look": look,
            "because": [] if state is None else list(why_untrusted(state.run.label, sources)),
            "sources": [
                {
                    "server": source.server,
                    "tool": source.tool,
                    "record": source.record,
                    **source.label.words,
                }
                for source in sources
            ],
            "principals": list(story.principals),
            "left_out": story.left_out,
            "steps": rows(story),
        }

    async def picture(self, person: Person, *, run: str) -> Row:
        """Return a run's story as an SVG picture."""
        person.need(*_READERS)
        await self._journal.read(person, "runs.picture", run)
        state, story = await self._told(run)
        sources = () if state is None else state.run.sources
        words = {(source.server, source.tool): source.label.words for source in sources}
        return {"run": run, "svg": picture(story, words)}

    async def end(self, person: Person, *, run: str, note: str = "") -> Row:
        """End a run: its next call begins another one, which has seen nothing.

        Raises:
            Forbidden: The person is neither approver nor admin, or the run is one of their own
                calls and policy wants somebody else's word; so for `relabel`.
            Denied: It has ended already.

        """
        person.need(*_VOUCHERS)
        state = self._found(run)
        await self._require_not_their_own(person, state.run, "runs.end")

        async def end() -> None:
            if await self._runs.end(state.run.id) is None:
                raise Denied("the run has ended already")

        fields = {"run": run, "label_before": state.run.label.words}
        await self._journal.make(person, _change("runs.end", "ended", run, fields, note), end)
        return {"run": run, "ended": True}

    async def relabel(
        self,
        person: Person,
        *,
        run: str,
        seen_integrity: IntegrityWord,
        seen_confidentiality: ConfidentialityWord,
        integrity: IntegrityWord,
        confidentiality: ConfidentialityWord,
        look: str,
        note: str,
    ) -> Row:
        """Vouch that what a run has seen is as good as this label says, in place of the one seen.

        `look` is what `show` gave: the person speaks for what the run had read by then.

        Raises:
            BadCommand: The label is no lower, or there is no note that says why.
            Denied: The run's label is not the one that the person saw, or something has come into
                the run since.

        """
        person.need(*_VOUCHERS)
        state = self._found(run)
        await self._require_not_their_own(person, state.run, "runs.relabel")
        seen = _label(seen_integrity, seen_confidentiality)
        label = _label(integrity, confidentiality)
        if label == seen or label.join(seen) != seen:
            raise BadCommand("a person can only lower a label: more trusted, or less confidential")
        if not note.strip():
            raise BadCommand("say why with a note")

        async def lower() -> None:
            if await self._runs.lower_label(state.run.id, seen, label, look=look) is None:
                raise Denied(
                    "the run has ended, or has read something since you looked at it, or the gateway"
                    " was started since; look again"
                )

        fields = {"run": run, "label_before": seen.words, "label_after": label.words}
        change = _change("runs.relabel", "relabelled", run, fields, note)
        await self._journal.make(person, change, lower)
        return {"run": run, **label.words}

    async def _require_not_their_own(self, person: Person, run: Run, method: str) -> None:
        """Return if the person may speak for `run`: what led their agent may have led them.

        An operating system's user for whom no person stands makes no calls, and has no runs.

        Raises:
            Forbidden: It is of their own calls, of a client that they registered, or of nobody knows
                whose, and policy does not say that people answer for themselves.

        """
        if person.how is How.TOKEN and not person.user_id:
            raise Forbidden("only a person can vouch; sign in as one", detail=person.name)
        kind, _, name = person.name.partition(":")
        if kind != "user" or not self._runs.acts_for(run.id, self._of_theirs(person, name)):
            return
        try:
            asked = self_approval_question(run, name, method, now=self._clock())
            allowed = await self._policy.self_approval(asked)
        except PolicyUnavailable:
            allowed = False
        if not allowed:
            raise Forbidden(
                "this is a run of your own calls, or of a client that you registered, or nobody knows"
                " whose yet: policy wants somebody else's word",
                detail=person.name,
            )

    def _of_theirs(self, person: Person, name: str) -> Collection[str]:
        """Return the person, ours or another issuer's, and each client that they registered."""
        known = self._clients
        clients = [one.id for one in known.all() if registered(person, one.id, known)]
        return {name, *(f"{self._issuer}|{subject}" for subject in (name, *clients))}

    async def _told(self, run: str) -> tuple[RunState | None, Story]:
        state = self._runs.find(RunId(run))
        records = await self._records(run, _MOST_RECORDS)
        if state is None and not records:
            raise _missing()
        story = tell(run, records, most=MOST_STEPS, cut=len(records) == _MOST_RECORDS)
        return state, story

    def _found(self, run: str) -> RunState:
        state = self._runs.find(RunId(run))
        if state is None:
            raise _missing()
        return state


def self_approval_question(run: Run, name: str, method: str, *, now: float) -> Mapping[str, Any]:
    """Return what policy is asked about a person's word for a run of their own.

    In the words of a call, whose effect is the worst: whatever such a call is refused for, ends here.
    """
    return {
        "version": 1,
        "phase": "call",
        "method": method,
        "principal": {
            "sub": name,
            "iss": "",
            "groups": [],
            "scopes": [],
            "client": {"id": "", "name": ""},
        },
        "target": {
            "server": "",
            "kind": "tool",
            "name": method,
            "effect": Effect.DESTROY.value,
            "annotations": {},
            "pin": {"digest": "", "status": "", "approved_by": ""},
        },
        "arguments": {},
        "flow": flow_input(FlowReview(label=run.label, sources=run.sources)),
        "task": {"prompt": None, "tools": None},
        "approval": None,
        "context": {"time": rfc3339(now), "ip": "", "revision": "", "endpoint": ""},
        "result": None,
    }


def _row(state: RunState) -> Row:
    run = state.run
    return {
        "run": run.id,
        **run.label.words,
        "sources": len(run.sources),
        "part_of": run.part_of,
        "task": run.task is not None,
        "live": state.live,
        "idle_s": round(state.idle_s),
    }


def _label(integrity: str, confidentiality: str) -> Label:
    return Label(
        integrity=Integrity[integrity.upper()],
        confidentiality=Confidentiality[confidentiality.upper()],
    )


def _change(method: str, code: str, run: str, fields: Row, note: str) -> Change:
    return Change(
        kind=RecordKind.RUN, method=method, code=code, subject=run, fields=fields, note=note
    )


def _missing() -> NotFound:
    return NotFound("no such run; `douane runs list` lists them")

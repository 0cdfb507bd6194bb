"""Questions to people and their answers in a database, read from memory; what they say is sealed."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from gateway.domain.approvals import (
    Approval,
    ApprovalId,
    ApprovalRequest,
    ApprovalRules,
    ApprovalState,
    Span,
)
from gateway.domain.decisions import Reason
from gateway.domain.document import Digest, canonical
from gateway.domain.flow import RunId
from gateway.domain.labels import Confidentiality, Effect, Integrity, Label
from gateway.domain.tools import Kind, Target, UpstreamId
from gateway.ports.secrets import Sealer
from gateway.storage.identity.remembered import insert_into
from gateway.storage.questions import (
    HOUR_S,
    Book,
    answered,
    asked_again,
    at,
    over,
    require_room,
    used,
    waits,
    withdrawn,
)
from gateway.storage.state import StateWriter, Tables

_BECAME = (
    *("state", "span", "answered_by", "answered_by_id", "answered_at", "note", "asked"),
    "expires_at",
)
_COLUMNS = ("id", "fingerprint", "principal", "asked_at", "question", *_BECAME)
_ALL = f"SELECT {', '.join(_COLUMNS)} FROM approvals"  # noqa: S608 - fixed text
_OLDEST_FIRST = f"{_ALL} ORDER BY asked_at, id"
_STORE = insert_into("approvals", _COLUMNS)
_CHANGE = f"UPDATE approvals SET {', '.join(f'{one} = ?' for one in _BECAME)} WHERE id = ?"  # noqa: S608
_FORGET = "DELETE FROM approvals WHERE id = ?"

_OF_PLANES = ("submission", "submitted")

Used = tuple[Sequence[Approval], Sequence[ApprovalId]]
"""What was written, and what was forgotten."""


class DurableApprovalStore:
    """An `ApprovalStore`. Memory holds what is committed, and nothing else."""

    kept_in = ("approvals",)

    def __init__(
        self,
        writer: StateWriter,
        tables: Tables,
        sealer: Sealer,
        rules: Callable[[], ApprovalRules],
    ) -> None:
        """Load every question through `tables`, which are not needed afterwards.

        `rules` gives those in force.

        Raises:
            Unsealable: What a question says was sealed by another key.

        """
        self._writer = writer
        self._sealer = sealer
        self._rules = rules
        self._book = Book()
        self.look(tables, None)()

    def look(self, tables: Tables, keys: Collection[str] | None) -> Callable[[], object]:
        """Show questions that others have filed, answered or forgotten; see `Remembering`."""
        if keys is None:
            return partial(self._only, [*map(self._approval, tables.execute(_OLDEST_FIRST))])
        found = [self._read(tables, "id = ?", (key,)) for key in sorted(keys)]
        there = [one for one in found if one is not None]
        gone = [ApprovalId(key) for key in {*keys} - {one.request.id for one in there}]
        return partial(self.remember, (there, gone))

    def find(self, fingerprint: Digest, scope: Digest, *, now: float) -> Approval | None:
        return self._book.find(fingerprint, scope, now)

    def get(self, id_: ApprovalId, *, now: float) -> Approval | None:
        found = self._book.get(id_)
        return None if found is None else at(found, now)

    def all(self, *, now: float) -> Sequence[Approval]:
        return self._book.all(now)

    def counts(self, *, now: float) -> Mapping[ApprovalState, int]:
        return self._book.counts(now)

    def earlier(self, request: ApprovalRequest) -> Approval | None:
        return self._book.earlier(request)

    def yeses(self, principal: str | None = None) -> Sequence[Approval]:
        return self._book.yeses(principal)

    def under(self, digest: Digest, *, now: float) -> Sequence[Approval]:
        return self._book.under(digest, now)

    async def file(self, request: ApprovalRequest) -> Approval:
        """File a question, or count it, durable on return; see `ApprovalStore`.

        What was kept for long enough is forgotten on the way.
        """
        rules = self._rules()
        known = self._book.waiting(request.fingerprint, request.asked_at)
        # What has ended stays so: it may be chosen before the transaction.
        gone = () if known is not None else self._book.outlived(request, rules.keep_s)
        sealed = self._sealer.seal(_spelled(request), _row(request.id))
        # Whose principals are whose is sealed in the table; memory knows.
        theirs = {one.request.principal for one in self._book.of(request.person)}
        theirs.add(request.principal)

        def job(tables: Tables) -> Used:
            same = self._read(
                tables,
                "fingerprint = ? AND state = 'waiting' AND expires_at > ?",
                (str(request.fingerprint), request.asked_at),
            )
            if same is not None:
                return [_change(tables, asked_again(same))], ()
            tables.executemany(_FORGET, [(id_,) for id_ in gone])
            _require_room(tables, theirs, request.asked_at, rules)
            return [_insert(tables, waits(request), sealed)], gone

        return (await self._writer.run(job, committed=self.remember))[0][0]

    async def answer(
        self,
        id_: ApprovalId,
        *,
        allow: bool,
        span: Span,
        by: str,
        by_user_id: str,
        note: str,
        now: float,
    ) -> Approval:
        """Answer a waiting question, once, durable on return; see `ApprovalStore`."""
        rules = self._rules()

        def job(tables: Tables) -> Used:
            after = answered(
                self._read(tables, "id = ?", (id_,)),
                rules,
                allow=allow,
                span=span,
                by=by,
                by_user_id=by_user_id,
                note=note,
                now=now,
            )
            return [_change(tables, after)], ()

        return (await self._writer.run(job, committed=self.remember))[0][0]

    async def withdraw(self, id_: ApprovalId, *, now: float) -> Approval:
        """Have a waiting question answered by nobody, durable on return; see `ApprovalStore`."""

        def job(tables: Tables) -> Used:
            after = withdrawn(self._read(tables, "id = ?", (id_,)), now)
            return [_change(tables, after)], ()

        return (await self._writer.run(job, committed=self.remember))[0][0]

    async def end(self, id_: ApprovalId, *, now: float) -> Approval:
        """Have a question wait, or its yes count, no more, durable on return; see `ApprovalStore`."""

        def job(tables: Tables) -> Used:
            after = over(self._read(tables, "id = ?", (id_,)), now)
            return [_change(tables, after)], ()

        return (await self._writer.run(job, committed=self.remember))[0][0]

    async def use(self, id_: ApprovalId, *, now: float) -> bool:
        """Use up a yes for one call, durable on return; see `ApprovalStore`."""
        known = used(self._book.get(id_), now)
        if known is None or known.span is Span.RUN:
            return known is not None
        job = partial(self.use_in, id_=id_, now=now)
        return bool((await self._writer.run(job, committed=self.remember))[0])

    def use_in(self, tables: Tables, id_: ApprovalId, *, now: float) -> Used:
        """Use up a yes within a transaction; what comes back is empty if there is none."""
        # What memory shows may be used already by a call whose commit is under way.
        after = used(self._read(tables, "id = ?", (id_,)), now)
        return ([] if after is None else [_change(tables, after)]), ()

    def remember(self, changed: Used) -> None:
        """Take in what was committed."""
        approvals, gone = changed
        self._book.forget(gone)
        for approval in approvals:
            self._book.keep(approval)

    def _only(self, approvals: Iterable[Approval]) -> None:
        self._book = Book(approvals)

    def _read(self, tables: Tables, where: str, values: Iterable[Any]) -> Approval | None:
        row = tables.execute(f"{_ALL} WHERE {where}", tuple(values)).fetchone()
        return None if row is None else self._approval(row)

    def _approval(self, row: tuple[Any, ...]) -> Approval:
        id_, _, _, asked_at, sealed, state, span, by, by_user_id, at, note, asked, expires_at = row
        request = _request(self._sealer.open(sealed, _row(id_)))
        return Approval(
            request=replace(request, asked=asked, asked_at=asked_at, expires_at=expires_at),
            state=ApprovalState(state),
            span=Span(span),
            by=by,
            by_user_id=by_user_id,
            at=at,
            note=note,
        )


def _require_room(
    tables: Tables, principals: Collection[str], now: float, rules: ApprovalRules
) -> None:
    places = ", ".join("?" * len(principals))
    waiting, this_hour = tables.execute(
        "SELECT count(*) FILTER (WHERE state = 'waiting' AND expires_at > ?),"  # noqa: S608 - marks
        f" count(*) FILTER (WHERE asked_at > ?) FROM approvals WHERE principal IN ({places})",
        (now, now - HOUR_S, *principals),
    ).fetchone()
    require_room(rules, waiting=waiting, this_hour=this_hour)


def _insert(tables: Tables, approval: Approval, sealed: str) -> Approval:
    request = approval.request
    filed = request.id, str(request.fingerprint), request.principal, request.asked_at, sealed
    tables.execute(_STORE, (*filed, *_became(approval)))
    return approval


def _change(tables: Tables, approval: Approval) -> Approval:
    tables.execute(_CHANGE, (*_became(approval), approval.request.id))
    return approval


def _became(approval: Approval) -> tuple[Any, ...]:
    """Return what has become of a question, in the columns of `_BECAME`."""
    return (
        *(approval.state.value, approval.span.value, approval.by, approval.by_user_id),
        *(approval.at, approval.note, approval.request.asked, approval.request.expires_at),
    )


def _row(id_: str) -> str:
    return f"approvals:{id_}:question"


def _spelled(request: ApprovalRequest) -> bytes:
    content = {
        "id": request.id,
        "fingerprint": str(request.fingerprint),
        "scope": str(request.scope),
        "principal": request.principal,
        "subject": request.subject,
        "user_id": request.user_id,
        "client_id": request.client_id,
        "client_name": request.client_name,
        "run": request.run,
        "target": [request.target.server, request.target.kind.value, request.target.name],
        "effect": None if request.effect is None else request.effect.value,
        "pin_digest": str(request.pin_digest),
        "arguments": orjson.Fragment(request.carried),
        "label": [int(request.label.integrity), int(request.label.confidentiality)],
        "reasons": [[reason.code, reason.message] for reason in request.reasons],
        "evidence": request.evidence,
        "decision_id": request.decision_id,
        "policy_digest": request.policy_digest,
        "self_approval": request.self_approval,
        "follows": request.follows,
        "follows_because": request.follows_because,
        "places": request.places,
        "may_stand": request.may_stand,
        "question": request.question.decode(),
        "plane": request.plane,
        "submission": None if request.submission is None else str(request.submission),
        "submitted": None if request.submitted is None else str(request.submitted),
    }
    return orjson.dumps(content)


def _request(spelled: bytes) -> ApprovalRequest:
    content: dict[str, Any] = json.loads(spelled)
    carried = canonical(content.pop("arguments"))
    server, kind, name = content["target"]
    integrity, confidentiality = content["label"]
    effect = content["effect"]
    return ApprovalRequest(
        **{
            **content,
            "id": ApprovalId(content["id"]),
            "fingerprint": Digest.read(content["fingerprint"]),
            "scope": Digest.read(content["scope"]),
            "run": RunId(content["run"]),
            "target": Target(server=UpstreamId(server), kind=Kind(kind), name=name),
            "effect": None if effect is None else Effect(effect),
            "pin_digest": Digest.read(content["pin_digest"]),
            "label": Label(
                integrity=Integrity(integrity), confidentiality=Confidentiality(confidentiality)
            ),
            "reasons": tuple(Reason(code=code, message=text) for code, text in content["reasons"]),
            "evidence": tuple(content["evidence"]),
            # Where it was not kept nobody can ask policy again, and only others answer.
            "question": content.get("question", "").encode(),
            # What was asked before answers could stand says nothing of it.
            "places": tuple((path, text) for path, text in content.get("places", ())),
            **{name: Digest.read(text) for name in _OF_PLANES if (text := content.get(name))},
        },
        carried=carried,
        asked_at=0.0,  # the row's own columns say when
        expires_at=0.0,
    )

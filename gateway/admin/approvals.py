"""What people do with questions about calls: look at them, say yes, say no."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from gateway.admin.journal import Change, Journal
from gateway.admin.person import EVERY_ROLE, How, Person, Role
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.admin.runs import SelfApproval
from gateway.admin.standing import StandingDesk
from gateway.admin.whose import is_own, registered, sees
from gateway.domain.approvals import Approval, ApprovalId, ApprovalRequest, ApprovalState, Span
from gateway.domain.audit import RecordKind
from gateway.domain.document import quoted_name
from gateway.domain.flow import RunId, Source
from gateway.domain.tools import Kind
from gateway.errors import BadCommand, Denied, Forbidden, NotFound, PolicyUnavailable
from gateway.ports import ApprovalStore, Clock
from gateway.ports.identity import ClientStore

_SPANS = {
    Span.RUN: "for every such call of the run",
    Span.STANDING: "for good: for every call of this client for the same person to the same places",
}
"""What a record says of an answer that is for more than one call."""

_A_CALLERS = re.compile(r"[^A-Za-z0-9_./-]")
"""What stands in the names of resources as sources have them, which a caller may have made up."""


class ApprovalDesk:
    """Use cases over an `ApprovalStore`. Results are plain JSON."""

    def __init__(
        self,
        approvals: ApprovalStore,
        journal: Journal,
        *,
        clients: ClientStore,
        sources: Callable[[RunId], Sequence[Source]],
        issuer: str,
        clock: Clock,
        pages_at: str = "",
        lapsed: Callable[[ApprovalRequest], str] = lambda _: "",
        standing: StandingDesk,
        policy: SelfApproval,
    ) -> None:
        """Take what gives the results that a run has seen, and our own `issuer`: the one of people who sign in here.

        `lapsed` says why no answer to a question can count now, or nothing, and `pages_at` is where the pages are, without a last `/`; empty where nobody signs in here.
        """
        self._approvals = approvals
        self._journal = journal
        self._clients = clients
        self._sources = sources
        self._issuer = issuer
        self._clock = clock
        self._pages_at = pages_at
        self._lapsed = lapsed
        self.standing = standing
        self._policy = policy

    async def list(self, person: Person, *, all: bool = False) -> Rows:  # noqa: A002 - the command's option
        """Return one row a question that waits, or a question at all: waiting first, then newest.

        Whoever neither approves nor audits sees the questions about their own calls.
        """
        seen = [one for one in self._seen_by(person) if all or _waits(one)]
        # Of hundreds it takes a while.
        return await asyncio.to_thread(lambda: [self._row(one) for one in seen])

    def waiting(self, person: Person) -> Sequence[Approval]:
        """Return the questions that wait for an answer that would count, of those of `list`."""
        return [one for one in self._seen_by(person) if _waits(one) and not self.void(one)]

    def void(self, found: Approval) -> str:
        """Return why no call can go out by an answer to this question; empty if one still can."""
        match found.state:
            case ApprovalState.EXPIRED if found.at is None:
                return "nobody answered in time"
            case ApprovalState.EXPIRED:
                return "the answer has run out"
            case ApprovalState.USED:
                return "the yes was for one call, and that has gone out"
            case ApprovalState.WITHDRAWN:
                return "whoever asked took it back, or is not there any more"
            case ApprovalState.ALLOWED if found.span is Span.STANDING:
                stands = self.standing.until(found.request.id) is not None
                return "" if stands else "the answer stands no more"
            case _:
                return self._lapsed(found.request)

    def _seen_by(self, person: Person) -> Sequence[Approval]:
        """Return what is theirs to see: waiting first, then newest."""
        person.need(*EVERY_ROLE)
        seen = [
            one for one in self._approvals.all(now=self._clock()) if self._sees(person, one.request)
        ]
        return sorted(seen, key=lambda one: (not _waits(one), -one.request.asked_at))

    def _row(self, found: Approval) -> Row:
        """Return the documented fields of a question, and where its page is; `None` without pages."""
        return {
            **row_of(found),
            "url": self._page(found.request.id) or None,
            "void": self.void(found) or None,
            "stands_until": rfc3339(self.standing.until(found.request.id)),
        }

    def _page(self, id_: ApprovalId) -> str:
        return f"{self._pages_at}/approve/{id_}" if self._pages_at else ""

    async def show(self, person: Person, *, approval: str) -> Row:
        """Return a question with what its run has read by now.

        What the call says is for whoever may answer it, while it waits: to everybody else
        `arguments` are `None`, `evidence`, which quotes them, is empty, and a resource has no name;
        `withheld` says why.

        Raises:
            NotFound: There is no such question, or it is not theirs to see.
            AuditUnavailable: It cannot be recorded who sees what the call says.

        """
        found = self.seen(person, approval)
        request = found.request
        told, withheld = None, None
        try:
            told = await self.disclose(person, found)
        except (Forbidden, Denied) as refusal:
            withheld = refusal.public
        return {
            **self._row(found),
            "name": request.called if told is None else request.target.name,
            "principal": request.principal,
            "withheld": withheld,
            "arguments": told,
            "label": request.label.words,
            "sources": [
                _source_row(source, shown=told is not None) for source in self._sources(request.run)
            ],
            "evidence": [] if told is None else list(request.evidence),
            "reasons": [{"code": one.code, "message": one.message} for one in request.reasons],
            "pin_digest": str(request.pin_digest),
            "decision_id": request.decision_id,
            "policy_digest": request.policy_digest,
            "may_stand": request.may_stand,
            "follows": request.follows or None,
            "follows_because": request.follows_because or None,
        }

    async def suggest(self, person: Person) -> Rows:
        """Return one row for each yes that was given again and again, and could stand.

        To what places it was is told, on record, to whoever may have it stand; to others their `value`
        is `None`.

        Raises:
            AuditUnavailable: It cannot be recorded who sees what calls say.

        """
        rows, told = await self.standing.suggest(person), 0
        for row in rows:
            try:
                await self.require_may_answer(person, self.seen(person, row["id"]).request)
                told += 1
            except (Forbidden, NotFound):
                row["destinations"] = [{**one, "value": None} for one in row["destinations"]]
        if told:
            what = f"to what places {told} yeses could stand"
            await self._journal.read(person, "approvals.suggest", what)
        return rows

    async def allow(
        self,
        person: Person,
        *,
        approval: str,
        for_run: bool = False,
        standing: bool = False,
        note: str = "",
    ) -> Row:
        """Let the call go out once, or every call of its run that goes to the same place.

        With `standing` the answer stands for every such call of the same person and client, until
        it ends; it may be given to what was said yes to already.

        Raises:
            NotFound: There is no such question, or it is not theirs to see.
            Forbidden: They may not answer it.
            Denied: It has been answered already, or has run out, or no answer to it may stand.
            BadCommand: It cannot be for the run and for good.

        """
        if standing and for_run:
            raise BadCommand("an answer is for the run, or it stands")
        if standing:
            return await self._stand(person, approval, note=note)
        span = Span.RUN if for_run else Span.ONCE
        return await self._answer(person, approval, allow=True, span=span, note=note)

    async def deny(
        self, person: Person, *, approval: str, for_run: bool = False, note: str = ""
    ) -> Row:
        """Have the call refused, and nobody asked about it again, until the no runs out.

        With `for_run` that goes for every call of its run to the same place.

        Raises:
            NotFound: There is no such question, or it is not theirs to see.
            Forbidden: They may not answer it.
            Denied: It has been answered already, or has run out.

        """
        span = Span.RUN if for_run else Span.ONCE
        return await self._answer(person, approval, allow=False, span=span, note=note)

    def seen(self, person: Person, approval: str) -> Approval:
        """Return a question as it is now, if it is theirs to see.

        Raises:
            NotFound: There is no such question, or it is not.

        """
        person.need(*EVERY_ROLE)
        found = self._approvals.get(ApprovalId(approval), now=self._clock())
        if found is not None and self._sees(person, found.request):
            return found
        raise NotFound("there is no such question; `douane approvals list --all` lists them")

    async def disclose(self, person: Person, found: Approval) -> Mapping[str, Any]:
        """Return the arguments of a call that waits, to whoever may answer it: that is on record.

        Raises:
            Forbidden: They may not answer it.
            Denied: It waits no more, or no answer would count.
            AuditUnavailable: It cannot be recorded, so nothing is to be shown.

        """
        await self.require_may_answer(person, found.request)
        self._require_waiting(found)
        await self._journal.read(person, "approvals.show", f"what question {found.request.id} says")
        return found.request.arguments

    async def require_may_answer(self, person: Person, request: ApprovalRequest) -> None:
        """Return if the person's yes would count, as policy is now.

        Raises:
            Forbidden: Only somebody else's does.

        """
        if person.how is How.TOKEN and not person.user_id:
            raise Forbidden("only a person can answer; sign in as one", detail=person.name)
        if self._acts_for(person, request):
            raise Forbidden(
                "this is a call of a client that you registered, or nobody knows who registered it:"
                " somebody else has to answer",
                detail=person.name,
            )
        if not self.is_own(person, request):
            person.need(Role.APPROVER, Role.ADMIN)
        elif not await self._is_theirs(request):
            raise Forbidden(
                "this is your own call: policy wants somebody else's answer", detail=person.name
            )

    def _acts_for(self, person: Person, request: ApprovalRequest) -> bool:
        """Whether a client that this person registered makes the call, for nobody but itself."""
        client_id = request.client_id
        for_itself = request.principal == f"{self._issuer}|{client_id}|{client_id}"
        return for_itself and registered(person, client_id, self._clients)

    async def _is_theirs(self, request: ApprovalRequest) -> bool:
        """Whether policy still lets the person whose call it is answer; silence is a no."""
        if not request.self_approval or not request.question:
            return False
        try:
            return await self._policy.self_approval(orjson.loads(request.question))
        except PolicyUnavailable:
            return False

    async def _answer(
        self, person: Person, approval: str, *, allow: bool, span: Span, note: str
    ) -> Row:
        found = self.seen(person, approval)
        await self.require_may_answer(person, found.request)
        self._require_waiting(found)
        act = partial(self._said, person, found, allow=allow, span=span, note=note)
        change = self._change(found.request, allow=allow, span=span, note=note)
        return self._row(await self._journal.make(person, change, act))

    async def _stand(self, person: Person, approval: str, *, note: str) -> Row:
        found = self.seen(person, approval)
        request = found.request
        await self.require_may_answer(person, request)
        if not request.may_stand:
            raise Denied("no answer to this question can stand: somebody has to look each time")
        said_yes = any(
            one.request.id == request.id for one in self._approvals.yeses(request.principal)
        )
        if not said_yes:
            self._require_waiting(found)
        answer = await self.standing.answer_to(request, person, note)

        async def act() -> None:
            if not said_yes:
                await self._said(person, found, allow=True, span=Span.STANDING, note=note)
            await self.standing.give(answer)

        change = self._change(request, allow=True, span=Span.STANDING, note=note)
        await self._journal.make(person, change, act)
        return self._row(self.seen(person, approval))

    def _require_waiting(self, found: Approval) -> None:
        if found.state is not ApprovalState.WAITING:
            raise Denied(f"this question waits no more: it is {found.state}")
        if why := self._lapsed(found.request):
            raise Denied(f"no answer to this question would count any more: {why}")

    def _said(
        self, person: Person, found: Approval, *, allow: bool, span: Span, note: str
    ) -> Awaitable[Approval]:
        return self._approvals.answer(
            found.request.id,
            allow=allow,
            span=span,
            by=person.name,
            by_user_id=person.user_id,
            note=note,
            now=self._clock(),
        )

    def _change(self, request: ApprovalRequest, *, allow: bool, span: Span, note: str) -> Change:
        name = request.target.name
        if request.target.kind is Kind.RESOURCE:
            name = quoted_name(name)  # as much what the call says as its arguments
        spans = (("span", _SPANS[span]),) if span in _SPANS else ()
        page = self._page(request.id)
        return Change(
            kind=RecordKind.APPROVAL,
            method="approvals.allow" if allow else "approvals.deny",
            code="allowed" if allow else "denied",
            subject=f"{request.target.server}/{request.target.kind}/{name} for {request.subject}",
            fields={
                "server": request.target.server,
                "target": name,
                "pin_digest": str(request.pin_digest),
                "run": request.run,
                "approval_id": request.id,
                "decision_id": request.decision_id,
            },
            note=note,
            evidence=(*spans, *((("page", page),) if page else ())),
        )

    def _sees(self, person: Person, request: ApprovalRequest) -> bool:
        return sees(person, request, self._issuer)

    def is_own(self, person: Person, request: ApprovalRequest) -> bool:
        """Whether the call is this person's, under whatever account they come."""
        return is_own(person, request, self._issuer)


def _source_row(source: Source, *, shown: bool) -> Row:
    """Return a result that a run has seen; its name, where a caller may have made it up, only if `shown`."""
    named = shown or _A_CALLERS.search(source.tool) is None
    tool = source.tool if named else "a resource"
    return {"server": source.server, "tool": tool, "record": source.record}


def _waits(one: Approval) -> bool:
    return one.state is ApprovalState.WAITING


def row_of(approval: Approval) -> Row:
    """Return the documented fields of a question, without what it says."""
    request = approval.request
    return {
        "id": request.id,
        "state": approval.state.value,
        "server": request.target.server,
        "kind": request.target.kind.value,
        "name": request.called,
        "effect": None if request.effect is None else request.effect.value,
        "subject": request.subject,
        "client_id": request.client_id,
        "client": request.client_name,
        "run": request.run,
        "codes": sorted({reason.code for reason in request.reasons}),
        "asked": request.asked,
        "asked_at": rfc3339(request.asked_at),
        "expires_at": rfc3339(request.expires_at),
        "self_approval": request.self_approval,
        "by": approval.by or None,
        "answered_at": rfc3339(approval.at),
        "span": approval.span.value if approval.at is not None else None,
        "note": approval.note,
    }

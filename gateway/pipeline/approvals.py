"""Where policy says that a person must be asked: what was answered, or a question is filed."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from gateway.domain._value import value
from gateway.domain.approvals import (
    Approval,
    ApprovalId,
    ApprovalRequest,
    ApprovalRules,
    ApprovalState,
    Span,
)
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.calls import AccessRequest
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.document import Digest
from gateway.domain.identity import Asserted
from gateway.domain.nodes import amount
from gateway.domain.premises import Premise
from gateway.domain.standing import Places
from gateway.errors import (
    ApprovalRequired,
    Changed,
    Denied,
    NotFound,
    PolicyUnavailable,
    RateLimited,
    StateChanged,
)
from gateway.flow.evidence import sentences
from gateway.flow.lapsed import why_asked_anew
from gateway.pipeline.asking import Bound, answering, bound_by, fits_a_form, question_of
from gateway.pipeline.decide import told
from gateway.pipeline.standing import history, may_stand, standing_places
from gateway.pipeline.trail import Trail
from gateway.ports import ApprovalStore, AuditLog, Clock, PolicyEngine
from gateway.turns import QUICK_NODES, finished, in_turn
from gateway.wire import jsontext
from gateway.wire.elicitation import approval_state, is_approval_state

_MINUTE_S = 60


class Requestable(ApprovalRequired):
    """A person must be asked, and is once the plane that asked submits its refusal."""

    def __init__(self, request: ApprovalRequest, access: AccessRequest, decision: Decision) -> None:
        """Take the question as it would be filed, and what it is about."""
        super().__init__(
            "a person must allow this call first, and is asked once that is requested",
            reasons=told(decision),
        )
        self.request = request
        self.access = access


@value
class Granted:
    """A yes by which a call may go out, if nobody else uses it up first."""

    approval: Approval
    access: AccessRequest
    """As it was before the yes was part of it."""
    decision: Decision
    """The one that asked."""
    bound: Bound


class Approvals:
    """Asks people through an `ApprovalStore`. Policy decides, also whether a yes is enough."""

    def __init__(
        self,
        *,
        store: ApprovalStore,
        policy: PolicyEngine,
        audit: AuditLog,
        rules: ApprovalRules,
        pages_at: str,
        issuer: str,
        seal_key: bytes,
        clock: Clock,
        new_id: Callable[[], str],
        submitting: Collection[str] = (),
    ) -> None:
        """Take where our pages are, empty if nobody can sign in there, and our own `issuer`.

        `submitting` are the planes whose refusals ask nobody before they are submitted.
        """
        self._submitting = submitting
        self._store = store
        self._policy = policy
        self._audit = audit
        self._rules = rules
        self._pages_at = pages_at
        self._issuer = issuer
        self._seal_key = seal_key
        self._clock = clock
        self._new_id = new_id

    async def consulted(
        self, access: AccessRequest, decision: Decision, trail: Trail
    ) -> tuple[AccessRequest, Decision, Granted | None]:
        """Return the call and its decision after whoever had to be asked was asked.

        A decision that does not ask comes back as it is. With a yes on file policy was asked once
        more, knowing of it; what it says then counts, a scope that the token lacks included. The
        record of the call uses it up.

        Raises:
            Denied: A person said no.
            ApprovalRequired: Nobody has said yes; a question waits, if there was room for one.
            RateLimited: As `in_turn`.

        """
        if decision.verdict is not Verdict.ASK:
            return access, decision, None
        bound = await self._bound(access, decision)
        found = await self._found(access, bound, trail)
        if found is None or found.state is ApprovalState.WAITING:
            raise await self._filed(access, decision, bound, trail)
        trail.approval(found.request.id)
        if found.state is not ApprovalState.ALLOWED:
            raise _refused(found, decision)
        knowing = replace(access, asked={**access.asked, "approval": _member(found)})
        again = trail.decision(await self._policy.evaluate(trail.asked(knowing.asked)))
        if again.verdict is Verdict.ASK:
            raise ApprovalRequired(
                "a person has allowed this call, and policy asks for more than that",
                approval_id=found.request.id,
                page=self.page(found.request.id),
                reasons=told(again),
            )
        granted = Granted(approval=found, access=access, decision=decision, bound=bound)
        return knowing, again, granted

    async def require_no_refusal(
        self, access: AccessRequest, knowing: AccessRequest, decision: Decision, trail: Trail
    ) -> None:
        """Return unless a person has said no to this very call, though a grant stands for a yes.

        Who allowed calls of its kind beforehand has not read it, and who said no has. `knowing` is
        the call as policy was asked about it with the grant; the same, where none stands for it.

        Raises:
            Denied: A person said no.
            RateLimited: As `in_turn`.

        """
        if knowing is access:
            return
        try:
            bound = await self._bound(access, decision)
        except ApprovalRequired:
            return  # nobody can have been asked about it
        found = self._store.find(bound.fingerprint, bound.scope, now=self._clock())
        if found is not None and found.state is ApprovalState.DENIED:
            trail.approval(found.request.id)
            raise _refused(found, decision)

    async def require_unused(self, granted: Granted | None, trail: Trail) -> None:
        """Return unless the yes was found used up when the call was to be recorded with it.

        Of many calls that try with the same one, one is: a call that fails after it has used it.

        Raises:
            ApprovalRequired: Another call was first, or it has run out; it was asked for anew.

        """
        if granted is not None and Premise.APPROVAL in trail.failed:
            raise await self._filed(granted.access, granted.decision, granted.bound, trail)

    async def _bound(self, access: AccessRequest, decision: Decision) -> Bound:
        """Return what `bound_by` does, of a large call beside the loop."""
        bind = partial(bound_by, key=self._seal_key, plane=self._plane(access))
        nodes = amount(access.call.message.params, QUICK_NODES)
        return await in_turn(access.principal.person, nodes, bind, access, decision)

    async def _found(self, access: AccessRequest, bound: Bound, trail: Trail) -> Approval | None:
        """Return what is on file, an answer that came with the call included."""
        found = self._store.find(bound.fingerprint, bound.scope, now=self._clock())
        answer = access.call.answered
        if (
            found is None
            or found.state is not ApprovalState.WAITING
            or answer is None
            or answer.yes is None
            # What a program answers, no person has: it holds a token that says so.
            or access.call.script is not None
        ):
            return found
        request, principal = found.request, access.principal
        if not is_approval_state(self._seal_key, principal.key, request.id, answer.state):
            return found
        if not await self._may_answer(found, access):
            return found
        code = "allowed" if answer.yes else "denied"
        await self._audit.append(self._record(access, trail, request.id, "approvals.form", code))
        try:
            return await self._store.answer(
                request.id,
                allow=answer.yes,
                span=Span.ONCE,
                by=self._name(access),
                by_user_id=principal.user_id,
                note="",
                now=self._clock(),
            )
        except (NotFound, Denied) as late:
            # Somebody else was quicker, and theirs is the answer.
            await self._audit.append(
                self._record(access, trail, request.id, "approvals.form", late.code)
            )
            return self._store.find(bound.fingerprint, bound.scope, now=self._clock())

    async def _filed(
        self, access: AccessRequest, decision: Decision, bound: Bound, trail: Trail
    ) -> ApprovalRequired:
        """File the question, or count it; return the refusal that says so."""
        asked = await self._request(access, decision, bound)
        if asked.plane:
            return Requestable(asked, access, decision)
        try:
            filed = await self._store.file(asked)
        except RateLimited as full:
            return ApprovalRequired(
                "too many questions wait for a person already; this one was not asked",
                detail=full.detail,
                reasons=told(decision),
            )
        await self._note_asked(filed.request, access, trail)
        return await self._refusal(filed, access, decision)

    async def submit(
        self,
        asked: Requestable,
        trail: Trail,
        *,
        denied: str,
        submission: Digest | None,
        submitted: Digest,
    ) -> Approval:
        """File the question that a plane submits, or count it; return it.

        `denied` is the decision that it was refused by; the others are what it is known by if it is
        submitted once more.

        Raises:
            RateLimited: Too many questions wait, or were asked.
            StateChanged: A person has answered it meanwhile.

        """
        request = replace(
            asked.request, decision_id=denied, submission=submission, submitted=submitted
        )
        try:
            filed = await self._store.file(request)
        except Changed as answered:
            raise StateChanged("this was answered meanwhile; ask again") from answered
        await self._note_asked(filed.request, asked.access, trail)
        return filed

    async def _note_asked(
        self, request: ApprovalRequest, access: AccessRequest, trail: Trail
    ) -> None:
        trail.approval(request.id)
        if request.asked == 1:
            await self._audit.append(
                self._record(access, trail, request.id, "approvals.ask", "asked")
            )

    def _plane(self, access: AccessRequest) -> str:
        """Return the plane that submits its refusals, if one of those asks."""
        said = access.call.credential
        return said.plane if isinstance(said, Asserted) and said.plane in self._submitting else ""

    async def _refusal(
        self, filed: Approval, access: AccessRequest, decision: Decision
    ) -> ApprovalRequired:
        """Return the refusal that says where a question is answered, and how if by the caller."""
        request, page = filed.request, self.page(filed.request.id)
        id_, theirs = request.id, await self._may_answer(filed, access)
        command = f"`douane approvals allow {id_}`"
        where = f"{page} or {command}" if page and not theirs else command
        form = theirs and access.call.script is None and fits_a_form(request)
        question = ""
        if theirs:  # each character of what is carried is as much work as a node
            nodes = len(request.carried)
            question = await finished(access.principal.person, nodes, question_of, request)
        void = [("earlier_answer_void", request.follows_because)] if request.follows_because else []
        return ApprovalRequired(
            f"a person must allow this call first, and is asked: {where}",
            approval_id=id_,
            page=page,
            url=page if theirs else "",
            question=question,
            state=approval_state(self._seal_key, access.principal.key, id_) if form else "",
            reasons=[*told(decision), *void],
        )

    def page(self, id_: ApprovalId) -> str:
        """Return where people see a question and answer it; empty where nobody signs in."""
        return f"{self._pages_at}/approve/{id_}" if self._pages_at else ""

    async def _request(
        self, access: AccessRequest, decision: Decision, bound: Bound
    ) -> ApprovalRequest:
        principal, now = access.principal, self._clock()
        written = access.call.as_written
        places = standing_places(access)
        theirs = bool(principal.user_id) and await self._is_theirs(access)
        asked = ApprovalRequest(
            id=ApprovalId(self._new_id()),
            fingerprint=bound.fingerprint,
            scope=bound.scope,
            principal=principal.key,
            subject=principal.recorded,
            user_id=principal.user_id,
            client_id=principal.client_id,
            client_name=principal.client_name,
            run=access.run.id,
            target=access.target,
            effect=access.effect,
            pin_digest=access.pinned.manifest.digest,
            carried=bound.carried,
            label=access.run.label,
            reasons=decision.reasons,
            evidence=(
                *map(written, answering(access)),
                *sentences(access.review, written),
                *self._history(access, places or frozenset()),
            ),
            decision_id=decision.id,
            policy_digest=decision.policy_digest,
            self_approval=theirs,
            asked_at=now,
            expires_at=now + self._rules.expire_s,
            places=tuple(sorted((path, written(text)) for path, text in places or ())),
            may_stand=places is not None and await may_stand(access, self._policy),
            question=jsontext.write_octets(access.asked) if theirs else b"",
            plane=self._plane(access),
        )
        return self._after(self._store.earlier(asked), asked)

    def _history(self, access: AccessRequest, places: Places) -> Iterator[str]:
        """Yield whose yes let the same agent go there before."""
        given = self._store.yeses(access.principal.key) if places else ()
        same = [one for one in given if one.request.target == access.target]
        return history(places, same, access.call)

    @staticmethod
    def _after(earlier: Approval | None, asked: ApprovalRequest) -> ApprovalRequest:
        """Return a question that says of an `earlier` answer to the same call why it is none."""
        if earlier is None:
            return asked
        answer = "no" if earlier.state is ApprovalState.DENIED else "yes"
        because = f"an earlier {answer} no longer counts: {why_asked_anew(earlier, asked)}"
        return replace(asked, follows=earlier.request.id, follows_because=because)

    async def _is_theirs(self, access: AccessRequest) -> bool:
        """Whether policy lets the person whose call it is answer; silence is a no."""
        try:
            return await self._policy.self_approval(access.asked)
        except PolicyUnavailable:
            return False

    async def _may_answer(self, approval: Approval, access: AccessRequest) -> bool:
        """Whether the person behind this call may answer for it, as policy is now."""
        request, user_id = approval.request, access.principal.user_id
        is_own = request.self_approval and bool(user_id) and user_id == request.user_id
        return is_own and await self._is_theirs(access)

    def _name(self, access: AccessRequest) -> str:
        """Name the person as the audit log does everywhere."""
        principal = access.principal
        if principal.issuer == self._issuer:
            return f"user:{principal.subject}"
        return f"user:{principal.issuer}|{principal.subject}"

    def _record(
        self, access: AccessRequest, trail: Trail, id_: ApprovalId, method: str, code: str
    ) -> AuditRecord:
        fields = {
            **trail.joined,
            "method": method,
            "pin_digest": str(access.pinned.manifest.digest),
            "approval_id": id_,
            "decision_id": trail.decision_id,
            "verdict": {"allowed": "allow", "asked": "ask"}.get(code, "deny"),
            "code": code,
            "reasons": [
                {
                    "code": code,
                    "message": f"{access.target.server}/{access.target.kind}/{trail.told_target}",
                },
                *([{"code": "page", "message": page}] if (page := self.page(id_)) else []),
            ],
        }
        return AuditRecord(
            kind=RecordKind.APPROVAL,
            time=self._clock(),
            id=self._new_id(),
            fields=fields,
            tool=trail.tool,
        )


def _refused(found: Approval, decision: Decision) -> Denied:
    minutes = round((found.request.expires_at - (found.at or 0.0)) / _MINUTE_S)
    said = ("person_said_no", f"a person was asked and said no, which holds for {minutes} minutes")
    return Denied("a person does not allow this call", reasons=[said, *told(decision)])


def _member(approval: Approval) -> Mapping[str, Any]:
    """Return what policy learns of a yes: the contract's `approval`."""
    return {
        "id": approval.request.id,
        "by": approval.by,
        "span": approval.span.value,
        "note": approval.note,
    }

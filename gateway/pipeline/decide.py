"""From an access request to a permit, or to a reason why not.

Every engine gets the same question, which is built here and only here, and permits are made here
and only here.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Self

from gateway.domain._value import value
from gateway.domain.approvals import Approval, ApprovalId, Span
from gateway.domain.calls import AccessRequest, Call, Form, Permit
from gateway.domain.decisions import Decision, Duty, Phase, Reason, Verdict
from gateway.domain.flow import FlowReview, Run, RunId, Task
from gateway.domain.identity import Principal
from gateway.domain.labels import Effect, ToolRule
from gateway.domain.late import LateCall
from gateway.domain.premises import Premises, Uses
from gateway.domain.question import Question
from gateway.domain.tools import OWN, Kind, Manifest, Pin, PinStatus, Target
from gateway.errors import ApprovalRequired, Denied, InsufficientScope
from gateway.flow.effects import effect_of
from gateway.flow.question import flow_input
from gateway.pipeline.programs import told_of
from gateway.wire.tracing import under_our_span

_SHOWS_NOTHING: Final = frozenset({"initialize", "server/discover", "ping"})


@value
class Subject:
    """What a question is about: a target, what it does, and its pin as it is to be told."""

    target: Target
    rule: ToolRule
    effect: Effect | None
    pin: Pin
    status: PinStatus
    """The pin's own, or the one to suppose."""

    @classmethod
    def of(
        cls, target: Target, rule: ToolRule, pin: Pin, *, suppose: PinStatus | None = None
    ) -> Self:
        """Make the subject of a question about `target`, which `pin` stands for.

        With `suppose` the question is what policy would say if the pin had that status.
        """
        if target.kind is not Kind.TOOL:  # it may be called like one
            rule, effect = ToolRule(), None
        else:
            effect = _effect(rule, pin.approved)
        return cls(target=target, rule=rule, effect=effect, pin=pin, status=suppose or pin.status)


@value
class Case:
    """A call as it is judged: what its review, the look for sensitive data and its question share."""

    call: Call
    principal: Principal
    run: Run
    subject: Subject
    arguments: Mapping[str, Any]
    """All that it says, as `wire.outgoing.said` has it."""
    task: Task | None
    """The user's, if it counts."""
    nodes: int
    """How much work its message may be."""


def _effect(rule: ToolRule, approved: Manifest | None) -> Effect:
    # What nobody approved must not speak for itself, so its annotations count for nothing.
    return (rule.effect or Effect.DESTROY) if approved is None else effect_of(rule, approved)


def question(
    phase: Phase,
    call: Call,
    principal: Principal,
    run: RunId | None,
    subject: Subject,
    *,
    now: float,
) -> dict[str, Any]:
    """Build what every phase asks: the contract's input without `arguments` and `flow`."""
    approved = subject.pin.approved
    manifest = approved or subject.pin.observed
    return {
        "version": 1,
        "phase": phase.value,
        "method": call.message.method,
        "principal": _principal(principal),
        "origin": {
            "kind": call.origin.value,
            "run": run or "",
            "parent": call.parent,
            **told_of(call.script),
        },
        "target": {
            "server": subject.target.server,
            "kind": subject.target.kind.value,
            "name": subject.target.name,
            "effect": "" if subject.effect is None else subject.effect.value,
            "annotations": {} if approved is None else approved.annotations,
            "pin": {
                "digest": str(manifest.digest),
                "status": subject.status.value,
                "approved_by": subject.pin.approved_by,
            },
        },
        "task": {"prompt": None, "tools": None},
        "approval": None,
        "context": {
            "time": spelled_time(now),
            "ip": call.source_ip,
            "revision": call.revision,
            "endpoint": call.endpoint,
        },
        "result": None,
    }


def call_question(
    call: Call,
    principal: Principal,
    subject: Subject,
    *,
    run: RunId,
    arguments: Mapping[str, Any],
    review: FlowReview,
    task: Task | None,
    usage: Mapping[str, Any],
    dlp: Mapping[str, Any],
    now: float,
) -> dict[str, Any]:
    """Build the question of phase `call`."""
    asked = question(Phase.CALL, call, principal, run, subject, now=now)
    asked["arguments"] = arguments
    asked["flow"] = flow_input(review)
    asked["usage"] = usage
    asked["dlp"] = dlp
    if task is not None:
        asked["task"] = {"prompt": task.prompt, "tools": task.tools}
    return asked


def result_question(
    asked: Mapping[str, Any], review: FlowReview, result: Any, found: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Build the question of phase `result` from the one that the call was decided on.

    `found` is what of sensitive classes stands in `result`.
    """
    dlp = {**asked["dlp"], "result": found} if found else asked["dlp"]
    if isinstance(asked, Question):
        told = asked.circumstances.once(
            Phase.RESULT.value,
            review,
            lambda: asked.circumstances.with_sections(_of_result(review)),
        )
        return Question(
            told,
            time=asked["context"]["time"],
            arguments=asked["arguments"],
            usage=asked["usage"],
            dlp=dlp,
            result=result,
        )
    return {**asked, **_of_result(review), "dlp": dlp, "result": result}


def _of_result(review: FlowReview) -> dict[str, Any]:
    return {"phase": Phase.RESULT.value, "flow": flow_input(review)}


def spelled_time(now: float) -> str:
    """Return the time of a question, given in seconds since the epoch, as policy is told it."""
    second, microsecond = divmod(round(now * 1e6), 1_000_000)
    fraction = f".{microsecond:06d}" if microsecond else ""
    return f"{_second(second)}{fraction}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    # Spelled once for all questions of a second.
    return datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix("+00:00")


def _principal(principal: Principal) -> dict[str, Any]:
    return {
        "sub": principal.subject,
        "iss": principal.issuer,
        "groups": sorted(principal.groups),
        "scopes": sorted(principal.scopes),
        "client": {"id": principal.client_id, "name": principal.client_name},
    }


def permit_for(
    access: AccessRequest,
    decision: Decision,
    session: str | None,
    *,
    yes: Approval | None = None,
    grants: Sequence[int | None] | None = None,
    last_look: Callable[[Permit], None],
) -> Permit:
    """Permit `access` if `decision` allows it and what it asks of the token is met.

    It goes out by `yes`, where a person said so, and uses one of its program's `grants`; with `None`,
    as an answer to a question of the server's, it is no call of the program's.

    Raises:
        Denied: Policy says no.
        ApprovalRequired: Policy wants a person's word first.
        InsufficientScope: The token lacks a scope that policy asks for.

    """
    require_allow(decision, access.principal)
    within = access.call.script if grants is not None else None
    return Permit(
        call=under_our_span(access.call, decision.id),
        principal=access.principal,
        run=access.run,
        decision=decision,
        access=access,
        session=session,
        premises=_premises(access, decision, yes),
        uses=Uses(
            yes=yes.request.id if yes is not None and yes.span is Span.ONCE else None,
            script=None if within is None else within.script.id,
            grants=() if within is None else tuple(grants or ()),
        ),
        last_look=last_look,
    )


def _premises(access: AccessRequest, decision: Decision, yes: Approval | None) -> Premises:
    # What we say of ourselves is no pin.
    is_pinned = access.pinned.pin.target.server != OWN
    return Premises(
        run=access.run.id,
        version=access.run.version,
        policy=decision.policy_digest,
        people=access.principal.people,
        pinned=access.pinned if is_pinned else None,
        profile=access.call.profile if is_pinned else None,
        yes=None if yes is None else yes.request.id,
        standing=_standing(access.review) if access.review.destinations else (),
    )


def _standing(review: FlowReview) -> tuple[ApprovalId, ...]:
    return tuple(sorted({ApprovalId(one.answer) for one in review.destinations if one.answer}))


def require_allow(decision: Decision, principal: Principal) -> None:
    """Return if `decision` allows, and what it asks of the token is met; raise why not otherwise.

    A scope comes last: whoever grants it has not answered what else stands against the call, so it
    is asked for only where nothing else does.
    """
    match decision.verdict:
        case Verdict.ALLOW:
            if decision.obligations:
                _require_step_up(decision, principal)
        case Verdict.ASK:
            raise ApprovalRequired("a person must approve this call first", reasons=told(decision))
        case Verdict.DENY:
            if {reason.code for reason in decision.reasons} == {InsufficientScope.code}:
                _require_step_up(decision, principal)
            raise Denied("policy does not allow this call", reasons=told(decision))


def told(decision: Decision) -> list[tuple[str, str]]:
    """Return the decision's reasons as an error carries them to the caller."""
    return [(reason.code, reason.message) for reason in decision.reasons]


def _require_step_up(decision: Decision, principal: Principal) -> None:
    for obligation in decision.obligations:
        if obligation.duty is Duty.REQUIRE_STEP_UP:
            needed = obligation.detail["scopes"]
            if not principal.scopes.issuperset(needed):
                lacks = ", ".join(sorted(set(needed) - principal.scopes))
                raise InsufficientScope(f"the token lacks a scope: {lacks}", scopes=needed)


def late_permit(access: AccessRequest, decision: Decision, late: LateCall) -> Permit:
    """Permit what is said to a call that went out by `decision`, and whose answer is late.

    Nothing is sent with it: it is what the answer is judged with, in the run that gets it now.
    """
    require_allow(decision, access.principal)
    return Permit(
        call=access.call,
        principal=access.principal,
        run=access.run,
        decision=decision,
        access=access,
        session=None,
        premises=_premises(access, decision, None),
        late=late,
    )


def protocol_permit(
    call: Call,
    principal: Principal,
    run: Run,
    session: str | None,
    *,
    id_: str,
    policy_digest: str,
    last_look: Callable[[Permit], None],
) -> Permit:
    """Permit one of the protocol's own messages, which have no target to decide about.

    A handshake, a ping, a notification, the frame of a list: that the token is one for this
    endpoint is all they need. What a list shows, and every request of the server's on a stream,
    is decided one by one when it comes.
    """
    decision = Decision(
        id=id_,
        verdict=Verdict.ALLOW,
        reasons=(Reason(code="protocol", message="a message of the protocol itself"),),
        policy_digest=policy_digest,
    )
    return Permit(
        call=under_our_span(call, id_),
        principal=principal,
        run=run,
        decision=decision,
        access=None,
        session=session,
        premises=Premises(
            run=run.id,
            version=run.version,
            policy=policy_digest,
            people=principal.people,
            carries=_shows(call),
        ),
        last_look=last_look,
    )


def _shows(call: Call) -> bool:
    """Whether an answer to a message of the protocol's shows anything that is remembered of its run.

    We show what was approved. A handshake comes before its client has a session to be known by.
    """
    message = call.message
    if call.server == OWN or message.form not in (Form.REQUEST, Form.STREAM):
        return False
    return message.method not in _SHOWS_NOTHING

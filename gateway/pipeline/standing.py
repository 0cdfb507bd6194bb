"""Answers that stand: which of them count for a call, and whether one to it could."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from gateway.domain.approvals import Approval
from gateway.domain.calls import AccessRequest, Call
from gateway.domain.decisions import Verdict
from gateway.domain.flow import Run
from gateway.domain.identity import Principal
from gateway.domain.labels import Confidentiality
from gateway.domain.standing import (
    STANDS_FOR,
    Places,
    StandingAnswer,
    is_as_approved,
    is_short,
    places_of,
)
from gateway.domain.tools import Kind
from gateway.errors import PolicyUnavailable
from gateway.flow.choice import if_answered
from gateway.flow.evidence import quoted
from gateway.flow.question import flow_input
from gateway.pipeline.decide import Subject
from gateway.ports import PolicyEngine
from gateway.ports.standing import StandingAnswers

_MOST_TOLD = 5


def standing_for(
    answers: StandingAnswers, principal: Principal, run: Run, subject: Subject, *, now: float
) -> tuple[StandingAnswer, ...]:
    """Return what stands for a call of `principal` whose effect is one that answers may stand for."""
    return tuple(
        one
        for one in answers.of(principal.key)
        if one.target == subject.target
        and is_as_approved(subject.pin, one)
        and one.confidentiality >= run.label.confidentiality
        and one.expires_at > now
    )


def standing_places(access: AccessRequest) -> Places | None:
    """Return where a call goes, if a person's answer to it could stand at all.

    A secret in the run is no matter of where a call goes.
    """
    is_one = access.target.kind is Kind.TOOL and access.effect in STANDS_FOR
    if not is_one or access.run.label.confidentiality >= Confidentiality.SECRET:
        return None
    places = places_of(access.review.destinations)
    return places if places is not None and is_short(places) else None


async def may_stand(access: AccessRequest, policy: PolicyEngine) -> bool:
    """Tell whether policy lets this call out if a person chose its destinations; silence is a no.

    Whatever else stands against it, a person has to look at each time.
    """
    supposed = {**access.asked, "flow": flow_input(if_answered(access.review))}
    try:
        (decision,) = await policy.evaluate_many([supposed])
    except PolicyUnavailable:
        return False
    return decision.verdict is Verdict.ALLOW


def history(places: Places, yeses: Sequence[Approval], call: Call) -> Iterator[str]:
    """Yield, for people, who has let the same agent send to the same places with the same tool as `call`.

    Which are the same is told by their values: a token is another one's in another run.
    """
    for place in sorted(places)[:_MOST_TOLD]:
        given = [one for one in yeses if place in one.request.places]
        if given:
            last = given[-1]
            day = datetime.fromtimestamp(last.at or 0.0, UTC).date().isoformat()
            times = "once" if len(given) == 1 else f"{len(given)} times"
            to = quoted(call.as_written(place[1]))
            told = f"Before, a person let this agent send to {to} with this tool {times}"
            yield f"{told}, last {last.by} on {day}."

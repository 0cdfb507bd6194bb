"""Policy behind which stands somebody else's decision point: both must allow a call."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from gateway.domain.decisions import Decision, Phase, Reason, Verdict
from gateway.policy.around import Around
from gateway.policy.opinions import Opinion
from gateway.ports import PolicyEngine

CODE: Final = "decision_point"
_NO: Final = "the decision point that is asked beside policy does not allow this"
_ASKS: Final = (
    "it would ask somebody there first; no request goes out from here, so ask for it there"
)
_UNMET: Final = "it allows this with an obligation that nobody here can meet"


class Point(Protocol):
    """Whoever is asked beside policy."""

    async def opinion(self, asked: Mapping[str, Any]) -> Opinion:
        """Return what it says now; nothing that it said before.

        Raises:
            PolicyUnavailable: It does not say, or not in time.

        """
        ...


class Beside(Around):
    """The policy in force, whose every yes about a call, and every question to people, needs a second one.

    The strictest counts: a no of policy is not asked about, and its reasons stand alone; a no of the
    decision point ends what policy would have asked people about. Obligations of both are met. What
    may be listed is policy's to say alone. No answer is kept.
    """

    def __init__(self, live: PolicyEngine, point: Point) -> None:
        super().__init__(live)
        self._point = point

    @property
    def digest(self) -> str:
        """Names the policy in force."""
        return self._live.digest

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        """Answer one question.

        Raises:
            PolicyUnavailable: One of them gave no usable answer.

        """
        return await self._both(question, await self._live.evaluate(question))

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        """Answer each question, in order; as `evaluate`."""
        decisions = await self._live.evaluate_many(questions)
        both = zip(questions, decisions, strict=True)
        return list(await asyncio.gather(*(self._both(*each) for each in both)))

    async def _both(self, question: Mapping[str, Any], decision: Decision) -> Decision:
        if question["phase"] != Phase.CALL or decision.verdict is Verdict.DENY:
            return decision
        opinion = await self._point.opinion(question)
        if opinion.allowed:
            return replace(decision, obligations=(*decision.obligations, *opinion.obligations))
        return replace(decision, verdict=Verdict.DENY, reasons=_reasons(opinion), obligations=())


def _reasons(opinion: Opinion) -> tuple[Reason, ...]:
    reasons = [Reason(code=CODE, message=_UNMET if opinion.unmet else _NO)]
    if opinion.code:
        reasons.append(Reason(code=f"{CODE}:{opinion.code}", message="so it says why"))
    if opinion.asks:
        reasons.append(Reason(code=f"{CODE}_asks", message=_ASKS))
    return tuple(reasons)

"""People who answer for good whatever they are asked about a task of the user's, where that is offered.

What an answer is good for is what the gateway takes it for (`gateway.pipeline.standing`): a question of
this very tool, to exactly these places, of a run that has read nothing worse.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from gateway.domain.approvals import ApprovalId
from gateway.domain.decisions import Verdict
from gateway.domain.document import Digest
from gateway.domain.flow import FlowReview, Run
from gateway.domain.labels import Confidentiality, Effect
from gateway.domain.standing import STANDS_FOR, Places, StandingAnswer, is_short, places_of
from gateway.domain.tools import Kind, Target, UpstreamId
from gateway.flow.choice import if_answered
from gateway.flow.question import flow_input
from gateway.policy.wasm import WasmEngine

Tool = tuple[str, str]


class People:
    """What stands, by tool. Once nobody is asked any more, nothing new does."""

    def __init__(self) -> None:
        self.are_asked = True
        self._answers: defaultdict[Tool, list[StandingAnswer]] = defaultdict(list)

    def answers(self, tool: Tool, run: Run) -> tuple[StandingAnswer, ...]:
        """Return what stands for a call of `tool` in `run`."""
        least = run.label.confidentiality
        return tuple(one for one in self._answers[tool] if one.confidentiality >= least)

    def answer(
        self,
        question: Mapping[str, Any],
        flow: FlowReview,
        *,
        run: Run,
        tool: Tool,
        effect: Effect,
        engine: WasmEngine,
    ) -> bool:
        """Say yes for good, if that is offered; tell whether it was."""
        places = places_of(flow.destinations)
        if (
            not self.are_asked
            or effect not in STANDS_FOR
            or run.label.confidentiality >= Confidentiality.SECRET
            or places is None
            or not is_short(places)
        ):
            return False
        supposed = {**question, "flow": flow_input(if_answered(flow))}
        if engine.decide(supposed).verdict is not Verdict.ALLOW:
            return False
        self._answers[tool].append(_answer(tool, places, run))
        return True


def _answer(tool: Tool, places: Places, run: Run) -> StandingAnswer:
    server, name = tool
    return StandingAnswer(
        id=ApprovalId("a_1"),
        principal="emma",
        subject="emma",
        user_id="emma",
        client_id="agent",
        client_name="agent",
        target=Target(server=UpstreamId(server), kind=Kind.TOOL, name=name),
        pin_digest=Digest.of(name.encode()),
        confidentiality=run.label.confidentiality,
        places=places,
        by="emma",
        by_user_id="emma",
        note="",
        given_at=0.0,
        expires_at=float("inf"),
    )

"""The policy where there is none: everything is refused."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.domain.decisions import Decision, Reason, Verdict
from gateway.domain.tools import Disposition
from gateway.errors import PolicyUnavailable
from gateway.policy.ids import new_decision_id

_NO_POLICY = Reason(code="no_policy", message="no policy is in force that could allow this")


class RefusingEngine:
    """In force where a policy says nothing about `data.douane.decision`."""

    def __init__(self, *, digest: str, new_id: Callable[[], str] = new_decision_id) -> None:
        self._digest = digest
        self._new_id = new_id

    @property
    def digest(self) -> str:
        """Names the policy that says nothing."""
        return self._digest

    def holds(self, digest: str) -> bool:
        """Whether this is the policy of that name; see `PolicyEngine`."""
        return digest == self._digest

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        """Refuse."""
        del question
        return Decision(
            id=self._new_id(),
            verdict=Verdict.DENY,
            reasons=(_NO_POLICY,),
            policy_digest=self._digest,
        )

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        """Refuse each."""
        return [await self.evaluate(question) for question in questions]

    async def judge_pin(self, question: Mapping[str, Any]) -> str:
        """Have it wait for a person."""
        del question
        return Disposition.HOLD.value

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        """Have nothing approved before there is a policy to say by how many."""
        del question
        raise PolicyUnavailable("no policy is in force that could say who must approve")

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        """Let nobody answer for themselves."""
        del question
        return False

    async def close(self) -> None:
        """Nothing is held that would have to be given back."""


class ClosedEngine(RefusingEngine):
    """In force where a policy was put out of force and none came in its place: nothing is answered."""

    def __init__(self) -> None:
        super().__init__(digest="")

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        """Answer nothing."""
        del question
        raise PolicyUnavailable("the policy is not in force any more")

    async def judge_pin(self, question: Mapping[str, Any]) -> str:
        """Answer nothing."""
        del question
        raise PolicyUnavailable("the policy is not in force any more")

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        """Answer nothing."""
        del question
        raise PolicyUnavailable("the policy is not in force any more")

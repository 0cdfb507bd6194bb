"""Policy while everything is stopped: nobody is asked, and the answer is no."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.domain.decisions import Decision
from gateway.policy.around import Around
from gateway.ports import PolicyEngine


class Stoppable(Around):
    """A policy whose questions about calls, lists and results are refused while a stop holds.

    What people decide about definitions goes on meanwhile: nothing is called for that.
    """

    def __init__(
        self, live: PolicyEngine, *, require_none: Callable[[], None], holds: Callable[[], bool]
    ) -> None:
        """Refuse where `require_none` raises; `holds` says whether it would."""
        super().__init__(live)
        self._require_none = require_none
        self._holds = holds

    @property
    def digest(self) -> str:
        """Names the policy in force; another one while everything is stopped.

        What is remembered of answers is remembered by it, and none of them holds then.
        """
        return f"{self._live.digest} stopped" if self._holds() else self._live.digest

    def holds(self, digest: str) -> bool:
        """Whether what was decided by the policy of this name may be done still: nothing, once stopped."""
        return not self._holds() and self._live.holds(digest)

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        """Answer one question.

        Raises:
            Stopped: Everything is stopped, or was while it was answered.

        """
        self._require_none()
        decision = await self._live.evaluate(question)
        self._require_none()
        return decision

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        """Answer each question, in order; as `evaluate`."""
        self._require_none()
        decisions = await self._live.evaluate_many(questions)
        self._require_none()
        return decisions

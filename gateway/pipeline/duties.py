"""What policy says of what a server says (phase `result`), and the duties that its answer sets."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.calls import Permit
from gateway.domain.decisions import Decision, Duty
from gateway.domain.flow import FlowReview, Run
from gateway.pipeline.decide import require_allow, result_question
from gateway.pipeline.labels import Labeller
from gateway.pipeline.sensitive import Edge, Sensitive
from gateway.ports import PolicyEngine
from gateway.ports.allowance import Allowance


class Duties:
    """Asks policy about what was said, and meets what is not met by changing it."""

    def __init__(
        self, *, policy: PolicyEngine, labels: Labeller, limits: Allowance, sensitive: Sensitive
    ) -> None:
        self._sensitive = sensitive
        self.masker = sensitive.masker
        self.read = sensitive.read
        self.recorded = sensitive.recorded
        self._policy = policy
        self._labels = labels
        self._limits = limits

    async def asked(
        self,
        permit: Permit,
        question: Mapping[str, Any],
        said: Mapping[str, Any],
        run: Run,
        *,
        size: int,
        edge: Edge | None = None,
        wary: bool = True,
    ) -> Decision:
        """Return what policy says of what was `said` to the `question` that a call was decided on.

        `size` is that of its message in bytes; with `edge` it goes on from an event before. Unless it
        is `wary`, nothing of a sensitive class can stand there. Nothing of the answer is met yet.
        """
        flow = FlowReview(label=run.label, sources=run.sources)
        found = await self._sensitive.in_answer(permit, said, size, edge) if wary else []
        return await self._policy.evaluate(result_question(question, flow, said, found))

    async def require(
        self, permit: Permit, decision: Decision, what: str, record: str | None
    ) -> Run | None:
        """Return if `decision` allows `what` was said; the run, if the decision raised it.

        `record` is the id of the intent's record of what it was said to; without one whoever
        asks names a source of the run themselves.

        Its label, its rate and its scopes are met by then. What changes content is left.

        Raises:
            GatewayError: Policy refuses, or the token or the rate does not suffice.

        """
        require_allow(decision, permit.principal)
        if not decision.obligations:
            return None
        await self.count(permit, decision, what)
        return await self._labels.raise_for_decision(permit, decision, record)

    async def count(self, permit: Permit, decision: Decision, what: str) -> None:
        """Count `what` was said against the rate that `decision` asks for.

        Raises:
            RateLimited: It is used up.

        """
        for obligation in decision.obligations:
            if obligation.duty is Duty.RATE_LIMIT:
                key = f"{permit.principal.key}|{permit.call.server}|{what}"
                await self._limits.take(key, obligation.detail["calls_per_minute"])

"""A policy that is asked beside the one in force, decides nothing, and has its answers recorded."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.domain.decisions import Decision
from gateway.errors import ConfigError, PolicyUnavailable
from gateway.policy.around import Around
from gateway.ports import PolicyEngine

OnAnswer = Callable[[str, str], None]
"""Told of every answer: the candidate's verdict, or `error`, and the live one."""


MOST_FAILURES = 5
REST_S = 10.0
"""How long a candidate is left alone that fails so many times in a row: each failure costs the call
that it stands beside a few milliseconds."""


class Shadowed(Around):
    """The policy in force, with what a candidate says to the same questions in its decisions.

    It answers as the policy in force does, whatever the candidate does. Lists, pins and what people
    may approve are asked of the policy in force alone.
    """

    def __init__(
        self,
        live: PolicyEngine,
        candidate: PolicyEngine,
        *,
        deadline_s: float,
        on_answer: OnAnswer,
    ) -> None:
        """Wait for the candidate `deadline_s` at most; one in this process ends by itself."""
        super().__init__(live)
        self._candidate = candidate
        self._deadline_s = deadline_s
        self._on_answer = on_answer
        self._failed = 0
        """Times in a row."""
        self._rests_until = 0.0

    @property
    def digest(self) -> str:
        """Names the policy in force."""
        return self._live.digest

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        """Answer by the policy in force; the candidate's answer is in `Decision.candidate`."""
        decision = await self._live.evaluate(question)
        answer = await self._asked(question)
        self._on_answer(answer.get("verdict", "error"), decision.verdict.value)
        return replace(decision, candidate=answer)

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        """Answer each question, in order, by the policy in force."""
        return await self._live.evaluate_many(questions)

    async def _asked(self, question: Mapping[str, Any]) -> dict[str, Any]:
        digest = self._candidate.digest
        if not digest:
            return {"error": "no candidate could be loaded"}
        loop = asyncio.get_running_loop()
        if loop.time() < self._rests_until:
            return {"policy_digest": digest, "error": "it failed again and again, and rests"}
        try:
            async with asyncio.timeout(self._deadline_s):
                decision = await self._candidate.evaluate(question)
        except (PolicyUnavailable, ConfigError, TimeoutError) as error:
            self._failed += 1
            if self._failed >= MOST_FAILURES:
                self._failed, self._rests_until = 0, loop.time() + REST_S
            detail = "" if isinstance(error, TimeoutError) else error.detail or error.public
            return {"policy_digest": digest, "error": detail or "it gave no answer in time"}
        self._failed = 0
        answer: dict[str, Any] = {
            "policy_digest": decision.policy_digest,
            "verdict": decision.verdict.value,
            "reasons": [reason.code for reason in decision.reasons],
        }
        if decision.obligations:
            answer["obligations"] = [
                {"duty": o.duty.value, **o.detail} for o in decision.obligations
            ]
        return answer

"""What other parts hold on to while configurations come and go."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.domain.decisions import Decision
from gateway.domain.identity import Credential, Principal
from gateway.ports import PolicyEngine
from gateway.wiring.runtime import Runtime


class AuthenticatorInForce:
    """Whoever checks tokens in the configuration in force."""

    def __init__(self, current: Callable[[], Runtime]) -> None:
        self._current = current

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        return await self._current().authorization.authenticator.authenticate(credential, endpoint)


class PolicyInForce:
    """The policy of whatever configuration is in force."""

    def __init__(
        self, current: Callable[[], PolicyEngine], candidate: Callable[[], str | None]
    ) -> None:
        self._current = current
        self._candidate = candidate

    @property
    def digest(self) -> str:
        return self._current().digest

    @property
    def candidate_digest(self) -> str | None:
        """Names the candidate that is asked beside it, if one is; empty if it cannot be used."""
        return self._candidate()

    def holds(self, digest: str) -> bool:
        return self._current().holds(digest)

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        return await self._current().evaluate(question)

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        return await self._current().evaluate_many(questions)

    async def judge_pin(self, question: Mapping[str, Any]) -> str:
        return await self._current().judge_pin(question)

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        return await self._current().pin_approvals(question)

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        return await self._current().self_approval(question)

"""The policy of a gateway that is not running."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.config import Config
from gateway.domain.decisions import Decision
from gateway.errors import ConfigError, PolicyUnavailable
from gateway.policy import commands as policy_commands
from gateway.policy.sources import read_sources
from gateway.policy.toolchain import find_opa
from gateway.wiring.settings import policy_data, policy_settings
from gateway.wiring.shadow import candidate_settings


class PolicyOnDemand:
    """The policy of a gateway that is not running: put together anew for each question."""

    def __init__(self, config: Config) -> None:
        self._settings = policy_settings(config)
        self._data = policy_data(config)
        self._candidate = config.policy.candidate and candidate_settings(config, self._settings)

    @property
    def digest(self) -> str:
        """Names the policy that the gateway would begin with; empty if its server says it."""
        if self._settings.server is not None:
            return ""
        return read_sources(self._settings, find_opa()).digest(self._data)

    @property
    def candidate_digest(self) -> str | None:
        """Names the candidate that would be asked beside it, if one is configured."""
        if not self._candidate:
            return None
        return read_sources(self._candidate, find_opa()).digest(self._data)

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        """Answer one question.

        Raises:
            PolicyUnavailable: The policy cannot be used, or has no usable answer.

        """
        try:
            return await policy_commands.evaluate(self._settings, self._data, question)
        except ConfigError as error:
            raise PolicyUnavailable(error.public, detail=error.detail) from error

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        """Answer each question, in order."""
        return [await self.evaluate(question) for question in questions]

    async def judge_pin(self, question: Mapping[str, Any]) -> str:  # noqa: ARG002 - the port's
        """Hold: what changes while no gateway runs waits for a person."""
        return "hold"

    def holds(self, digest: str) -> bool:
        """Say whether that is the policy which lies there."""
        return digest == self.digest

    async def self_approval(self, question: Mapping[str, Any]) -> bool:  # noqa: ARG002 - the port's
        """Answer no: where no gateway runs, nobody calls anything."""
        return False

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        """Ask how many people must approve a definition.

        Raises:
            PolicyUnavailable: The policy cannot be used, or has no usable answer.

        """
        try:
            return await policy_commands.pin_approvals(self._settings, self._data, question)
        except ConfigError as error:
            raise PolicyUnavailable(error.public, detail=error.detail) from error

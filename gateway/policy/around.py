"""What a policy that stands before another one leaves to that one."""

from collections.abc import Mapping
from typing import Any

from gateway.ports import PolicyEngine


class Around:
    """What people may decide about definitions and calls is asked of the policy in force alone.

    So is which policy is in force.
    """

    def __init__(self, live: PolicyEngine) -> None:
        self._live = live

    def holds(self, digest: str) -> bool:
        return self._live.holds(digest)

    async def judge_pin(self, question: Mapping[str, Any]) -> str:
        return await self._live.judge_pin(question)

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        return await self._live.pin_approvals(question)

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        return await self._live.self_approval(question)

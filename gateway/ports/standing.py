"""Answers of people that stand: what the pipeline asks of them, and what keeps them."""

from collections.abc import Sequence
from typing import Protocol

from gateway.domain.approvals import ApprovalId
from gateway.domain.standing import StandingAnswer


class StandingAnswers(Protocol):
    """Durable. Reading is from memory; what cannot be known does not stand."""

    def of(self, principal: str) -> Sequence[StandingAnswer]:
        """Return what stands for this principal, whatever the time is. Asked at every call."""
        ...

    def all(self) -> Sequence[StandingAnswer]:
        """Return what stands, oldest first."""
        ...

    def get(self, id_: ApprovalId) -> StandingAnswer | None: ...

    async def give(self, answer: StandingAnswer) -> None:
        """Have `answer` stand, in place of one to the same of the same principal; durable on return.

        Raises:
            RateLimited: So many stand already that nobody could look through them.

        """
        ...

    async def end(self, id_: ApprovalId, because: str) -> bool:
        """Have it stand no more, durable on return; false if it does not."""
        ...

    async def ended(self) -> Sequence[tuple[StandingAnswer, str]]:
        """Return what ended by itself and nobody was told of, each with why.

        The revocation of a grant of its person with its client ends it, and so does the end of either.
        """
        ...

    async def forget(self, ids: Sequence[ApprovalId]) -> None:
        """Forget of what ended that somebody was to be told."""
        ...

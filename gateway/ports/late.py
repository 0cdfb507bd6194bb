"""The seam of calls whose answer is late."""

from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.domain.late import LateCall, LateId, Progress


class LateCalls(Protocol):
    """The ledger of late calls, durable. Reading is from memory and never waits."""

    def find(self, id_: LateId) -> LateCall | None: ...

    def has_room(self, person: str, octets: int) -> bool:
        """Whether one more of this person's can be kept, with whatever client, of `octets` bytes."""
        ...

    async def begin(self, late: LateCall) -> None:
        """Keep a call whose answer is late; durable on return.

        Raises:
            LimitExceeded: Too many are open, or hold too much, of its person's or of all.

        """
        ...

    async def change(self, id_: LateId, step: Callable[[Progress], Progress]) -> Progress | None:
        """Make `step` of what became of it, atomically; durable on return if it changes anything.

        Returns what it was before; `None` if it is not kept.
        """
        ...

    def unsettled(self, *, now: float) -> Sequence[LateCall]:
        """Return those whose time has passed and whose end nobody saw, or has on record."""
        ...

    async def forget(self, *, before: float) -> int:
        """Forget those that ran out before then and are on record; return how many."""
        ...

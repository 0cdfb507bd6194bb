"""The seam of what principals choose to see in front of all servers."""

from collections.abc import Callable
from typing import Protocol

from gateway.domain.selection import Choices, Selection


class ChoiceStore(Protocol):
    """What principals have chosen, by `Principal.key`; durable."""

    def of(self, principal: str) -> Choices:
        """Return what a principal has chosen; from memory, never waits."""
        ...

    async def choose(
        self,
        principal: str,
        change: Callable[[Choices], Selection],
        *,
        runs: frozenset[str],
        session: str = "",
    ) -> Selection:
        """Make what `change` makes of all choices the next one; durable on return.

        `change` is pure; of changes at once each begins with what the one before it made. It is in
        force in `session`, if there is one, and in every run but `runs`.
        """
        ...

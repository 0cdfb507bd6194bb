"""Where what is usual for whom is kept."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class BaselineStore(Protocol):
    """What was learned from the log, and from how much of it: the two never part."""

    async def kept(self) -> tuple[int | None, Sequence[tuple[str, bytes]]]:
        """Return the leaf index of the last record that was learned from, and what was learned.

        Raises:
            AuditUnavailable: It cannot be read now.

        """
        ...

    async def keep(self, leaf_index: int, changes: Mapping[str, bytes | None]) -> None:
        """Remember `changes`, and that all up to `leaf_index` was learned from; all or nothing.

        A row of `None` is deleted. Durable on return.

        Raises:
            AuditUnavailable: It is not, or not known to be.

        """
        ...

    async def forget(self) -> None:
        """Forget all of it: what is learned next is learned from the first record on.

        Raises:
            AuditUnavailable: It is not, or not known to be.

        """
        ...

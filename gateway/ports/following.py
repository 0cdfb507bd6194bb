"""How records leave the log: read in order, handed on, and remembered how far."""

from collections.abc import Sequence
from dataclasses import field
from typing import Protocol

from gateway.domain._value import value


@value
class Refused:
    """The one record that a sink does not take; all before it have arrived."""

    leaf_index: int
    answer: str = field(repr=False)
    """What whoever refuses it says; may quote the record, so it is for those who may read that."""


class NotDelivered(Exception):
    """What was handed on did not arrive, or is not known to have; it is tried again.

    `retry_after_s` is how long whoever was to take it asks us to wait, in seconds. `refused` is the
    record that it is about, where it is known to be about one alone.
    """

    def __init__(
        self, why: str, *, retry_after_s: float = 0.0, refused: Refused | None = None
    ) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s
        self.refused = refused


@value
class StoredRecord:
    """A record as it lies in the log."""

    leaf_index: int
    leaf_hash: bytes
    body: bytes
    """The exact bytes under the leaf: UTF-8 JSON."""


class RecordSource(Protocol):
    """Blocking reads of the log, in its order; used by one thread at a time."""

    def stored_after(self, leaf_index: int, limit: int) -> Sequence[StoredRecord]:
        """Return the records after that of `leaf_index`, oldest first; -1 is before all.

        Where the next ones were removed by retention, it goes on with the first that is there.

        Raises:
            AuditUnavailable: The log cannot be read now.

        """
        ...


class CursorStore(Protocol):
    """How far each follower has come; durable on return."""

    async def cursor(self, name: str) -> int | None:
        """Return the leaf index of the last record that is done with; `None` before the first."""
        ...

    async def move(self, name: str, leaf_index: int) -> None:
        """Remember that all up to `leaf_index` is done with."""
        ...


class Turn(Protocol):
    """Which of the gateways that share a log follows it: one at a time."""

    async def taken(self) -> None:
        """Return once this one does."""
        ...

    async def lost(self) -> None:
        """Return once it is not known any more that this one does."""
        ...

    def close(self) -> None:
        """Let another one. Blocking."""
        ...


class Sink(Protocol):
    """Where a follower hands records to."""

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Return once all of `records` have arrived, in their order.

        Some may come again: whoever receives them knows them by `id` or `leaf_index`.

        Raises:
            NotDelivered: They have not, or it is not known.

        """
        ...

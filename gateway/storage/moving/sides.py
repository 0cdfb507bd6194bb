"""What is moved, and the seam of the two places between which it is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from gateway.audit.checkpoint import VerifierKey
from gateway.domain._value import value
from gateway.domain.secrets import DataKey
from gateway.ports.secrets import Sealer
from gateway.storage.moving.mark import Moved
from gateway.storage.moving.tables import Kept
from gateway.storage.verify import Verification

Row = tuple[Any, ...]
"""The columns of a table's `Kept`, as SQLite has them, wherever they come from."""
Rows = Callable[[Kept], Iterator[Row]]


@value
class Contents:
    """What is kept beside the tables."""

    log_id: str
    size: int
    """How many records were ever in the log."""
    front: int
    """How many of them have left it."""
    stopped: str | None
    """Who has stopped all calls, as it was written; `None` if nobody has."""
    data_keys: tuple[DataKey, ...] = field(repr=False)
    """By their ids."""
    secrets: Mapping[str, bytes] = field(repr=False)
    """The gateway's own keys: `audit` (PKCS 8, DER), `hmac`, `seal`, `seal.former`, `record-hash-2`."""


class Side(Protocol):
    """One place, held by this process alone while it is open."""

    @property
    def place(self) -> str:
        """What people call it."""
        ...

    def mark(self) -> Moved | None:
        """Return why it does not serve; `None` if it does, or nothing is there."""
        ...

    def data_keys(self) -> Sequence[DataKey]:
        """Return the wrapped keys, by their ids."""
        ...

    def contents(self, sealer: Sealer) -> Contents:
        """Return what is beside the tables.

        Raises:
            ConfigError: A key cannot be read, or opened.

        """
        ...

    def rows(self, kept: Kept, *, after: int | None = None) -> Iterator[Row]:
        """Yield a table's rows; of one that grows, in order, those whose number is more than `after`."""
        ...

    def verified(self, verifier: VerifierKey) -> Verification:
        """Compare the log with itself and with all its checkpoints."""
        ...


class Source(Side, Protocol):
    """Where it is."""

    def require_whole(self) -> None:
        """Return if all that was ever acknowledged is in the tables, of this version, and nobody serves.

        Raises:
            ConfigError: It is not, with what helps.

        """
        ...

    def part(self, moved: Moved) -> None:
        """Have nothing served from here any more, durable on return.

        Raises:
            ConfigError: Somebody serves.

        """
        ...


class Target(Side, Protocol):
    """Where it comes to."""

    def require_empty(self) -> None:
        """Return if nothing is there, or nothing but what the move that is marked has brought.

        Raises:
            ConfigError: Something is, or somebody serves.

        """
        ...

    def begin(self, moved: Moved) -> None:
        """Make the tables, and have nothing served from there before `serve`; durable on return.

        Raises:
            ConfigError: Something is there, or somebody serves.

        """
        ...

    def newest(self, kept: Kept) -> int | None:
        """Return the last number that a table that grows has; `None` if it has none."""
        ...

    def add(self, kept: Kept, rows: Sequence[Row]) -> None:
        """Have further rows of a table that grows; all of them or none, durable on return."""
        ...

    def keep(self, contents: Contents, rows: Rows, sealer: Sealer) -> None:
        """Have everything but what grows, in place of what is there; durable on return.

        Cut short, it can be done again.
        """
        ...

    def serve(self) -> None:
        """Let gateways serve from it; durable on return."""
        ...

"""Reading what an export is made of: exact records, signed checkpoints, roots of what is left out."""

from collections.abc import Mapping, Sequence

from gateway.audit.query import Statement
from gateway.storage.connection import Readable
from gateway.storage.cosignatures import cosignatures, newest_cosigned
from gateway.storage.tree import front_of, root_of


class BundleReader:
    """Blocking reads, each of them short; used by one thread at a time."""

    def __init__(self, connection: Readable) -> None:
        self._connection = connection

    @property
    def front(self) -> int:
        """The leaf index of the first record that is still here."""
        return front_of(self._connection)

    def head(self) -> tuple[int, str] | None:
        """Return the size and the note of the newest signed checkpoint, cosigned as it is."""
        found: tuple[int, str] | None = self._connection.execute(
            "SELECT size, note FROM checkpoints ORDER BY size DESC LIMIT 1"
        ).fetchone()
        return None if found is None else self._cosigned(*found)

    def heads(self, after: int, stop: int) -> Sequence[tuple[int, str]]:
        """Return the checkpoints of more than `after` records and of `stop` at most, in order."""
        return self._connection.execute(
            "SELECT size, note FROM checkpoints WHERE size > ? AND size <= ? ORDER BY size",
            (after, stop),
        ).fetchall()

    def witnessed(self, size: int) -> Mapping[int, str]:
        """Return each witness's newest checkpoint among those of `size` at most, by its size."""
        return dict(self._cosigned(*one) for one in newest_cosigned(self._connection, size))

    def selected(self, statement: Statement, part: range) -> Sequence[tuple[int, bytes]]:
        """Return leaf index and exact bytes of what a compiled filter selects of these records."""
        return self._connection.execute(
            "SELECT leaf_index, CAST(body AS BLOB) FROM audit"  # noqa: S608 - of compiled conditions
            f" WHERE leaf_index >= ? AND leaf_index < ? AND ({statement.where})"
            " ORDER BY leaf_index",
            (part.start, part.stop, *statement.parameters),
        ).fetchall()

    def root_of(self, part: range) -> bytes:
        """Return the root over a perfect subtree.

        Raises:
            ConfigError: The log is damaged.

        """
        return root_of(self._connection, part)

    def newest(self) -> int:
        """Return the last record's leaf index; -1 if there is none."""
        (last,) = self._connection.execute("SELECT max(leaf_index) FROM audit").fetchone()
        return -1 if last is None else int(last)

    def cursors(self) -> Sequence[tuple[str, int]]:
        """Return how far each follower has come, by its name."""
        return self._connection.execute(
            "SELECT name, leaf_index FROM cursors ORDER BY name"
        ).fetchall()

    def _cosigned(self, size: int, note: str) -> tuple[int, str]:
        return size, note + cosignatures(self._connection, size).get(size, "")

    def close(self) -> None:
        self._connection.close()

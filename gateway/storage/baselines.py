"""What is usual for whom, and from how much of the log it was learned, in one transaction."""

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.errors import AuditUnavailable
from gateway.storage.state import StateWriter, Tables

FOLLOWER = "baselines"
"""The name under which the cursor stands beside those of the other followers."""


_NOWHERE: Final = -2
"""Where no cursor stands."""


class DurableBaselines:
    """A `BaselineStore` in the log's own database.

    Of two that have learned from one place on, one keeps what it has learned: mixed it would be nobody's.
    """

    def __init__(self, writer: StateWriter) -> None:
        self._writer = writer
        self._blind = True
        """Whether it was not looked yet where the cursor stands."""
        self._at = self._tried = _NOWHERE
        """Where it stood when this one has last seen or moved it; and where a move was to lead of which
        it may not be known whether it was made."""

    async def kept(self) -> tuple[int | None, Sequence[tuple[str, bytes]]]:
        def job(tables: Tables) -> tuple[int | None, Sequence[tuple[str, bytes]]]:
            cursor = tables.execute(
                "SELECT leaf_index FROM cursors WHERE name = ?", (FOLLOWER,)
            ).fetchone()
            rows = tables.execute("SELECT subject, state FROM baselines").fetchall()
            return (None if cursor is None else int(cursor[0])), rows

        at, rows = await self._writer.run(job)
        self._blind, self._at = False, _NOWHERE if at is None else at
        return at, rows

    async def keep(self, leaf_index: int, changes: Mapping[str, bytes | None]) -> None:
        """Keep what was learned up to `leaf_index`, all of it or nothing.

        Raises:
            AuditUnavailable: It cannot be, or another gateway has kept something since.

        """
        there = [(key, row) for key, row in changes.items() if row is not None]
        gone = [(key,) for key, row in changes.items() if row is None]

        def job(tables: Tables) -> None:
            self._move(tables, leaf_index)
            tables.executemany("DELETE FROM baselines WHERE subject = ?", gone)
            tables.executemany(
                "INSERT INTO baselines (subject, state) VALUES (?, ?)"
                " ON CONFLICT (subject) DO UPDATE SET state = excluded.state",
                there,
            )

        try:
            await self._writer.run(job)
        finally:
            self._tried = leaf_index
        self._at = leaf_index

    async def forget(self) -> None:
        def job(tables: Tables) -> None:
            tables.execute("DELETE FROM baselines")
            tables.execute("DELETE FROM cursors WHERE name = ?", (FOLLOWER,))

        await self._writer.run(job)
        self._blind, self._at = False, _NOWHERE

    def _move(self, tables: Tables, leaf_index: int) -> None:
        moved = tables.execute(
            "INSERT INTO cursors (name, leaf_index) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET leaf_index = excluded.leaf_index"
            " WHERE cursors.leaf_index = ? OR cursors.leaf_index = ? OR ? = 1",
            (FOLLOWER, leaf_index, self._at, self._tried, int(self._blind)),
        )
        if moved.rowcount != 1:
            raise AuditUnavailable("another gateway learns what is usual by now")

"""What is usual for whom, and from how much of the log it was learned, in one transaction."""

from collections.abc import Mapping, Sequence

from gateway.storage.state import StateWriter, Tables

FOLLOWER = "baselines"
"""The name under which the cursor stands beside those of the other followers."""


class DurableBaselines:
    """A `BaselineStore` in the log's own database."""

    def __init__(self, writer: StateWriter) -> None:
        self._writer = writer

    async def kept(self) -> tuple[int | None, Sequence[tuple[str, bytes]]]:
        def job(tables: Tables) -> tuple[int | None, Sequence[tuple[str, bytes]]]:
            cursor = tables.execute(
                "SELECT leaf_index FROM cursors WHERE name = ?", (FOLLOWER,)
            ).fetchone()
            rows = tables.execute("SELECT subject, state FROM baselines").fetchall()
            return (None if cursor is None else int(cursor[0])), rows

        return await self._writer.run(job)

    async def keep(self, leaf_index: int, changes: Mapping[str, bytes | None]) -> None:
        there = [(key, row) for key, row in changes.items() if row is not None]
        gone = [(key,) for key, row in changes.items() if row is None]

        def job(tables: Tables) -> None:
            tables.executemany("DELETE FROM baselines WHERE subject = ?", gone)
            tables.executemany(
                "INSERT INTO baselines (subject, state) VALUES (?, ?)"
                " ON CONFLICT (subject) DO UPDATE SET state = excluded.state",
                there,
            )
            tables.execute(
                "INSERT INTO cursors (name, leaf_index) VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET leaf_index = excluded.leaf_index",
                (FOLLOWER, leaf_index),
            )

        await self._writer.run(job)

    async def forget(self) -> None:
        def job(tables: Tables) -> None:
            tables.execute("DELETE FROM baselines")
            tables.execute("DELETE FROM cursors WHERE name = ?", (FOLLOWER,))

        await self._writer.run(job)

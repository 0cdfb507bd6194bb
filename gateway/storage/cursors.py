"""How far each follower of the log has come, beside the log itself."""

from gateway.storage.state import StateWriter, Tables


class DurableCursors:
    """A `CursorStore` in the log's own database."""

    def __init__(self, writer: StateWriter) -> None:
        self._writer = writer

    async def cursor(self, name: str) -> int | None:
        def job(tables: Tables) -> int | None:
            row = tables.execute(
                "SELECT leaf_index FROM cursors WHERE name = ?", (name,)
            ).fetchone()
            return None if row is None else int(row[0])

        return await self._writer.run(job)

    async def move(self, name: str, leaf_index: int) -> None:
        def job(tables: Tables) -> None:
            tables.execute(
                "INSERT INTO cursors (name, leaf_index) VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET leaf_index = excluded.leaf_index",
                (name, leaf_index),
            )

        await self._writer.run(job)

    async def forget(self, name: str) -> None:
        """Forget a follower: it holds nothing in the log any more, and would begin anew.

        Raises:
            LookupError: There is none of that name.

        """

        def job(tables: Tables) -> None:
            found = tables.execute("DELETE FROM cursors WHERE name = ?", (name,))
            if found.rowcount != 1:
                raise LookupError(name)

        await self._writer.run(job)

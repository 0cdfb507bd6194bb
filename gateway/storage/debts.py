"""Calls of planes without a result that an earlier process left, in the table `plane_debts`.

What is owed comes into it with the records that say so; see `keep_owed`.
"""

from collections.abc import Sequence

from gateway.domain.flow import RunId, Source
from gateway.domain.labels import Confidentiality, Integrity, Label
from gateway.domain.planes import Debt
from gateway.storage.state import StateWriter, Tables

_COLUMNS = "decision, run, server, tool, record, integrity, confidentiality, due"
_ALL = f"SELECT {_COLUMNS} FROM plane_debts ORDER BY due, decision"  # noqa: S608 - fixed text
_DROP = "DELETE FROM plane_debts WHERE decision = ?"


class DurableDebts:
    """A `DebtStore`."""

    def __init__(self, writer: StateWriter, tables: Tables) -> None:
        """Read what is left through `tables`, which are not needed afterwards."""
        self._writer = writer
        self._left = [_debt(row) for row in tables.execute(_ALL)]

    def left(self) -> Sequence[Debt]:
        return self._left

    async def settle(self, decision: str) -> None:
        """Forget one; see `DebtStore`."""

        def job(tables: Tables) -> None:
            tables.execute(_DROP, (decision,))

        await self._writer.run(job)


def _debt(row: tuple[str, str, str, str, str, str, str, float]) -> Debt:
    decision, run, server, tool, record, integrity, confidentiality, due = row
    label = Label(
        integrity=Integrity[integrity.upper()],
        confidentiality=Confidentiality[confidentiality.upper()],
    )
    source = Source(server=server, tool=tool, record=record, label=label)
    return Debt(decision=decision, run=RunId(run), source=source, due=due)

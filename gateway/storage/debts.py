"""Calls of planes without a result, in the table `plane_debts`."""

from collections.abc import Sequence

from gateway.domain.flow import RunId, Source
from gateway.domain.labels import Confidentiality, Integrity, Label
from gateway.domain.planes import Debt
from gateway.storage.state import StateWriter, Tables

_COLUMNS = "decision, run, server, tool, record, integrity, confidentiality, due"
_ALL = f"SELECT {_COLUMNS} FROM plane_debts ORDER BY due, decision"  # noqa: S608 - fixed text
_KEEP = f"INSERT INTO plane_debts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_DROP = "DELETE FROM plane_debts WHERE decision = ?"


class DurableDebts:
    """A `DebtStore`."""

    def __init__(self, writer: StateWriter, tables: Tables) -> None:
        """Read what is left through `tables`, which are not needed afterwards."""
        self._writer = writer
        self._left = [_debt(row) for row in tables.execute(_ALL)]

    def left(self) -> Sequence[Debt]:
        return self._left

    async def owe(self, debt: Debt) -> None:
        """Keep `debt`; see `DebtStore`."""
        source, label = debt.source, debt.source.label
        row = (
            debt.decision,
            debt.run,
            source.server,
            source.tool,
            source.record,
            label.integrity.word,
            label.confidentiality.word,
            debt.due,
        )

        def job(tables: Tables) -> None:
            tables.execute(_KEEP, row)

        await self._writer.run(job)

    async def settle(self, decision: str) -> None:
        """Forget one; see `DebtStore`."""

        def job(tables: Tables) -> None:
            tables.execute(_DROP, (decision,))

        await self._writer.run(job)


class MemoryDebts:
    """A `DebtStore` that forgets at the end."""

    def __init__(self) -> None:
        self.kept: dict[str, Debt] = {}

    def left(self) -> Sequence[Debt]:
        return list(self.kept.values())

    async def owe(self, debt: Debt) -> None:
        """Keep `debt`; see `DebtStore`."""
        self.kept[debt.decision] = debt

    async def settle(self, decision: str) -> None:
        """Forget one; see `DebtStore`."""
        self.kept.pop(decision, None)


def _debt(row: tuple[str, str, str, str, str, str, str, float]) -> Debt:
    decision, run, server, tool, record, integrity, confidentiality, due = row
    label = Label(
        integrity=Integrity[integrity.upper()],
        confidentiality=Confidentiality[confidentiality.upper()],
    )
    source = Source(server=server, tool=tool, record=record, label=label)
    return Debt(decision=decision, run=RunId(run), source=source, due=due)

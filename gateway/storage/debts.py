"""Calls of planes without a result that an earlier process left, in the table `plane_debts`.

What is owed comes into it with the records that say so; see `keep_owed`.
"""

from collections.abc import Iterable, Mapping, Sequence

from gateway.domain.audit import AuditRecord, RecordKind
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


class MemoryDebts:
    """A `DebtStore` over the records of a log that forgets at the end."""

    def __init__(self, records: Iterable[AuditRecord]) -> None:
        self._records = records
        self._settled: set[str] = set()

    @property
    def kept(self) -> Mapping[str, Debt]:
        """What is owed by all that is on record now, by decision."""
        found: dict[str, Debt] = {}
        for record in self._records:
            decision = str(record.fields.get("decision_id"))
            if record.kind is RecordKind.OUTCOME:
                found.pop(decision, None)
            elif "owes" in record.fields and decision not in self._settled:
                found[decision] = _owed(record)
        return found

    def left(self) -> Sequence[Debt]:
        return list(self.kept.values())

    async def settle(self, decision: str) -> None:
        """Forget one; see `DebtStore`."""
        self._settled.add(decision)


def _owed(record: AuditRecord) -> Debt:
    said = record.fields
    worst = said["owes"]
    row = (said["decision_id"], said["run"], said["server"], said["target"], record.id)
    return _debt((*row, worst["integrity"], worst["confidentiality"], worst["until"]))


def _debt(row: tuple[str, str, str, str, str, str, str, float]) -> Debt:
    decision, run, server, tool, record, integrity, confidentiality, due = row
    label = Label(
        integrity=Integrity[integrity.upper()],
        confidentiality=Confidentiality[confidentiality.upper()],
    )
    source = Source(server=server, tool=tool, record=record, label=label)
    return Debt(decision=decision, run=RunId(run), source=source, due=due)

"""Programs, late calls and what planes owe, forgotten at the end."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.flow import RunId, Source
from gateway.domain.labels import Confidentiality, Integrity, Label
from gateway.domain.late import LateCall, LateId, Progress
from gateway.domain.planes import Debt
from gateway.domain.scripts import Script, ScriptId, ended_by
from gateway.ports.scripts import Parked
from gateway.storage.late_calls import LateBook
from gateway.storage.scripts import ScriptWatch


class MemoryScriptStore:
    """A `ScriptStore`."""

    def __init__(self) -> None:
        self._live: dict[ScriptId, Script] = {}
        self._parked: dict[ScriptId, Parked] = {}
        self._watch = ScriptWatch()
        self._used: Counter[tuple[ScriptId, int | None]] = Counter()

    async def begin(self, script: Script) -> None:
        """File a program."""
        self._live[script.id] = script

    def find(self, id_: ScriptId, *, now: float) -> Script | None:
        script = self._live.get(id_)
        return script if script is not None and now < script.expires_at else None

    def live(self, *, now: float) -> Sequence[Script]:
        found = [one for one in self._live.values() if now < one.expires_at]
        return sorted(found, key=lambda one: one.began)

    def waits(self, id_: ScriptId) -> bool:
        return id_ in self._parked

    def watched(self, id_: ScriptId, ended: Callable[[], object]) -> AbstractContextManager[None]:
        return self._watch.of(id_, ended)

    async def take(self, id_: ScriptId, grant: int | None, *, now: float) -> bool:
        """Use up one call, of the program and of its grant; see `ScriptStore`."""
        script = self.find(id_, now=now)
        if script is None or (script.most is not None and self._used[id_, None] >= script.most):
            return False
        if grant is not None:
            grants = script.grants or ()
            if grant >= len(grants) or self._used[id_, grant] >= grants[grant].most:
                return False
            self._used[id_, grant] += 1
        self._used[id_, None] += 1
        return True

    async def end(self, id_: ScriptId) -> bool:
        """End a program; see `ScriptStore`."""
        self._parked.pop(id_, None)
        self._watch.tell(id_)
        return self._live.pop(id_, None) is not None

    async def park(self, parked: Parked) -> None:
        """Keep a program until a person has answered; see `ScriptStore`."""
        if parked.script.id not in self._live:
            return
        waiting = [(one.script, len(one.snapshot)) for one in self._parked.values()]
        for id_ in ended_by(parked.script, len(parked.snapshot), waiting):
            await self.end(id_)
        self._parked[parked.script.id] = parked

    async def unpark(self, id_: ScriptId, principal: str, *, now: float) -> Parked | None:
        """Take a waiting program out again, once; see `ScriptStore`."""
        found = self._parked.get(id_)
        if found is None or found.script.principal != principal:
            return None
        return self._parked.pop(id_) if now < found.script.expires_at else None


class MemoryLateCalls:
    """A `LateCalls` that forgets at the end."""

    def __init__(self, most_open: int = 100) -> None:
        self._book = LateBook(lambda: most_open)
        self.find = self._book.find
        self.has_room = self._book.has_room
        self.unsettled = self._book.unsettled

    async def begin(self, late: LateCall) -> None:
        """Keep a call whose answer is late; see `LateCalls`."""
        self._book.require_room(late)
        self._book.drop(self._book.surplus(late))
        self._book.keep(late)

    async def change(self, id_: LateId, step: Callable[[Progress], Progress]) -> Progress | None:
        """Make `step` of what became of it; see `LateCalls`."""
        late = self._book.find(id_)
        if late is None:
            return None
        self._book.keep(replace(late, progress=step(late.progress)))
        return late.progress

    async def forget(self, *, before: float) -> int:
        """Forget what ran out before then; see `LateCalls`."""
        gone = self._book.outlived(before)
        self._book.drop(gone)
        return len(gone)


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
    label = Label(
        integrity=Integrity[worst["integrity"].upper()],
        confidentiality=Confidentiality[worst["confidentiality"].upper()],
    )
    source = Source(server=said["server"], tool=said["target"], record=record.id, label=label)
    return Debt(
        decision=said["decision_id"],
        run=RunId(said["run"]),
        source=source,
        due=worst["until"],
    )

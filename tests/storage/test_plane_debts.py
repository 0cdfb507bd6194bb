"""What planes owe outlives the process, exactly: their intents say it, and their outcomes that it has ended."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.audit.record import Entry
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.flow import LONGEST_SOURCE, RunId, Source
from gateway.domain.labels import Confidentiality, Integrity, Label
from gateway.domain.planes import Debt
from gateway.ports.debts import DebtStore
from gateway.storage.committer import NotAccepted
from gateway.storage.debts import DurableDebts
from gateway.storage.owed import keep_owed
from gateway.storage.schema import migrate
from gateway.storage.state import Tables
from gateway.storage.store import Store
from tests.storage.memory_calls import MemoryDebts
from tests.storage.placed import Place

LABEL = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.SECRET)


def debt(decision: str, due: float = 5.0, tool: str = "search") -> Debt:
    source = Source(server="mail", tool=tool, record=f"r.{decision}", label=LABEL)
    return Debt(decision=decision, run=RunId("r_1"), source=source, due=due)


def intent(decision: str, due: float = 5.0, **more: Any) -> AuditRecord:
    fields = {
        "server": "mail",
        "target": "search",
        "run": "r_1",
        "plane": "edge",
        "decision_id": decision,
        "owes": {**LABEL.words, "until": due},
        **more,
    }
    return AuditRecord(kind=RecordKind.INTENT, time=1.0, id=f"r.{decision}", fields=fields)


def outcome(decision: str, kind: RecordKind = RecordKind.OUTCOME) -> AuditRecord:
    fields = {"decision_id": decision, "plane": "edge"}
    return AuditRecord(kind=kind, time=2.0, id=f"{kind}.{decision}", fields=fields)


async def left(folder: Path) -> list[Debt]:
    """Return what a start finds there."""
    store = await Store.open(folder, clock=lambda: 1.0)
    try:
        return list(store.debts.left())
    finally:
        await store.close()


async def test_what_is_on_record_as_owed_is_found_again(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, clock=lambda: 1.0)
    assert store.debts.left() == []
    for one in (intent("d_2", 9.0), intent("d_1"), intent("d_3"), outcome("d_3")):
        await store.audit.append(one)
    await store.close()
    assert await left(tmp_path) == [debt("d_1"), debt("d_2", 9.0)]
    store = await Store.open(tmp_path, clock=lambda: 1.0)
    await store.audit.append(outcome("d_2"))
    await store.debts.settle("d_1")
    await store.close()
    assert await left(tmp_path) == []


async def test_it_is_durable_as_soon_as_its_intent_is(tmp_path: Path) -> None:
    """The journal has it, and nobody has written to the database yet: so a crash would find it."""
    store = await Store.open(tmp_path / "was", clock=lambda: 1.0)
    await store.audit.append(intent("d_1"))
    await store.audit.append(intent("d_2"))
    await store.audit.append(outcome("d_2"))
    copied = tmp_path / "is"
    copied.mkdir(mode=0o700)
    for path in (tmp_path / "was").iterdir():  # as a crash in this moment leaves it
        if path.is_file():
            (copied / path.name).touch(mode=0o600)
            (copied / path.name).write_bytes(path.read_bytes())
    await store.close()
    assert await left(copied) == [debt("d_1")]


def entry(record: AuditRecord) -> Entry:
    body = orjson.dumps({"id": record.id, **record.fields})
    columns = (record.id, 0, record.kind, *(None,) * 6, record.fields["decision_id"])
    return Entry(columns=columns, body=body, leaf=os.urandom(32))


@pytest.fixture
def tables() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as found:
        migrate(found)
        yield found


def kept(tables: sqlite3.Connection) -> list[str]:
    return [one for (one,) in tables.execute("SELECT decision FROM plane_debts ORDER BY decision")]


def test_what_begins_and_ends_in_one_batch_is_never_kept(tables: sqlite3.Connection) -> None:
    written: list[str] = []
    tables.set_trace_callback(written.append)
    keep_owed(tables, [entry(intent("d_1")), entry(outcome("d_1"))])
    assert written == []
    keep_owed(tables, [entry(intent("d_1")), entry(intent("d_2"))])
    keep_owed(tables, [entry(outcome("d_2"))])
    assert kept(tables) == ["d_1"]


def test_many_at_once_begin_and_end(tables: sqlite3.Connection) -> None:
    names = [f"d_{number:03}" for number in range(150)]
    keep_owed(tables, [entry(intent(name)) for name in names])
    assert kept(tables) == names
    keep_owed(tables, [entry(outcome(name)) for name in names[:-1]])
    assert kept(tables) == names[-1:]


@pytest.mark.parametrize("kind", sorted(set(RecordKind) - {RecordKind.OUTCOME}))
def test_only_an_outcome_ends_it(tables: sqlite3.Connection, kind: RecordKind) -> None:
    keep_owed(tables, [entry(intent("d_1"))])
    keep_owed(tables, [entry(outcome("d_1", kind))])
    assert kept(tables) == ["d_1"]


def test_a_member_of_that_name_elsewhere_in_a_record_owes_nothing(
    tables: sqlite3.Connection,
) -> None:
    said = intent("d_1", arguments={"owes": {**LABEL.words, "until": 1.0}})
    fields = {name: told for name, told in said.fields.items() if name != "owes"}
    keep_owed(tables, [entry(AuditRecord(kind=said.kind, time=1.0, id="r", fields=fields))])
    assert kept(tables) == []


def test_a_long_name_is_kept_as_sources_have_it(tables: sqlite3.Connection) -> None:
    keep_owed(tables, [entry(intent("d_1", target="x" * (LONGEST_SOURCE + 1)))])
    ((tool,),) = tables.execute("SELECT tool FROM plane_debts").fetchall()
    assert len(tool) <= LONGEST_SOURCE


def test_the_same_one_is_owed_once(tables: sqlite3.Connection) -> None:
    for _ in range(2):
        keep_owed(tables, [entry(intent("d_1"))])
    assert kept(tables) == ["d_1"]


async def test_in_memory_it_is_the_same_until_the_end() -> None:
    records = [intent("d_1"), intent("d_2"), outcome("d_2"), intent("d_3")]
    store: DebtStore = MemoryDebts(records)
    await store.settle("d_3")
    assert store.left() == [debt("d_1")]


async def test_no_row_is_there_twice(place: Place) -> None:
    row = ("d_1", "r_1", "mail", "search", "r7", "untrusted", "secret", 1.0)

    def keep(tables: Tables) -> None:
        tables.execute("INSERT INTO plane_debts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    await place.writer.run(keep)
    with pytest.raises((NotAccepted, sqlite3.IntegrityError), match=r"(?i)unique"):
        await place.writer.run(keep)
    with place.reading() as found:
        store = DurableDebts(place.writer, found)
    assert [one.decision for one in store.left()] == ["d_1"]
    await store.settle("d_1")
    assert not place.rows("SELECT decision FROM plane_debts")

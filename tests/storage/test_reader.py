"""What can be read of the log, and proved."""

import asyncio
import sqlite3
from typing import Any

import orjson
import pytest

from gateway.audit.checkpoint import open_checkpoint
from gateway.audit.merkle import leaf_hash
from gateway.audit.query import Filter, compile_filter
from gateway.domain.audit import RecordKind
from gateway.errors import ConfigError
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE
from gateway.storage.reader import AuditReader, LogStatistics
from gateway.storage.store import Store
from gateway.storage.tree import tree_at
from tests.audit.proven import verify_consistency, verify_inclusion
from tests.storage.suite import NOW, event

SIZE = 1300


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A closed log of 1300 records, whose last is e1299, and a reader of it."""
    data_dir = tmp_path_factory.mktemp("log") / "var"

    async def fill():
        store = await Store.open(data_dir, clock=lambda: NOW)
        await asyncio.gather(
            *(
                store.audit.append(event(f"e{n}", server="mail" if n % 2 else "web"))
                for n in range(SIZE)
            )
        )
        await store.close()
        return store

    store = asyncio.run(fill())
    reader = store.log.reader()
    yield store, reader
    reader.close()


def test_a_record_is_shown_with_its_place(log):
    store, reader = log
    body = (
        b'{"log_id":"%s","id":"e7","time":"2025-11-21T16:53:20.500000Z","kind":"system",'
        b'"server":"mail"}' % store.log_id.encode()
    )
    assert reader.find("e7") == {
        **orjson.loads(body),
        "leaf_index": 7,
        "leaf_hash": leaf_hash(body).hex(),
    }
    assert reader.find("E7") is None


def test_a_query_gives_the_newest_first(log):
    _, reader = log
    found = reader.query(compile_filter(Filter(server="mail", limit=3), now=NOW))
    assert [record["id"] for record in found] == ["e1299", "e1297", "e1295"]


def test_the_log_is_followed_from_a_place(log):
    _, reader = log
    assert [record["id"] for record in reader.after(-1, 2)] == ["e0", "e1"]
    assert [record["id"] for record in reader.after(1297)] == ["e1298", "e1299"]
    assert reader.after(1299) == []
    assert reader.newest() == 1299


def test_everything_is_exported_in_order(log):
    _, reader = log
    assert [record["leaf_index"] for record in reader.export()] == list(range(SIZE))


@pytest.mark.parametrize("index", [0, 1, 255, 256, 511, 1023, 1024, 1279, 1280, 1299])
def test_a_record_is_proved_to_be_in_the_signed_log(log, index):
    store, reader = log
    proof = reader.inclusion(f"e{index}")
    head = open_checkpoint(proof.checkpoint, store.verifier)
    assert (proof.leaf_index, proof.size, head.size) == (index, SIZE, SIZE)
    assert verify_inclusion(leaf_hash(proof.body), index, proof.size, proof.path, head.root)
    assert proof.members == {
        "leaf_index": index,
        "body": proof.body.decode(),
        "size": SIZE,
        "path": [node.hex() for node in proof.path],
        "checkpoint": proof.checkpoint,
    }


@pytest.mark.parametrize(
    ("old", "new"), [(1, 2), (255, 256), (256, 512), (300, 1300), (1024, 1300), (1300, 1300)]
)
def test_the_log_is_proved_to_have_grown(log, old, new):
    store, reader = log
    connection = open_reader(store.data_dir / DATABASE)
    old_root, new_root = tree_at(connection, old).root(), tree_at(connection, new).root()
    connection.close()
    assert verify_consistency(old, new, old_root, new_root, reader.consistency(old, new))


def test_what_is_not_there_is_not_proved(log):
    _, reader = log
    with pytest.raises(LookupError, match="no record x"):
        reader.inclusion("x")
    with pytest.raises(ValueError, match="fewer than 1301"):
        reader.consistency(1, SIZE + 1)
    with pytest.raises(ValueError, match="proves nothing"):
        reader.consistency(0, SIZE)


async def test_a_record_that_is_not_signed_yet_is_not_proved(tmp_path):
    store = await Store.open(tmp_path / "var", clock=lambda: NOW)
    reader = store.log.reader()
    await store.audit.append(event("e"))
    await store.writer.run(lambda c: c.execute("DELETE FROM checkpoints WHERE size > 0"))
    with pytest.raises(LookupError, match="not signed yet"):
        reader.inclusion("e")
    reader.close()
    await store.close()


async def test_the_log_is_counted_and_open_intents_are_named(tmp_path):
    store = await Store.open(tmp_path / "var", clock=lambda: NOW)
    for name, kind, fields in (
        ("i1", RecordKind.INTENT, {"decision_id": "d1", "verdict": "allow"}),
        ("o1", RecordKind.OUTCOME, {"decision_id": "d1", "verdict": "allow"}),
        ("i2", RecordKind.INTENT, {"decision_id": "d2", "verdict": "allow"}),
        ("i3", RecordKind.INTENT, {}),
        ("o3", RecordKind.OUTCOME, {"verdict": "deny", "code": "denied"}),
    ):
        await store.audit.append(event(name, kind, **fields))
    await store.close()
    reader = store.log.reader()
    assert reader.statistics() == LogStatistics(
        records=5,
        first_time_us=round(NOW * 1e6),
        last_time_us=round(NOW * 1e6),
        signed=5,
        kinds={"intent": 3, "outcome": 2},
        verdicts={"allow": 3, "deny": 1},
        codes={"denied": 1},
        outcome_unknown=2,
    )
    assert [record["id"] for record in reader.outcome_unknown()] == ["i3", "i2"]
    reader.close()


CALL = {"method": "tools/call", "server": "mail", "target": "send", "verdict": "allow"}


async def test_calls_that_were_let_through_are_counted_by_tool(tmp_path):
    store = await Store.open(tmp_path / "var", clock=lambda: NOW)
    events: tuple[tuple[RecordKind, dict[str, Any]], ...] = (
        (RecordKind.INTENT, CALL),
        (RecordKind.OUTCOME, CALL),
        (RecordKind.INTENT, CALL | {"target": "search"}),
        (RecordKind.INTENT, CALL | {"verdict": "deny"}),
        (
            RecordKind.INTENT,
            CALL | {"method": "prompts/get", "arguments": {"method": "tools/call"}},
        ),
        (RecordKind.INTENT, CALL | {"server": ""}),
        (RecordKind.INTENT, {"method": "tools/list", "server": "mail", "verdict": "allow"}),
        (RecordKind.INTENT, CALL),
    )
    for number, (kind, fields) in enumerate(events):
        await store.audit.append(event(f"r{number}", kind, **fields))
    await store.close()
    reader = store.log.reader()
    assert reader.calls(0, 8) == {("mail", "search"): 1, ("mail", "send"): 2}
    assert reader.calls(1, 7) == {("mail", "search"): 1}
    now_us = round(NOW * 1e6)
    assert [reader.first_since(now_us + later) for later in (-1, 0, 1)] == [0, 0, 8]
    reader.close()


async def test_an_empty_log_can_be_read_too(tmp_path):
    store = await Store.open(tmp_path / "var", clock=lambda: NOW)
    reader = store.log.reader()
    assert (reader.newest(), list(reader.export()), reader.statistics().records) == (-1, [], 0)
    reader.close()
    await store.close()


def test_a_reader_cannot_write(log):
    store, _ = log
    connection = open_reader(store.data_dir / DATABASE)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM checkpoints")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("CREATE TEMP TABLE scratch (x)")
    connection.close()


def test_there_is_nothing_to_read_where_there_is_no_log(tmp_path):
    with pytest.raises(ConfigError, match="cannot be opened"):
        AuditReader.open(tmp_path / DATABASE)


@pytest.mark.parametrize(
    ("asked", "index"),
    [
        (Filter(server="mail", tool="send"), "audit_by_target"),
        (Filter(server="mail"), "audit_by_server"),
        (Filter(server="mail", since="24h"), "audit_by_server"),
        (Filter(principal="emma"), "audit_by_principal"),
        (Filter(run="r_1"), "audit_by_run"),
        (Filter(verdict="deny"), "audit_by_refusal"),
        (Filter(code="denied"), "audit_by_code"),
        (Filter(since="24h"), "audit_by_time"),
    ],
)
def test_every_common_question_has_its_index(log, asked, index):
    store, _ = log
    connection = open_reader(store.data_dir / DATABASE)
    statement = compile_filter(asked, now=NOW)
    plan = connection.execute("EXPLAIN QUERY PLAN " + statement.sql, statement.parameters)
    steps = [row[3] for row in plan]
    connection.close()
    assert any(f"INDEX {index}" in step for step in steps)
    assert not any("TEMP B-TREE" in step for step in steps)

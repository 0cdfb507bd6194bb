"""What records charge is added up in the transaction that takes them, once each."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.record import Entry
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.quotas import Charge
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE
from gateway.storage.schema import migrate
from gateway.storage.store import Store
from gateway.storage.usage import Usage, used

Step = tuple[str, int, int]
PROGRAM = Path(__file__).with_name("charging_process.py")
_AT_ONCE = 16


def charge(under: str, begin: int, amount: int) -> dict[str, Any]:
    return {"quota": "mails/calls/day/person", "under": [under], "begin": begin, "amount": amount}


def entry(*charged: dict[str, Any], **more: Any) -> Entry:
    body = orjson.dumps({"arguments": more, "charged": list(charged)} if charged else more)
    return Entry(columns=(), body=body, leaf=b"")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as found:
        migrate(found)
        yield found


def model(steps: list[Step]) -> dict[str, int]:
    newest = max((begin for _, begin, _ in steps), default=0)
    found: dict[str, int] = {}
    for under, begin, amount in steps:
        if begin == newest:
            found[under] = found.get(under, 0) + amount
    return found


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.integers(1, 5))),
    st.integers(1, 5),
)
def test_the_newest_span_adds_up_whatever_is_in_one_batch(steps: list[Step], size: int) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        usage = Usage()
        for at in range(0, len(steps), size):
            usage.add(connection, [entry(charge(*step)) for step in steps[at : at + size]])
        found = used(connection)
        newest = max((one.begin for one in found), default=0)
        assert {one.under[0]: one.amount for one in found if one.begin == newest} == model(steps)


def test_a_member_of_that_name_elsewhere_in_a_record_charges_nothing(
    connection: sqlite3.Connection,
) -> None:
    Usage().add(connection, [entry(charged=[charge("a", 1, 5)])])
    assert len(used(connection)) == 1  # the record's own
    connection.execute("DELETE FROM usage")
    nested = Entry(
        columns=(), body=orjson.dumps({"arguments": {"charged": [charge("a", 1, 5)]}}), leaf=b""
    )
    Usage().add(connection, [nested])
    assert used(connection) == []


def test_spans_that_are_over_are_forgotten(connection: sqlite3.Connection) -> None:
    usage = Usage()
    usage.add(connection, [entry(charge("a", 1, 5))])
    usage.add(connection, [entry(charge("b", 2, 1))])
    assert [one.under for one in used(connection)] == [("b",)]


async def test_what_was_charged_is_found_after_a_restart(tmp_path: Any) -> None:
    for number in (1, 2, 3):
        store = await Store.open(tmp_path, clock=lambda: 1.0)
        try:
            assert [one.amount for one in store.used] == ([number - 1] if number > 1 else [])
            fields = {"charged": [charge("a", 60, 1)]}
            await store.audit.append(
                AuditRecord(kind=RecordKind.INTENT, time=1.0, id=f"r{number}", fields=fields)
            )
        finally:
            await store.close()
    with closing(open_reader(tmp_path / DATABASE)) as connection:
        assert used(connection) == [
            Charge(quota="mails/calls/day/person", under=("a",), begin=60, amount=3)
        ]


async def test_a_kill_loses_no_charge_and_counts_at_most_what_was_under_way(tmp_path: Path) -> None:
    """Nor what is owed: what was acknowledged is found, but for what has ended, or was just ending."""
    calls: set[str] = set()
    ended: set[str] = set()
    for generation in (1, 2, 3):
        process = subprocess.Popen(
            [sys.executable, PROGRAM, tmp_path, str(generation)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(100 + generation)]
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.readlines()
        process.stdout.close()
        process.wait()
        told = {line.decode().strip() for line in lines}
        ended |= {one[1:] for one in told if one.startswith("-")}
        calls |= {one for one in told if not one.startswith("-")}
        store = await Store.open(tmp_path, clock=lambda: 1.0)
        (found,) = store.used
        left = {debt.decision for debt in store.debts.left()}
        await store.close()
        under_way = _AT_ONCE * generation
        assert len(calls) <= found.amount <= len(calls) + under_way
        assert not left & ended
        assert len(calls - ended - left) <= under_way
        assert not {one for one in calls - left if int(one.rpartition(".")[2]) % 2}

"""What is durable comes into the log once, in order, and signed, whoever leads and however many do."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from gateway.audit.checkpoint import VerifierKey, open_checkpoint
from gateway.audit.merkle import leaf_hash
from gateway.errors import ConfigError
from gateway.storage.postgres import sequencer as sequencers
from gateway.storage.postgres.arrays import Numbers, Octets
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.locks import Lock
from gateway.storage.postgres.reading import PostgresLogReader
from gateway.storage.postgres.sequencer import Fenced, Leader, Pace, Sequencer, lead
from gateway.storage.verify import Finding
from tests.audit.proven import verify_inclusion
from tests.storage.postgres.shared import (
    KEY,
    PATIENCE_S,
    Replica,
    commits_held,
    in_tray,
    leading,
    ordered,
    record,
    replica,
    verified,
)

GONE = "the server is gone"
WAITS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
SOON = Pace(step=0.01, sign=0.02, keep=0.05, lease=0.5, turn=0.05)


async def appended(made: Replica, count: int, start: int = 0) -> None:
    await asyncio.gather(
        *(made.ledger.append(record(f"e{n}")) for n in range(start, start + count))
    )


def until(what: Callable[[], bool]) -> None:
    with_patience = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < with_patience
        time.sleep(0.01)


async def test_what_replicas_put_is_in_the_log_and_can_be_proven(address: str) -> None:
    async with replica(address, "one") as one, replica(address, "other") as other:
        await asyncio.gather(appended(one, 200), appended(other, 200, 200))
    assert ordered(address).size == 400
    with closing(PostgresLogReader.open(address)) as reader:
        found = reader.find("e399")
        assert found is not None
        proof = reader.inclusion("e399")
        head = open_checkpoint(proof.checkpoint, VerifierKey.of(reader.log_id, KEY))
        assert reader.newest() == 399
        assert len(reader.consistency(256, 400)) > 0
        assert {one["id"] for one in reader.export()} == {f"e{n}" for n in range(400)}
    assert verify_inclusion(
        leaf_hash(proof.body), found["leaf_index"], proof.size, proof.path, head.root
    )


async def test_each_replica_s_records_stay_in_their_order(address: str, owner: Connection) -> None:
    async with replica(address, "one") as one, replica(address, "other") as other:
        for n in range(20):
            await (one, other)[n % 2].ledger.append(record(f"e{n:02}"))
    ordered(address)
    rows = owner.execute("SELECT id FROM audit ORDER BY leaf_index").fetchall()
    assert [name for (name,) in rows] == [f"e{n:02}" for n in range(20)]


async def test_a_leader_that_was_followed_changes_nothing(address: str, owner: Connection) -> None:
    async with replica(address) as made:
        await appended(made, 300)
    with closing(connect(address, application="test old")) as old:
        before = leading(old, "old")
        after = leading(owner, "new")
        for what in (before.step, before.sign, before.keep):
            with pytest.raises(Fenced):
                what()
        assert not before.turn()
        assert after.step() == 300
        after.sign()
    assert verified(address).size == 300


async def test_of_two_steps_from_one_size_one_is_taken(address: str, owner: Connection) -> None:
    """Even with one token: the size is compared as well."""
    async with replica(address) as made:
        await appended(made, 10)
        with closing(connect(address, application="test twin")) as other:
            leader, twin = leading(owner), leading(other)
            leader._token = twin._token
            assert twin.step() == 10
            await appended(made, 10, 10)
            with pytest.raises(Fenced):
                leader.step()
    assert ordered(address).size == 20


@pytest.mark.parametrize(
    ("lanes", "ns", "roots"),
    [([1], [2], 0), ([1, 1, 1], [1, 2, 3], 0), ([1], [1], 1), ([1, 1], [1, 1], 0), ([2], [1], 0)],
)
async def test_nothing_is_left_out_made_up_or_taken_twice(
    address: str, owner: Connection, lanes: list[int], ns: list[int], roots: int
) -> None:
    async with replica(address) as made:
        await made.ledger.append(record("one"))
        await made.ledger.append(record("two"))
    leader = leading(owner)
    ((lane,),) = owner.execute("SELECT lane FROM tray LIMIT 1").fetchall()
    given = (
        leader._token,
        Numbers(lane + at - 1 for at in lanes),
        Numbers(ns),
        Octets([b""] * roots),
    )
    with pytest.raises(psycopg.Error):
        owner.execute("SELECT take_in_1(%s::bigint, 0, %s::integer[], %s, %s)", given)
    assert leader.step() == 2


async def test_a_new_leader_goes_on_where_the_last_one_ended(
    address: str, owner: Connection
) -> None:
    async with replica(address) as made:
        await appended(made, 700)
        first = leading(owner)
        assert first.step() == 700
        first.sign()
        await appended(made, 30, 700)
    assert ordered(address).size == 730


async def test_nothing_is_added_to_a_log_that_is_not_what_was_signed(
    address: str, owner: Connection
) -> None:
    async with replica(address) as made:
        await appended(made, 5)
    ordered(address)
    with owner.transaction():
        owner.execute("SET LOCAL session_replication_role = replica")
        owner.execute("UPDATE audit SET leaf_hash = '\\x00' WHERE leaf_index = 2")
    with pytest.raises(ConfigError):
        leading(owner)
    with pytest.raises(AssertionError, match="record 2 was changed"):
        verified(address)


async def test_a_lane_is_closed_once_nothing_can_come_of_it(
    address: str, owner: Connection
) -> None:
    leader = leading(owner)

    def open_lanes() -> int:
        ((count,),) = owner.execute("SELECT count(*) FROM lanes WHERE NOT closed").fetchall()
        return int(count)

    async with replica(address) as made:
        await made.ledger.append(record("one"))
        leader.step()
        leader.keep()
        assert open_lanes() == 1
        await made.ledger.append(record("two"))
    until(
        lambda: (
            not owner.execute(
                "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'douane lane%' AND datname = current_database()"
            ).fetchall()
        )
    )
    leader.keep()
    assert open_lanes() == 1  # not all of it is taken
    leader.step()
    leader.keep()
    assert open_lanes() == 0
    leader.sign()
    assert verified(address).size == 2


async def test_a_part_of_the_tray_is_emptied_once_all_of_it_is_taken(
    address: str, owner: Connection
) -> None:
    leader = leading(owner)
    async with replica(address) as made:
        await made.ledger.append(record("one"))
        assert leader.turn()
        await made.ledger.append(record("two"))
        assert not leader.turn()  # the next to be emptied has a record that is in no log
        assert in_tray(owner) == ["one", "two"]
        leader.step()
        assert leader.turn()
        assert in_tray(owner) == ["two"]
        await made.ledger.append(record("three"))
    assert ordered(address).size == 3


async def test_a_part_that_is_written_to_is_not_emptied(address: str, owner: Connection) -> None:
    leader = leading(owner)
    with commits_held(address):
        assert not leader.turn()
    assert leader.turn()


async def test_how_far_the_log_is_behind_is_a_number(address: str, owner: Connection) -> None:
    leader = leading(owner)
    assert leader.lag_s() == 0.0
    async with replica(address) as made:
        await made.ledger.append(record("one"))
        assert leader.lag_s() > 0.0
        leader.step()
        assert leader.lag_s() == 0.0


def test_there_is_room_ahead_of_the_log(owner: Connection) -> None:
    owner.execute("UPDATE tree SET size = 262143")
    owner.execute("SELECT make_room_1()")
    owner.execute("SELECT make_room_1()")
    rows = owner.execute(
        "SELECT to_regclass('audit_0'), to_regclass('audit_1'), to_regclass('audit_2')"
    )
    assert rows.fetchall() == [("audit_0", "audit_1", None)]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET id = 'x'",
        "DELETE FROM audit",
        "DELETE FROM tiles",
        "UPDATE checkpoints SET note = ''",
    ],
)
async def test_not_even_their_owner_changes_records_in_passing(
    address: str, owner: Connection, change: str
) -> None:
    async with replica(address) as made:
        await appended(made, 300)
    ordered(address)
    with pytest.raises(psycopg.DatabaseError, match="append-only"):
        owner.execute(change.encode())


def test_one_leads_and_the_next_one_follows_it(address: str) -> None:
    first, second = (Sequencer(address, name, key=KEY, pace=SOON) for name in ("one", "two"))
    first.start()
    until(lambda: first.leads)
    second.start()
    asyncio.run(_put(address, 0))
    until(lambda: _signed(address) == 50)
    assert not second.leads
    first.close()
    until(lambda: second.leads)
    asyncio.run(_put(address, 50))
    until(lambda: _signed(address) == 100)
    until(lambda: second.lag_s == 0.0)
    second.close()
    assert verified(address).finding is Finding.OK


def test_who_stands_ready_waits_at_the_server_and_does_not_ask_again_and_again(
    address: str, owner: Connection
) -> None:
    first, second = (Sequencer(address, name, key=KEY, pace=SOON) for name in ("one", "other"))
    first.start()
    until(lambda: first.leads)
    second.start()
    until(lambda: owner.execute(WAITS, (Lock.LEAD,)).fetchone() == (1,))
    first.close()
    until(lambda: second.leads)
    second.close()


def test_who_stands_ready_waits_no_longer_than_the_lease(address: str) -> None:
    with (
        closing(connect(address, application="test")) as silent,
        closing(connect(address, application="test")) as ready,
    ):
        leading(silent)
        silent.execute("UPDATE tree SET until = clock_timestamp() + interval '1 s'")
        assert lead(ready, "other", key=KEY, lease_s=1.0, wait_s=PATIENCE_S) is not None


def test_a_leader_whose_session_is_ended_comes_back(address: str, owner: Connection) -> None:
    sequencer = Sequencer(address, "one", key=KEY, pace=SOON)
    sequencer.start()
    until(lambda: sequencer.leads)
    for start in (0, 50):
        owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'douane log one'"
        )
        asyncio.run(_put(address, start))
    until(lambda: _signed(address) == 100)
    sequencer.close()
    assert verified(address).size == 100
    assert not [one for one in threading.enumerate() if one.name == "douane-sequencer"]


def test_a_server_that_is_gone_is_told_of_once_and_again_once_it_was_there(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[float] = []
    gone = threading.Event()

    def connecting(*given: Any, **more: Any) -> Connection:
        tried.append(time.monotonic())
        if gone.is_set():
            raise psycopg.OperationalError(GONE)
        return connect(*given, **more)

    def stepping(leader: Leader) -> int:
        if gone.is_set():
            raise psycopg.OperationalError(GONE)
        return step(leader)

    step = Leader.step
    monkeypatch.setattr(Leader, "step", stepping)
    monkeypatch.setattr(sequencers, "connect", connecting)
    made = Sequencer(address, "one", key=KEY, pace=replace(SOON, again=0.02))
    gone.set()
    made.start()
    for outage in (1, 2):
        tried.clear()
        until(lambda: len(tried) > 5)
        assert caplog.messages == [f"the log is not ordered here now: {GONE}"] * outage
        gone.clear()
        until(lambda: made.leads)
        asyncio.run(_put(address, 50 * outage))
        _until_signed(address, 50 * outage)
        gone.set()
    gone.clear()
    made.close()


def test_a_server_that_is_gone_is_asked_again_in_a_while_and_not_at_each_step() -> None:
    made = Sequencer("host=/nowhere", "one", key=KEY)
    waited = _Noting()
    made._ended = waited
    made.start()
    until(lambda: len(waited.for_s) > 3)
    made.close()
    assert set(waited.for_s) == {Pace().again}
    assert Pace().again > Pace().step


class _Noting(threading.Event):
    """One that is waited for only a moment, and knows how long it was to be."""

    def __init__(self) -> None:
        super().__init__()
        self.for_s: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.for_s.append(timeout)
        return super().wait(0.001)


def _until_signed(address: str, size: int) -> None:
    until(lambda: _signed(address) >= size)


async def _put(address: str, start: int) -> None:
    async with replica(address) as made:
        await appended(made, 50, start)


def _signed(address: str) -> int:
    with closing(PostgresLogReader.open(address)) as reader:
        return (reader.checkpoint() or (0, ""))[0]

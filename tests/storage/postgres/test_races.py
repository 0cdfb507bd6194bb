"""What replicas do to each other at once: each race is forced, and would go wrong without its guard."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

import psycopg
import pytest

from gateway.domain.approvals import ApprovalId
from gateway.domain.audit import LogEntry
from gateway.domain.flow import Run, RunId, Source
from gateway.domain.labels import BOTTOM
from gateway.domain.premises import NOTHING, Premise, Uses
from gateway.domain.scripts import ScriptId
from gateway.errors import Changed
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.run_table import PostgresRunTable
from gateway.storage.run_changes import Change, Kept, RunTable
from tests.storage.postgres.shared import (
    Replica,
    blocked,
    commits_held,
    in_tray,
    label,
    label_of,
    raising,
    record,
    replica,
    resting_on,
    with_runs,
)


@pytest.fixture
async def two(address: str, owner: Connection) -> AsyncIterator[tuple[Replica, Replica]]:
    with_runs(owner, "r", "a/o")
    async with replica(address, "one") as one, replica(address, "other") as other:
        yield one, other


def begun(table: RunTable) -> Change:
    table.wholes("o")
    kept = Kept(run=Run(id=RunId("b"), label=BOTTOM), owner="o")
    table.keep(kept)
    return Change(kept=(kept,), result=kept.run)


async def test_no_whole_run_begins_while_one_of_its_owner_is_raised(
    two: tuple[Replica, Replica], address: str, owner: Connection
) -> None:
    """It would not be seen by the raise, and be there before the result is given out."""
    one, other = two
    with commits_held(address):
        raised = asyncio.create_task(one.ledger.conclude(record("out"), raising("a")))
        assert await blocked(owner, raised, at=1)
        begins = asyncio.create_task(other.runs._make(begun))
        assert await blocked(owner, begins, at=2)
    await raised
    await begins


async def test_a_raise_waits_for_a_whole_run_that_begins(
    two: tuple[Replica, Replica], address: str, owner: Connection
) -> None:
    one, _ = two
    with closing(connect(address, application="test")) as other:
        with other.transaction():
            begun(PostgresRunTable(other))
            raised = asyncio.create_task(one.ledger.conclude(record("out"), raising("a")))
            await blocked(owner, raised, at=1)
        await raised
    assert label_of(owner, "b") == label_of(owner, "a") == (0, 3)


async def test_a_lowered_label_does_not_undo_a_raise_under_way(
    two: tuple[Replica, Replica], address: str, owner: Connection
) -> None:
    one, other = two
    await one.ledger.conclude(record("first"), raising("a", 0, 1))
    await other.runs.look_again(RunId("a"))
    found = other.runs.find(RunId("a"))
    assert found is not None
    look = await other.runs.look_at(RunId("a"))
    with commits_held(address):
        raised = asyncio.create_task(one.ledger.conclude(record("out"), raising("a", 0, 3)))
        assert await blocked(owner, raised, at=1)
        lowers = asyncio.create_task(
            other.runs.lower_label(RunId("a"), found.run.label, BOTTOM, look=look)
        )
        assert await blocked(owner, lowers, at=2)
    await raised
    assert await lowers is None
    assert label_of(owner, "a") == (0, 3)


async def test_what_another_gateway_reads_after_a_look_is_not_vouched_for_here(
    two: tuple[Replica, Replica],
) -> None:
    """Also what changes nothing of the run, and what memory here does not know of yet."""
    one, other = two
    given = label(0, 2)
    for tool in ("fetch", "search"):
        again = Source(server="web", tool=tool, record="r1", label=given)
        await one.runs.raise_label(RunId("a"), given, again)
        look = await other.runs.look_at(RunId("a"))
        shown = other.runs.find(RunId("a"))
        assert shown is not None
        assert (shown.run.label, shown.run.sources[-1].tool) == (given, tool)
        await one.runs.raise_label(RunId("a"), given, again)
        for each in (one, other):
            assert await each.runs.lower_label(RunId("a"), given, BOTTOM, look=look) is None
    look = await one.runs.look_at(RunId("a"))
    assert look == await other.runs.look_at(RunId("a"))
    lowered = await other.runs.lower_label(RunId("a"), given, BOTTOM, look=look)
    assert lowered is not None
    assert await one.runs.lower_label(RunId("a"), BOTTOM, BOTTOM, look=look) is None


async def test_a_look_from_before_the_server_crashed_counts_no_more(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    """What nothing had come into may have been forgotten with that."""
    one, _ = two
    look = await one.runs.look_at(RunId("a"))
    owner.execute("TRUNCATE run_looks")  # as a crash does
    assert await one.runs.lower_label(RunId("a"), BOTTOM, BOTTOM, look=look) is None
    await one.runs.look_at(RunId("a"))
    assert await one.runs.lower_label(RunId("a"), BOTTOM, BOTTOM, look=look) is None


async def test_of_two_raises_by_one_source_at_once_both_are_kept(
    two: tuple[Replica, Replica], address: str, owner: Connection
) -> None:
    one, other = two
    with commits_held(address):
        raises = [
            asyncio.create_task(each.ledger.conclude(record(name), raising("r")))
            for each, name in ((one, "first"), (other, "second"))
        ]
        assert await blocked(owner, *raises, at=2)
    await asyncio.gather(*raises)
    assert sorted(in_tray(owner)) == ["first", "second"]
    ((version,),) = owner.execute("SELECT version FROM runs WHERE id = 'r'").fetchall()
    assert version == 1


async def test_of_two_calls_of_a_programs_last_call_one_is_kept(
    two: tuple[Replica, Replica], address: str, owner: Connection
) -> None:
    owner.execute("INSERT INTO scripts VALUES ('s', 25, 24, 1e12)")
    uses = Uses(script=ScriptId("s"), grants=(None,))
    with commits_held(address):
        calls = [
            asyncio.create_task(each.ledger.put(record(name), resting_on("r"), uses))
            for each, name in zip(two, "ab", strict=True)
        ]
        assert await blocked(owner, *calls, at=2)
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert sorted(type(one).__name__ for one in told) == ["Changed", "LogEntry"]
    ((used,),) = owner.execute("SELECT used FROM scripts").fetchall()
    assert (used, len(in_tray(owner))) == (25, 1)


async def test_of_two_calls_by_one_yes_one_is_kept(
    two: tuple[Replica, Replica], address: str, owner: Connection
) -> None:
    owner.execute("INSERT INTO approvals VALUES ('y', 'allowed', 'once', 1e12)")
    uses = Uses(yes=ApprovalId("y"))
    with commits_held(address):
        calls = [
            asyncio.create_task(each.ledger.put(record(name), resting_on("r"), uses))
            for each, name in zip(two, "ab", strict=True)
        ]
        assert await blocked(owner, *calls, at=2)
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert sorted(type(one).__name__ for one in told) == ["Changed", "LogEntry"]
    assert len(in_tray(owner)) == 1


async def test_many_attempts_at_few_yeses_and_budgets_from_all_sides(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    owner.execute(
        "INSERT INTO approvals SELECT 'y' || i, 'allowed', 'once', 1e12 FROM generate_series(0, 9) AS i"
    )
    owner.execute("INSERT INTO scripts SELECT 's' || i, 5, 0, 1e12 FROM generate_series(0, 3) AS i")

    async def attempt(each: Replica, n: int) -> bool:
        uses = Uses(yes=ApprovalId(f"y{n % 10}"))
        if n % 2:
            uses = Uses(script=ScriptId(f"s{n % 8 // 2}"), grants=(None,))
        try:
            await each.ledger.put(record(f"{id(each)}-{n}"), resting_on("r"), uses)
        except Changed:
            return False
        return True

    won = sum(await asyncio.gather(*(attempt(each, n) for n in range(80) for each in two)))
    ((yeses,),) = owner.execute("SELECT count(*) FROM approvals WHERE state = 'used'").fetchall()
    ((used,),) = owner.execute("SELECT sum(used) FROM scripts").fetchall()
    assert (yeses, used) == (5, 20)
    assert won == len(in_tray(owner)) == 25


async def test_a_call_that_was_decided_before_a_raise_elsewhere_is_decided_again(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    one, other = two
    for n in range(20):
        with_runs(owner, f"r{n}")
        await one.ledger.conclude(record(f"out{n}"), raising(f"r{n}"))
        with pytest.raises(Changed) as found:
            await other.ledger.put(record(f"in{n}"), resting_on(f"r{n}"), NOTHING)
        assert found.value.what == {Premise.RUN}
        known = other.runs.find(RunId(f"r{n}"))
        assert known is not None
        assert known.run.version == 1
    assert not any(name.startswith("in") for name in in_tray(owner))


async def test_no_call_goes_out_on_rights_that_have_ended(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    ended, late = 0, []

    async def call(each: Replica, n: int) -> None:
        decided = ended
        await asyncio.sleep(0)
        committed = ended
        try:
            await each.ledger.put(
                record(f"{id(each)}-{n}"), resting_on("r", people=decided), NOTHING
            )
            late.append(decided < committed)
        except Changed:
            pass

    for n in range(40):
        under_way = [asyncio.create_task(call(each, n)) for each in two for _ in range(2)]
        if n % 2:
            await asyncio.sleep(0)
            owner.execute("UPDATE identity_version SET people = people + 1")
            ended += 1
        await asyncio.gather(*under_way)
    assert late.count(True) == 0
    assert len(late) > 20


async def test_raises_from_all_sides_wait_for_each_other_in_one_order(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    with_runs(owner, *(f"x{n}/p{n // 4}{f'/x{n // 4 * 4}' if n % 4 else ''}" for n in range(40)))

    async def raise_(each: Replica, n: int) -> None:
        raised = raising(f"x{n * 13 % 40}", n % 2, n % 4, tool=f"t{n % 3}", server=f"s{n % 7}")
        await each.ledger.conclude(record(f"{id(each)}-{n}"), raised)

    await asyncio.gather(*(raise_(each, n) for n in range(160) for each in two))
    rows = owner.execute(
        "SELECT DISTINCT integrity, confidentiality FROM runs WHERE id LIKE 'x%' AND part_of IS NULL"
    )
    assert rows.fetchall() == [(0, 3)]
    ((deadlocks,),) = owner.execute(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ).fetchall()
    assert deadlocks == 0


NOTHING_PUT = "SELECT put_1(%s, ARRAY[%s]::bigint[], {})".format(
    ", ".join(
        f"'{{}}'::{kind}[]"
        for kind in (
            *("text", "bigint", *["text"] * 8, "bytea"),
            *("text", "bigint", "text", "bigint", *["text"] * 3, "bytea", *["text"] * 4),
            *["text"] * 3,
            *("text", "boolean", "smallint", "smallint", *["text"] * 3, "smallint", "smallint"),
        )
    )
)


async def test_an_older_look_is_none(two: tuple[Replica, Replica], owner: Connection) -> None:
    ((lane,),) = owner.execute("SELECT open_lane_1('test')").fetchall()
    owner.execute("SET default_transaction_isolation = 'repeatable read'")
    with pytest.raises(psycopg.errors.RaiseException, match="not with an older look"):
        owner.execute(NOTHING_PUT, (lane, 1))


async def test_a_lane_is_of_one_connection_and_goes_forward(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    one, _ = two
    await one.ledger.put(record("one"), resting_on("r"), NOTHING)
    ((other,),) = owner.execute("SELECT min(lane) FROM lanes").fetchall()
    with pytest.raises(psycopg.errors.RaiseException, match="is not of this connection"):
        owner.execute(NOTHING_PUT, (other, 9))
    ((lane,),) = owner.execute("SELECT open_lane_1('test')").fetchall()
    owner.execute(
        "INSERT INTO tray (lane, n, part, id, time_us, kind, body) VALUES (%s, 3, 0, 'x', 0, 'x', '')",
        (lane,),
    )
    with pytest.raises(psycopg.errors.RaiseException, match="has gone beyond"):
        owner.execute(NOTHING_PUT, (lane, 3))
    owner.execute("UPDATE lanes SET taken = 7 WHERE lane = %s", (lane,))
    with pytest.raises(psycopg.errors.RaiseException, match="has gone beyond"):
        owner.execute(NOTHING_PUT, (lane, 7))


async def test_a_batch_is_kept_whole_but_for_what_does_not_hold(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    one, _ = two
    told = await asyncio.gather(
        *(
            one.ledger.put(record(f"c{n}"), resting_on("r", version=n % 3), NOTHING)
            for n in range(30)
        ),
        return_exceptions=True,
    )
    kept = [one.id for one in told if isinstance(one, LogEntry)]
    assert in_tray(owner) == kept == [f"c{n}" for n in range(0, 30, 3)]

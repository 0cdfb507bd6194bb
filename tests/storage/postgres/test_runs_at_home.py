"""A run whose calls are made at several gateways: none of them remembers all of it, and each knows that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace

import pytest

from gateway.domain.flow import RunHint, RunId
from gateway.domain.labels import BOTTOM
from gateway.domain.premises import NOTHING, Premise, Uses
from gateway.domain.scripts import ScriptId
from gateway.errors import Changed
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.spelling import SpelledStatements
from tests.storage.postgres.shared import (
    POLICY,
    Replica,
    blocked,
    commits_held,
    label_of,
    raising,
    record,
    replica,
    resting_on,
)
from tests.storage.suite import RUN_LIMITS, host, principal

NO_HINT = RunHint()


@pytest.fixture
async def two(address: str, owner: Connection) -> AsyncIterator[tuple[Replica, Replica]]:
    owner.execute("UPDATE in_force SET policy = %s", (POLICY,))
    async with replica(address, "one") as one, replica(address, "other") as other:
        yield one, other


def begun(owner: Connection, name: str, part_of: str | None = None) -> None:
    owner.execute(
        "INSERT INTO runs (id, owner, part_of, integrity, confidentiality) VALUES (%s, 'o', %s, 1, 0)",
        (name, part_of),
    )


async def called(at: Replica, run: str, name: str) -> None:
    """Make a call as the pipeline does: it is decided again where something had changed."""
    for _ in range(2):
        known = at.runs.find(RunId(run))
        version = 0 if known is None else known.run.version
        try:
            await at.ledger.put(record(name), resting_on(run, version), NOTHING)
        except Changed:
            continue
        return
    raise AssertionError("it was not kept")


def roams(at: Replica, run: str) -> bool:
    known = at.runs.find(RunId(run))
    return known is not None and known.run.roamed


async def test_a_call_at_a_second_gateway_is_decided_again_before_it_is_kept(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    one, other = two
    begun(owner, "r")
    for name in ("a", "b"):
        await one.ledger.put(record(name), resting_on("r"), NOTHING)
    with pytest.raises(Changed) as changed:
        await other.ledger.put(record("c"), resting_on("r"), NOTHING)
    assert changed.value.what == {Premise.RUN}
    assert roams(other, "r")
    await called(other, "r", "c")
    with pytest.raises(Changed):
        await one.ledger.put(record("d"), resting_on("r"), NOTHING)
    assert roams(one, "r")
    await called(one, "r", "d")
    await called(other, "r", "e")


async def test_of_two_gateways_that_begin_with_a_run_at_once_the_second_decides_again(
    two: tuple[Replica, Replica], owner: Connection, address: str
) -> None:
    one, other = two
    begun(owner, "r")
    with commits_held(address):
        first = asyncio.create_task(one.ledger.put(record("a"), resting_on("r"), NOTHING))
        assert await blocked(owner, first, at=1)
        second = asyncio.create_task(other.ledger.put(record("b"), resting_on("r"), NOTHING))
        assert await blocked(owner, second, at=2)
    await first
    with pytest.raises(Changed) as changed:
        await second
    assert changed.value.what == {Premise.RUN}
    assert roams(other, "r")


async def test_a_call_waits_for_a_run_before_it_uses_anything_up(
    two: tuple[Replica, Replica], owner: Connection, address: str
) -> None:
    """So that of two calls one waits for the other, never each for the other."""
    one, _ = two
    begun(owner, "r")
    owner.execute("INSERT INTO scripts (id, most, expires_at) VALUES ('s', 5, 9e9)")
    uses = Uses(script=ScriptId("s"), grants=(None,))
    with closing(connect(address, application="test holds")) as holder, holder.transaction():
        holder.execute("SELECT FROM runs WHERE id = 'r' FOR UPDATE")
        waits = asyncio.create_task(one.ledger.put(record("a"), resting_on("r"), uses))
        assert await blocked(owner, waits, at=1)
        assert holder.execute("SELECT id FROM scripts FOR UPDATE NOWAIT").fetchall() == [("s",)]
    await waits


async def test_a_run_is_at_home_where_something_was_said_in_it_and_not_where_it_was_greeted(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    one, other = two
    begun(owner, "r")
    greeting = replace(resting_on("r"), carries=False)
    await one.ledger.put(record("greeted"), greeting, NOTHING)
    await called(other, "r", "a")
    await one.ledger.put(record("pinged"), greeting, NOTHING)
    await called(other, "r", "b")
    assert not roams(other, "r")


async def test_a_whole_run_is_elsewhere_with_its_part(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    one, other = two
    begun(owner, "whole")
    begun(owner, "part", "whole")
    await called(one, "whole", "a")
    await called(other, "part", "b")
    with pytest.raises(Changed):
        await one.ledger.put(record("c"), resting_on("whole"), NOTHING)
    assert roams(one, "whole")
    await other.runs.look_again(RunId("part"))
    assert not roams(other, "part")


async def test_a_run_at_one_gateway_does_not_roam(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    one, _ = two
    begun(owner, "r")
    await called(one, "r", "a")
    await one.ledger.conclude(record("out"), raising("r"))
    await called(one, "r", "b")
    assert not roams(one, "r")


async def test_a_run_that_is_used_at_another_gateway_is_not_idle(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    """What it has read there is not over."""
    one, other = two
    emma = principal()
    run = await one.runs.of(emma, NO_HINT)
    await other.runs.of(emma, NO_HINT)
    owner.execute("UPDATE run_owners SET used_at = used_at - interval '1 day'")
    await one.ledger.append(record("a", run=run.id))
    other.elapsed.now += 2 * RUN_LIMITS.idle_s
    assert (await other.runs.of(emma, NO_HINT)).id == run.id
    await other.runs.of(principal("liam"), NO_HINT)
    found = other.runs.find(run.id)
    assert found is not None
    assert found.live


async def test_a_run_that_is_used_nowhere_ends(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    one, other = two
    emma = principal()
    run = await one.runs.of(emma, NO_HINT)
    await other.runs.of(emma, NO_HINT)
    owner.execute("UPDATE run_owners SET used_at = used_at - interval '1 day'")
    other.elapsed.now += 2 * RUN_LIMITS.idle_s
    assert (await other.runs.of(emma, NO_HINT)).id != run.id


async def test_what_a_program_has_read_elsewhere_counts_in_each_run_of_its_host(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    one, other = two
    whole = await one.runs.of(host(), NO_HINT)
    handle, part = await other.runs.begin(host(), None)
    await one.runs.raise_label(whole.id, raising("r").label, None, ScriptId("s"))
    program = replace(host(trusted=False), script=ScriptId("s"))
    found = await other.runs.of(program, RunHint(handle=handle))
    assert found.id == part.id
    assert found.label != BOTTOM
    assert label_of(owner, part.id) == (0, 3)


async def test_what_a_program_has_read_it_sheds_at_no_gateway_with_its_hosts_run(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    one, other = two
    owner.execute("INSERT INTO scripts (id, expires_at) VALUES ('s', 9e9)")
    program = replace(host(trusted=False), script=ScriptId("s"))
    whole = await one.runs.of(program, NO_HINT)
    await one.runs.raise_label(whole.id, raising("r").label, None, program.script)
    assert not (await one.runs.of(program, NO_HINT)).roamed
    await one.runs.end(whole.id)
    found = await other.runs.of(program, NO_HINT)
    assert (found.id != whole.id, found.label) == (True, raising("r").label)
    assert (found.has_read, found.roamed) == (True, True)


async def test_what_comes_into_a_run_at_another_gateway_makes_it_roam(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    """Whatever it came with: a stream that was opened elsewhere, a call that is late."""
    one, other = two
    whole = await one.runs.of(host(), NO_HINT)
    await called(one, whole.id, "a")
    await one.runs.raise_label(whole.id, raising("r").label, None)
    assert not roams(one, whole.id)
    await other.runs.look_again(whole.id)
    await other.runs.raise_label(whole.id, raising("r").label, None)
    assert roams(other, whole.id)
    known = one.runs.find(whole.id)
    assert known is not None
    with pytest.raises(Changed) as changed:
        await one.ledger.put(record("b"), resting_on(whole.id, known.run.version), NOTHING)
    assert changed.value.what == {Premise.RUN}
    assert roams(one, whole.id)


async def test_a_run_is_at_home_where_something_came_into_it(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    one, other = two
    whole = await one.runs.of(host(), NO_HINT)
    await one.runs.raise_label(whole.id, raising("r").label, None)
    await called(one, whole.id, "a")
    assert not roams(one, whole.id)
    await called(other, whole.id, "b")
    assert roams(other, whole.id)


async def test_memory_shows_runs_as_others_have_made_them(
    two: tuple[Replica, Replica], owner: Connection
) -> None:
    one, other = two
    run = await one.runs.of(principal(), NO_HINT)
    assert other.runs.find(run.id) is None
    other.runs.look(SpelledStatements(owner), {run.id})()
    older = other.runs.look(SpelledStatements(owner), {run.id})
    await one.ledger.conclude(record("out"), raising(run.id))
    other.runs.look(SpelledStatements(owner), None)()
    older()  # an earlier look that is shown later
    found = other.runs.find(run.id)
    assert found is not None
    assert [source.tool for source in found.run.sources] == ["fetch"]
    await one.runs.end(run.id)
    other.runs.look(SpelledStatements(owner), {run.id})()
    ended = other.runs.find(run.id)
    assert ended is not None
    assert not ended.live

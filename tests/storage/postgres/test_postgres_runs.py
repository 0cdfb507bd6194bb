"""Runs in PostgreSQL keep to the suite of every backend, and raises by `put` to the rules of runs."""

import random
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gateway.domain.flow import Run, RunHint, RunId, Source
from gateway.domain.labels import BOTTOM
from gateway.domain.scripts import ScriptId
from gateway.storage import run_tables
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.run_table import PostgresRunTable
from gateway.storage.postgres.terms import Raise
from gateway.storage.run_changes import raised
from tests.storage.postgres.shared import label, record, replica, with_runs
from tests.storage.suite import (
    PRIVATE,
    RUN_LIMITS,
    Elapsed,
    RunStoreSuite,
    host,
    named,
    principal,
    source,
)


class Elsewhere(Elapsed):
    """Moves the time on that has passed for the server as well, and what it does not note each second."""

    def __init__(self, owner: Connection) -> None:
        self._owner = owner
        self._now = 50.0

    @property
    def now(self) -> float:
        return self._now

    @now.setter
    def now(self, moved: float) -> None:
        passed, self._now = moved - self._now, moved
        self._owner.execute(
            "UPDATE run_owners SET used_at = used_at - make_interval(secs => %s)", (passed * 1.01,)
        )


@pytest.fixture
async def stores(address, owner):
    async with replica(address, elapsed=Elsewhere(owner)) as made:
        yield SimpleNamespace(elapsed=made.elapsed, runs=made.runs, owner=owner)


async def test_of_an_owner_without_a_run_no_row_is_kept_and_no_run_has_the_name_of_another(
    stores, owner, monkeypatch
):
    monkeypatch.setattr(run_tables, "SWEPT_EACH", 1)
    monkeypatch.setattr(run_tables, "MOST_ENDED", 2)
    seen = []
    for subject in ("emma", "emma", "noah", "ines", "emma", "emma", "lea", "emma"):
        run = await stores.runs.of(host(subject), RunHint())
        assert run.label == BOTTOM
        seen.append(run.id)
        await stores.runs.end(run.id)
    assert len({*seen}) == len(seen)
    rows = owner.execute("SELECT owner, person FROM run_owners").fetchall()
    assert sorted(person == "" for _, person in rows) == [False, False, True]


async def test_an_owner_who_may_just_begin_a_run_keeps_their_row(
    address, stores, owner, monkeypatch
):
    run = await stores.runs.of(host("emma"), RunHint())
    await stores.runs.end(run.id)
    owner.execute("DELETE FROM runs")
    with closing(connect(address, application="another")) as other, other.transaction():
        names = [name for (name,) in owner.execute("SELECT owner FROM run_owners").fetchall()]
        PostgresRunTable(other).wholes(names[0])
        PostgresRunTable(owner)._sweep()
        assert owner.execute("SELECT owner FROM run_owners WHERE owner <> ''").fetchall()
    PostgresRunTable(owner)._sweep()
    assert not owner.execute("SELECT owner FROM run_owners WHERE owner <> ''").fetchall()


class TestPostgresRunStore(RunStoreSuite):
    """What one gateway does not know of the others is read the strict way, and asked of the database."""

    async def begun_program(self, stores):
        stores.owner.execute("INSERT INTO scripts (id, expires_at) VALUES ('s_1', 9e9)")
        return await super().begun_program(stores)

    async def test_a_program_takes_what_it_has_read_into_whichever_run_it_calls_in(self, stores):
        one, first = await stores.runs.begin(host(), None)
        other, second = await stores.runs.begin(host(), None)
        program = replace(host(trusted=False), script=ScriptId("s_1"))
        await stores.runs.raise_label(first.id, PRIVATE, source(), program.script)
        assert (await stores.runs.of(host(), named(other))).label == BOTTOM
        found = await stores.runs.of(program, named(other))
        assert (found.id, found.label) == (second.id, PRIVATE)
        assert (await stores.runs.of(host(), named(other))).label == PRIVATE
        assert (await stores.runs.of(host(), named(one))).id == first.id

    async def test_runs_of_whoever_does_not_come_back_end_when_another_begins(self, stores):
        run = await stores.runs.of(principal("emma"), RunHint())
        stores.elapsed.now += RUN_LIMITS.idle_s
        await stores.runs.of(principal("noah"), RunHint())
        assert [each.live for each in stores.runs.all()] == [False, True]
        assert await stores.runs.end(run.id) is None


def drawn(dice: random.Random) -> Raise:
    of, told = (label(dice.randint(0, 1), dice.randint(0, 3)) for _ in range(2))
    server = f"s{dice.choice((0, 0, 1, dice.randint(2, 90)))}"
    tool, at = f"t{dice.randint(0, 80)}", f"r{dice.randint(0, 9)}"
    source = Source(server=server, tool=tool, record=at, label=told)
    return Raise(run=RunId("r"), label=of, source=source if dice.random() < 0.9 else None)


@pytest.mark.parametrize("seed", range(3))
async def test_a_raise_by_the_statement_is_what_it_is_by_the_rule(
    address: str, owner: Connection, seed: int
) -> None:
    """Labels, sources and which of very many are listed: after each of them."""
    dice = random.Random(seed)
    with_runs(owner, "r")
    expected = Run(id=RunId("r"), label=BOTTOM, roamed=True)
    async with replica(address) as made:
        for at in range(220):
            one = drawn(dice)
            if seed and at < 150:  # what is mild first, so that the list fills
                one = replace(one, label=BOTTOM)
            expected = raised(expected, one.label, () if one.source is None else [one.source])
            await made.ledger.conclude(record(f"e{at}"), one)
            if at % 20 == 19:
                found = kept(owner)
                assert found == expected
                assert found.version == expected.version


def kept(owner: Connection) -> Run:
    with owner.transaction():
        found = PostgresRunTable(owner).find(RunId("r"))
    assert found is not None
    return found.run

"""Runs in PostgreSQL keep to the suite of every backend, and raises by `put` to the rules of runs."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gateway.domain.flow import Run, RunId, Source
from gateway.domain.labels import BOTTOM
from gateway.storage.postgres.connection import Connection
from gateway.storage.postgres.run_table import PostgresRunTable
from gateway.storage.postgres.terms import Raise
from gateway.storage.run_changes import raised
from tests.storage.postgres.shared import label, record, replica, with_runs
from tests.storage.suite import RunStoreSuite


@pytest.fixture
async def stores(address):
    async with replica(address) as made:
        yield SimpleNamespace(elapsed=made.elapsed, runs=made.runs)


class TestPostgresRunStore(RunStoreSuite):
    pass


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
    expected = Run(id=RunId("r"), label=BOTTOM)
    async with replica(address) as made:
        for at in range(220):
            one = drawn(dice)
            if seed and at < 150:  # what is mild first, so that the list fills
                one = replace(one, label=BOTTOM)
            expected = raised(expected, one.label, one.source)
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

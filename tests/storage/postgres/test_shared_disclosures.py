"""What was told at one replica counts at another, and is forgotten by all."""

import asyncio
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from gateway.domain.descriptions import Reader
from gateway.errors import AuditUnavailable
from gateway.storage.disclosures import Disclosures
from gateway.storage.postgres.disclosures import SharedDisclosureLedger
from gateway.storage.postgres.identity import PostgresIdentityDatabase
from tests.storage.identity.places import emptied

NOW, IDLE = 1_763_744_000.0, 3600.0
ALICE = Reader(principal="gate|alice|agent", person="gate|alice")
SEND = "mail/tool/send sha256:1"


@pytest.fixture
def address(postgres):
    return emptied(postgres)


@pytest.fixture
def databases(address):
    with (
        closing(PostgresIdentityDatabase(address)) as one,
        closing(PostgresIdentityDatabase(address)) as other,
    ):
        yield one, other


@pytest.fixture
def replicas(databases):
    return [
        Disclosures(SharedDisclosureLedger(database, most_of_one=3), b"key", most_of_one=3)
        for database in databases
    ]


@pytest.fixture
def rows(address):
    def read():
        with psycopg.connect(address) as connection:
            found = connection.execute("SELECT used FROM disclosures ORDER BY used").fetchall()
            return [at for (at,) in found]

    return read


def used(disclosures, described=SEND, *, at=NOW):
    return disclosures.use(ALICE, described, now=at, idle_s=IDLE)


async def test_who_was_told_at_one_replica_may_call_at_another(replicas):
    one, other = replicas
    assert not await used(other)
    await one.disclose(ALICE, [SEND], now=NOW)
    assert await used(other)
    assert not await used(other, "another")
    assert not await used(other, at=NOW + IDLE + 1)


async def test_what_an_earlier_version_filed_under_a_client_counts_at_every_replica(replicas):
    one, other = replicas
    await one.disclose(replace(ALICE, person=ALICE.principal), [SEND], now=NOW)
    assert await used(other)
    assert not await used(other, "another")


async def test_what_is_used_at_one_replica_is_in_use_at_the_other(replicas):
    one, other = replicas
    await one.disclose(ALICE, [SEND], now=NOW)
    assert await used(other, at=NOW + IDLE)
    assert await used(one, at=NOW + 2 * IDLE)


async def test_a_use_that_one_replica_knows_is_not_taken_back_by_another(replicas, rows):
    one, other = replicas
    await one.disclose(ALICE, [SEND], now=NOW + 10)
    await other.disclose(ALICE, [SEND], now=NOW)
    assert rows() == [NOW + 10]


async def test_one_forgets_what_only_a_replica_held_that_is_gone(replicas, rows):
    one, other = replicas
    await one.disclose(ALICE, [SEND], now=NOW)
    await one.disclose(ALICE, ["other"], now=NOW + 10)
    await other.forget(before=NOW + 5)
    assert rows() == [NOW + 10]


async def test_of_all_so_many_are_kept_and_whoever_has_most_makes_way(databases, rows):
    one, other = (
        Disclosures(SharedDisclosureLedger(database, most_of_all=3), b"key")
        for database in databases
    )
    bob = Reader(principal="gate|bob|agent", person="gate|bob")
    await other.disclose(bob, [SEND], now=NOW)
    for at, described in enumerate("abc"):
        await one.disclose(ALICE, [described], now=NOW + 1 + at)
    await other.forget(before=NOW)
    assert rows() == [NOW, NOW + 2, NOW + 3]


async def test_of_one_principal_so_many_are_kept_by_all_replicas_together(replicas, rows):
    one, other = replicas
    for at, described in enumerate("abc"):
        await one.disclose(ALICE, [described], now=NOW + at)
    await other.disclose(ALICE, ["d", "e"], now=NOW + 9)
    assert rows() == [NOW + 2, NOW + 9, NOW + 9]
    assert not await used(other, "a", at=NOW + 9)


async def test_what_a_replica_hears_fills_its_memory_no_further(replicas):
    one, other = replicas
    for at, described in enumerate("abcdef"):
        await one.disclose(ALICE, [described], now=NOW + at)
        assert await used(other, described, at=NOW + at)
    assert [len(mine) for mine in other._used.values()] == [3]
    assert len(other._written) == 3


async def test_two_replicas_that_are_told_the_same_at_once_keep_it_once(replicas, rows):
    await asyncio.gather(
        *(each.disclose(ALICE, [SEND], now=NOW + at) for at in range(8) for each in replicas)
    )
    assert rows() == [NOW + 7]


async def test_what_cannot_be_kept_or_known_is_said(databases, replicas):
    one, _ = replicas
    await one.disclose(ALICE, [SEND], now=NOW)
    databases[0].close()
    with pytest.raises(AuditUnavailable):
        await one.disclose(ALICE, ["other"], now=NOW)
    with pytest.raises(AuditUnavailable):
        await used(one, "other")
    assert await used(one)

"""A gateway that joins others has all or nothing, and says that it is not ready where it is behind."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from gateway.audit.redaction import Level, Levels, Redaction
from gateway.errors import ConfigError
from gateway.storage.files import DirectoryLock
from gateway.storage.identity.store import IdentityStores
from gateway.storage.kek import new_key
from gateway.storage.postgres import stores as stores_module
from gateway.storage.postgres.base import Setting
from gateway.storage.postgres.lane import Keeps
from gateway.storage.postgres.sequencer import Pace
from gateway.storage.postgres.stores import PostgresStores
from gateway.storage.runs import RunLimits
from gateway.vault import KeyEncryptionKey, Vault
from tests.e2e.own import soon
from tests.postgres import Postgres
from tests.storage.suite import NOW

KEK = KeyEncryptionKey.parse(new_key(), named="test")
PASSWORD = "canary-7c2"


def unlock(stores: IdentityStores) -> Vault:
    return Vault.unlock(stores.data_keys, [KEK], random=os.urandom, clock=lambda: NOW)


def locked(_: IdentityStores) -> Vault:
    raise ConfigError("what is sealed in PostgreSQL cannot be read: another key")


def setting(address: str, folder: Path) -> Setting:
    return Setting(
        conninfo=address.replace("postgres@", f"postgres:{PASSWORD}@"),
        replica="one",
        data_dir=folder,
        keeps=Keeps.POWER,
        deadline_s=2.0,
        pace=Pace(),
        levels=Levels(Level(redaction=Redaction.HASHED)),
        held=(),
        runs=RunLimits(),
    )


@asynccontextmanager
async def joined(address: str, folder: Path) -> AsyncIterator[PostgresStores]:
    stores = await PostgresStores.open(setting(address, folder), unlock=unlock, clock=lambda: NOW)
    try:
        yield stores
    finally:
        await stores.close()


@pytest.fixture
def database(postgres: Postgres) -> str:
    return postgres.fresh()


def name_of(address: str) -> str:
    return address.partition("@/")[2].partition("?")[0]


def connections(postgres: Postgres, address: str) -> int:
    with psycopg.connect(postgres.address("postgres")) as aside:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        row = aside.execute(asked, (name_of(address),)).fetchone()
    assert row is not None
    return int(row[0])


async def test_who_cannot_open_what_is_sealed_leaves_nothing_behind(
    postgres: Postgres, database: str, tmp_path: Path
) -> None:
    folder = tmp_path / "var"
    with pytest.raises(ConfigError, match="another key"):
        await PostgresStores.open(setting(database, folder), unlock=locked, clock=lambda: NOW)
    DirectoryLock(folder).release()
    await soon(lambda: connections(postgres, database) == 0)
    async with joined(database, folder) as stores:
        assert await stores.problem() == ""
    await soon(lambda: connections(postgres, database) == 0)


async def test_the_password_of_a_database_is_in_no_repr_and_no_problem(
    postgres: Postgres, database: str, tmp_path: Path
) -> None:
    given = setting(database, tmp_path / "var")
    assert PASSWORD in given.conninfo
    assert PASSWORD not in repr(given)
    async with joined(database, tmp_path / "var") as stores:
        shut(postgres, database, allowed="false")
        problem = await stores.problem()
        assert problem.startswith("PostgreSQL does not answer: ")
        assert PASSWORD not in problem
        with pytest.raises(ConfigError) as caught:
            await PostgresStores.open(
                setting(database, tmp_path / "other"), unlock=unlock, clock=lambda: NOW
            )
        assert PASSWORD not in str(caught.value)
        shut(postgres, database, allowed="true")


def shut(postgres: Postgres, address: str, *, allowed: str) -> None:
    """Let nobody into a database, or anybody again; who was there is gone."""
    name = name_of(address)
    postgres.run(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {allowed}')
    postgres.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


async def test_a_gateway_whose_memory_is_behind_is_not_ready(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with joined(database, tmp_path / "var") as stores:
        assert await stores.problem() == ""
        monkeypatch.setattr(stores_module, "_LONGEST_BEHIND_S", -1.0)
        assert await stores.problem() == "what other gateways change is not known here"


async def test_a_gateway_that_cannot_see_who_is_there_is_not_ready(
    database: str, tmp_path: Path
) -> None:
    async with joined(database, tmp_path / "var") as stores:
        stores.identity.close()
        assert (await stores.problem()).startswith("people and clients cannot be read: ")


async def test_of_gateways_that_share_a_database_one_records_what_all_find(
    database: str, tmp_path: Path
) -> None:
    async with joined(database, tmp_path / "one") as one, joined(database, tmp_path / "two") as two:
        for claims, expected in ((one.claims, True), (two.claims, False), (one.claims, True)):
            async with claims.taken("the end of something") as ours:
                assert ours is expected

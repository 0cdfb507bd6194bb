"""Clients from before there was an identity database: taken over once, and dropped there."""

import sqlite3
from contextlib import closing

import pytest

from gateway.errors import ConfigError
from gateway.storage.identity.store import IdentityStores
from gateway.storage.migrations import migrations
from gateway.storage.store import Store
from tests.storage.identity.identities import Hand
from tests.storage.suite import NOW, client

ROW = (
    "c_1",
    "agent",
    "sha256:00",
    '["client_credentials"]',
    '["/mcp/mail", "/mcp/web"]',
    '["tools:call"]',
    '["robots"]',
    1,
    NOW,
    "root",
)


@pytest.fixture
def data_dir(tmp_path):
    """A data directory of the version before."""
    from sqlite_utils import Database

    with closing(sqlite3.connect(tmp_path / "douane.db", isolation_level=None)) as connection:
        database = Database(connection)
        migrations.apply(database, stop_before="m002_clients_have_moved")
        connection.execute(f"INSERT INTO clients VALUES ({', '.join('?' * 10)})", ROW)
    return tmp_path


def opened(data_dir):
    return closing(IdentityStores.open(data_dir, clock=Hand()))


def tables(data_dir):
    with closing(sqlite3.connect(data_dir / "douane.db")) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


def test_clients_from_before_are_taken_over_whole(data_dir):
    with opened(data_dir) as stores:
        assert stores.clients.all() == [client()]
    with opened(data_dir) as stores:
        assert stores.clients.all() == [client()]


def test_a_client_that_was_removed_since_does_not_come_back(data_dir):
    with opened(data_dir) as stores:
        stores.clients.remove("c_1")
    with opened(data_dir) as stores:
        assert stores.clients.all() == []


def test_what_appears_later_is_not_taken_over(tmp_path, data_dir):
    (data_dir / "douane.db").rename(data_dir / "later.db")
    opened(data_dir).thing.close()
    (data_dir / "later.db").rename(data_dir / "douane.db")
    with opened(data_dir) as stores:
        assert stores.clients.all() == []


async def test_the_earlier_table_is_dropped_once_its_rows_are_safe(data_dir):
    assert "clients" in tables(data_dir)
    store = await Store.open(data_dir, clock=Hand())
    assert store.identity.clients.all() == [client()]
    await store.close()
    assert "clients" not in tables(data_dir)
    again = await Store.open(data_dir, clock=Hand())
    assert again.identity.clients.all() == [client()]
    await again.close()


@pytest.mark.parametrize("column", ["grants", "resources"])
def test_what_cannot_be_read_is_refused_and_stays(data_dir, column):
    with closing(sqlite3.connect(data_dir / "douane.db", isolation_level=None)) as connection:
        connection.execute(f"UPDATE clients SET {column} = 'no list'")
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"douane\.db cannot be read"):
            IdentityStores.open(data_dir, clock=Hand())
    assert "clients" in tables(data_dir)

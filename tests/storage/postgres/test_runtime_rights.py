"""A gateway's user does not own the tables: what it is admitted to is enough for a gateway, and no more."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from psycopg.errors import InsufficientPrivilege

from gateway.errors import ConfigError
from gateway.storage.postgres.base import joinable, made
from gateway.storage.postgres.checking import findings
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.identity import open_identity
from gateway.storage.postgres.log_views import PostgresLog
from gateway.storage.retention import NotRemovable
from tests.postgres import Postgres
from tests.storage.postgres.test_log_rights import named, role
from tests.storage.suite import client

ENDS = "UPDATE identity_version SET people = 0"
FORBIDDEN = [
    ENDS,
    "DELETE FROM identity_version",
    "INSERT INTO archives VALUES (0, 256, 'x', 'x', 0)",
    "SELECT prune_1(256)",
    "DELETE FROM audit",
    "UPDATE tree SET size = 0",
    "INSERT INTO tray (lane, n, part, id, time_us, kind, body) VALUES (1, 1, 0, 'x', 0, 'x', '')",
    "ALTER TABLE audit DISABLE TRIGGER audit_stays",
    "CREATE TABLE public.mine (x int)",
    "DELETE FROM schema_migrations",
]


@pytest.fixture
def owner(postgres: Postgres) -> Iterator[Connection]:
    address = postgres.fresh()
    with closing(connect(address, application="test")) as opened:
        made(address)
        yield opened


def address_of(owner: Connection) -> str:
    return f"postgresql://postgres@/{owner.info.dbname}?host={owner.info.host}"


@pytest.fixture
def gate(owner: Connection) -> Iterator[str]:
    """The address of a gateway's user."""
    with role(owner) as name:
        made(address_of(owner), admit=name)
        yield named(address_of(owner), name)


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_a_gateway_may_do_no_more(gate: str, statement: str) -> None:
    with (
        closing(connect(gate, application="test")) as connection,
        pytest.raises(InsufficientPrivilege),
    ):
        connection.execute(statement.encode())


def test_what_ends_with_a_right_ends_whoever_takes_it(gate: str, owner: Connection) -> None:
    identity = open_identity(gate, clock=lambda: 1.0)
    with closing(identity):
        identity.clients.add(client())
        identity.clients.remove("c_1")
    ((version, people),) = owner.execute("SELECT version, people FROM identity_version").fetchall()
    assert (version, people) == (2, 2)


def test_a_gateway_that_was_admitted_may_join(gate: str) -> None:
    joinable(gate)


def test_a_gateway_without_a_right_that_it_needs_does_not_join(
    gate: str, owner: Connection
) -> None:
    owner.execute("REVOKE ALL ON run_looks FROM PUBLIC")
    name = gate.partition("//")[2].partition("@")[0]
    owner.execute(f"REVOKE ALL ON run_looks FROM {name}".encode())
    with pytest.raises(ConfigError, match="storage tables --admit"):
        joinable(gate)


async def test_records_are_removed_by_whoever_keeps_the_archive(
    gate: str, owner: Connection
) -> None:
    with closing(PostgresLog(gate)) as log, pytest.raises(NotRemovable, match="user may not"):
        async with log.alone():
            pass
    with role(owner) as name:
        made(address_of(owner), admit=name, keeps=True)
        with closing(PostgresLog(named(address_of(owner), name))) as log:
            async with log.alone():
                pass
            with closing(log.opened()) as opened, pytest.raises(sqlite3.Error, match="read-only"):
                opened.execute("SELECT prune_1(0)")


def test_no_role_that_is_not_there_is_admitted(owner: Connection) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        made(address_of(owner), admit="nobody")


@pytest.mark.parametrize("schema", ["public", "words"])
def test_nobody_is_admitted_who_could_have_functions_run_as_the_owner(
    owner: Connection, schema: str
) -> None:
    with role(owner) as name:
        owner.execute(f'GRANT CREATE ON SCHEMA {schema} TO "{name}"'.encode())
        with pytest.raises(ConfigError, match="is not admitted") as refused:
            made(address_of(owner), admit=name)
        assert [text.partition(",")[0] for text in refused.value.problems] == [
            f"{name} may make functions in the schema {schema}"
        ]


def test_where_everybody_can_have_functions_run_as_the_owner_nobody_is_admitted(
    owner: Connection,
) -> None:
    """As PostgreSQL 14 has it, unless somebody takes that back."""
    owner.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    with role(owner) as name:
        with pytest.raises(ConfigError, match="is not admitted") as refused:
            made(address_of(owner), admit=name)
        assert "`REVOKE CREATE ON SCHEMA public FROM PUBLIC`" in refused.value.problems[0]


def test_who_may_have_functions_run_as_the_owner_is_told_by_the_check(
    gate: str, owner: Connection
) -> None:
    (name,) = owner.execute(
        "SELECT max(rolname) FROM pg_roles WHERE rolname LIKE %s", (f"r{owner.info.dbname}%",)
    ).fetchone() or ("",)
    assert told(gate) == []
    owner.execute(f'GRANT CREATE ON SCHEMA words TO "{name}"'.encode())
    assert told(gate) == [f"{name} may make functions in the schema words"]
    assert told(address_of(owner)) == []
    owner.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    assert told(address_of(owner)) == ["PUBLIC may make functions in the schema public"]
    assert "PUBLIC may make functions in the schema public" in told(gate)


def told(address: str) -> list[str]:
    found = [one.text.partition(",")[0] for one in findings(address) if one.wrong]
    return [text for text in found if "functions" in text]

"""Brings a database to the tables of this version: numbered scripts that only ever go forward."""

from collections.abc import Sequence
from typing import Final

import psycopg

from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.storage.postgres.connection import Connection
from gateway.storage.postgres.locks import Lock

_PATIENCE_S: Final = 86_400.0
"""A table of millions of rows takes its time, and whoever is interrupted has changed nothing."""

_APPLIED: Final = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    tables text NOT NULL,
    number integer NOT NULL,
    name text NOT NULL,
    oldest integer NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tables, number)
)
"""


@value
class Migration:
    """One step. What has been released is never edited; what follows it has the next number."""

    number: int
    name: str
    script: str
    """Statements without parameters."""
    oldest: int | None = None
    """How many of its set's migrations a version has to know that runs on the tables as this leaves
    them: its own number, unless it says fewer. Then two versions run side by side while replicas are
    replaced one by one, and the older one can come back."""

    @property
    def known(self) -> int:
        """`oldest`, or what stands for it."""
        return self.number if self.oldest is None else self.oldest


@value
class Tables:
    """Those of one part of the product, and how they came to be."""

    name: str
    migrations: tuple[Migration, ...]

    def __post_init__(self) -> None:
        numbers = [migration.number for migration in self.migrations]
        if numbers != list(range(1, len(numbers) + 1)):
            raise ValueError(f"the migrations of {self.name} are not numbered one by one")


def migrate(connection: Connection, *parts: Tables) -> None:
    """Bring the database to this version's tables of each part: all of it, or nothing.

    Of replicas that begin at once one does it, and the others wait. Where nothing is to be done, no
    right to make tables is needed.

    Raises:
        ConfigError: A newer version of the gateway has written it, or it cannot be done.

    """
    try:
        if all(_is_current(connection, tables) for tables in parts):
            return
        connection.patience_s = _PATIENCE_S
        with connection.transaction():
            # Whoever waits looks anew: each statement sees what was committed before it began.
            connection.execute("SET LOCAL lock_timeout = '60s'")
            connection.execute("SET LOCAL statement_timeout = 0")
            connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (Lock.MIGRATE,))
            connection.execute(_APPLIED)
            for tables in parts:
                _apply(connection, tables)
    except psycopg.Error as error:
        raise ConfigError(f"the tables in PostgreSQL cannot be made: {error}") from error


def newer_than(connection: Connection, *parts: Tables) -> Sequence[str]:
    """Return the steps that a version has to know, whose tables are `parts`, and does not; mostly none.

    Of what it does not know at all it has to know nothing only where that says so.
    """
    if connection.execute("SELECT to_regclass('schema_migrations')").fetchone() == (None,):
        return ()
    known = {tables.name: len(tables.migrations) for tables in parts}
    rows = connection.execute(
        "SELECT tables, number, name, oldest FROM schema_migrations ORDER BY tables, number"
    ).fetchall()
    return [
        f"{of} {number} {name}" for of, number, name, oldest in rows if oldest > known.get(of, 0)
    ]


def _is_current(connection: Connection, tables: Tables) -> bool:
    row = connection.execute("SELECT to_regclass('schema_migrations')").fetchone()
    if row is None or row[0] is None:
        return False
    return _applied(connection, tables) == len(tables.migrations)


def _applied(connection: Connection, tables: Tables) -> int:
    """Return how many have been applied, of those that this version knows.

    Raises:
        ConfigError: There are others, which want to be known.

    """
    rows = connection.execute(
        "SELECT number, name, oldest FROM schema_migrations WHERE tables = %s ORDER BY number",
        (tables.name,),
    ).fetchall()
    known = [(migration.number, migration.name) for migration in tables.migrations]
    same = [row[:2] for row in rows[: len(known)]] == known[: len(rows)]
    later = rows[len(known) :]
    if not same or any(oldest > len(known) for _, _, oldest in later):
        raise ConfigError(
            "the database is newer than this version of the gateway; use the newer version",
            problems=[f"{tables.name} {number} {name}" for number, name, _ in later],
        )
    return min(len(rows), len(known))


def _apply(connection: Connection, tables: Tables) -> None:
    for migration in tables.migrations[_applied(connection, tables) :]:
        connection.execute(migration.script.encode())
        connection.execute(
            "INSERT INTO schema_migrations (tables, number, name, oldest) VALUES (%s, %s, %s, %s)",
            (tables.name, migration.number, migration.name, migration.known),
        )

"""Brings a database to the tables of this version."""

import sqlite3

from sqlite_utils import Database, Migrations

from gateway.errors import ConfigError
from gateway.storage.migrations import migrations

_KNOWN = frozenset(each.name for each in migrations.pending(Database(memory=True)))
"""Of a database that has nothing yet, all are pending."""


def migrate(
    connection: sqlite3.Connection,
    to: Migrations = migrations,
    known: frozenset[str] = _KNOWN,
) -> None:
    """Bring the database to this version's tables, in one transaction: all of it, or nothing.

    Raises:
        ConfigError: A newer version of the gateway has written it.

    """
    database = Database(connection, execute_plugins=False, recursive_triggers=False)
    newer = {migration.name for migration in to.applied(database)} - known
    if newer:
        raise ConfigError(
            "the database is newer than this version of the gateway; use the newer version",
            problems=sorted(newer),
        )
    with database.atomic():
        to.apply(database)

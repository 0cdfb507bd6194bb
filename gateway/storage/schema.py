"""Brings a database to the tables of this version."""

import sqlite3
from importlib import import_module
from typing import TYPE_CHECKING, Final

from gateway.domain._value import value
from gateway.errors import ConfigError

if TYPE_CHECKING:
    from sqlite_utils import Migrations

_APPLIED: Final = 'SELECT name FROM "_sqlite_migrations" WHERE migration_set = ?'


@value
class Tables:
    """Those of one database, by the names of the migrations that make them."""

    name: str
    """Of the set of migrations."""
    module: str
    """Where it stands: loaded only where something has to be made."""
    migrations: tuple[str, ...]
    """All of them, in their order."""

    def load(self) -> "Migrations":
        """Load them, and the library that runs them: a tenth of a start that needs neither."""
        migrations: Migrations = import_module(self.module).migrations
        return migrations


LOG: Final = Tables(
    name="douane",
    module="gateway.storage.migrations",
    migrations=(
        "m001_audit_and_state",
        "m002_clients_have_moved",
        "m003_what_approvals_rest_on",
        "m004_whose_definitions_pins_are",
        "m005_what_people_are_asked",
        "m006_runs_that_end",
        "m007_scripts_and_budgets",
        "m008_descriptions_that_were_read",
        "m009_sessions_in_front",
        "m010_servers_that_principals_choose",
        "m011_followers",
        "m013_retention",
        "m016_baselines",
        "m017_by_server",
        "m018_cosignatures",
        "m019_holds",
        "m020_one_run_at_a_time",
        "m021_usage",
        "m022_where_servers_are_chosen",
        "m023_late_calls",
        "m024_plane_debts",
        "m025_records_by_id",
        "m026_versions_of_runs",
    ),
)
IDENTITY: Final = Tables(
    name="identity",
    module="gateway.storage.identity.schema",
    migrations=(
        "m001_identity",
        "m002_standing_answers",
        "m003_reuse",
        "m004_bound",
        "m005_proven",
        "m006_proven_for",
        "m007_lost",
        "m008_ended",
        "m009_disabled_at",
    ),
)


def migrate(connection: sqlite3.Connection, to: Tables = LOG) -> None:
    """Bring the database to this version's tables, in one transaction: all of it, or nothing.

    Raises:
        ConfigError: A newer version of the gateway has written it.

    """
    applied = _applied(connection, to)
    if newer := applied - set(to.migrations):
        raise ConfigError(
            "the database is newer than this version of the gateway; use the newer version",
            problems=sorted(newer),
        )
    if len(applied) == len(to.migrations):
        return
    migrations = to.load()
    from sqlite_utils import Database  # noqa: PLC0415 - it takes time to load

    database = Database(connection, execute_plugins=False, recursive_triggers=False)
    with database.atomic():
        migrations.apply(database)


def is_current(connection: sqlite3.Connection, to: Tables) -> bool:
    """Say whether a database has this version's tables, and those alone."""
    return _applied(connection, to) == frozenset(to.migrations)


def _applied(connection: sqlite3.Connection, to: Tables) -> frozenset[str]:
    table = "SELECT 1 FROM sqlite_schema WHERE name = '_sqlite_migrations'"
    if connection.execute(table).fetchone() is None:
        return frozenset()
    return frozenset(name for (name,) in connection.execute(_APPLIED, (to.name,)))

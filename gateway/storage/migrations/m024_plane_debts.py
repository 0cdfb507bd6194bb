"""Calls that planes were allowed and have not reported."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script

_TABLE = """
CREATE TABLE plane_debts (
    decision TEXT NOT NULL PRIMARY KEY,
    run TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    record INTEGER NOT NULL,
    integrity TEXT NOT NULL,
    confidentiality TEXT NOT NULL,
    due REAL NOT NULL
) STRICT, WITHOUT ROWID;
"""


@migrations()
def m024_plane_debts(database: Database) -> None:
    """Make room for calls of planes that have no result yet."""
    run_script(database, _TABLE)

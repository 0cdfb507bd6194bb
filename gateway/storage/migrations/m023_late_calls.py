"""Calls whose answer is late."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script

_TABLE = """
CREATE TABLE late_calls (
    id TEXT NOT NULL PRIMARY KEY,
    decision_id TEXT NOT NULL,
    expires_at REAL NOT NULL,
    progress TEXT NOT NULL,
    sealed TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""


@migrations()
def m023_late_calls(database: Database) -> None:
    """Make room for calls that their servers have answered with a task."""
    run_script(database, _TABLE)

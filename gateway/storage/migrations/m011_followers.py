"""Where each follower of the log has come to."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script

_CURSORS = """
CREATE TABLE cursors (
    name TEXT PRIMARY KEY,
    leaf_index INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""


@migrations()
def m011_followers(database: Database) -> None:
    """Keep how far each follower of the log has come."""
    run_script(database, _CURSORS)

"""What is used of quotas."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script

_TABLE = """
CREATE TABLE usage (
    quota TEXT NOT NULL,
    under TEXT NOT NULL,
    begin INTEGER NOT NULL,
    used INTEGER NOT NULL,
    PRIMARY KEY (quota, under)
) STRICT, WITHOUT ROWID;
"""


@migrations()
def m021_usage(database: Database) -> None:
    """Make room for what is used of each quota in the span that it is in."""
    run_script(database, _TABLE)

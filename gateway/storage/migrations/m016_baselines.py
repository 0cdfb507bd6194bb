"""What is usual for whom, as it was learned from the log."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script

_BASELINES = """
CREATE TABLE baselines (
    subject TEXT PRIMARY KEY,
    state BLOB NOT NULL
) STRICT, WITHOUT ROWID;
"""


@migrations()
def m016_baselines(database: Database) -> None:
    """Keep what was learned beside the cursor that says from how much of the log."""
    run_script(database, _BASELINES)

"""Whether a run is as it was when a call was judged by it."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script


@migrations()
def m026_versions_of_runs(database: Database) -> None:
    """Count the changes of each run, from now on."""
    run_script(database, "ALTER TABLE runs ADD COLUMN version INTEGER NOT NULL DEFAULT 0;\n")

"""Where servers are chosen."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script

_COLUMN = "ALTER TABLE server_choices ADD COLUMN session TEXT NOT NULL DEFAULT '';"


@migrations()
def m022_where_servers_are_chosen(database: Database) -> None:
    """Make room for the session that a choice was made in; none is known of earlier ones."""
    run_script(database, _COLUMN)

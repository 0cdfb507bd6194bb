"""What is asked of one server alone, by time."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script

# The index by target would have every record of the server sorted first: seconds, of millions.
_INDEX = """
CREATE INDEX audit_by_server ON audit (server, time_us) WHERE server IS NOT NULL;
"""


@migrations()
def m017_by_server(database: Database) -> None:
    """Let the newest records of a server be found without looking at all of them."""
    run_script(database, _INDEX)

"""What witnesses have said of the log's checkpoints."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script

# Each line proves itself under its witness's key: no chain holds them together, and none needs to.
_COSIGNATURES = """
CREATE TABLE cosignatures (
    size INTEGER NOT NULL,
    witness TEXT NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (size, witness)
) STRICT, WITHOUT ROWID;
CREATE INDEX cosignatures_by_witness ON cosignatures (witness, size);
"""


@migrations()
def m018_cosignatures(database: Database) -> None:
    """Keep the cosignatures beside the checkpoints that they are of."""
    run_script(database, _COSIGNATURES)

"""Sources of runs and of planes' debts, which name the records of their calls by id."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script

# An earlier version noted where the record stands. What has left the log since, or is not in it yet,
# keeps that as its name: whoever looks a record up may give either.
_BY_ID = """
CREATE TABLE sources (
    run TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    record TEXT NOT NULL,
    integrity INTEGER NOT NULL,
    confidentiality INTEGER NOT NULL,
    PRIMARY KEY (run, server, tool)
) STRICT;

INSERT INTO sources (run, server, tool, record, integrity, confidentiality)
    SELECT run, server, tool,
        coalesce((SELECT id FROM audit WHERE leaf_index = record), CAST(record AS TEXT)),
        integrity, confidentiality
    FROM run_sources ORDER BY rowid;

DROP TRIGGER runs_are_forgotten_whole;
DROP TABLE run_sources;
ALTER TABLE sources RENAME TO run_sources;

CREATE TRIGGER runs_are_forgotten_whole AFTER DELETE ON runs
BEGIN
    DELETE FROM run_sources WHERE run = OLD.id;
END;

CREATE TABLE debts (
    decision TEXT NOT NULL PRIMARY KEY,
    run TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    record TEXT NOT NULL,
    integrity TEXT NOT NULL,
    confidentiality TEXT NOT NULL,
    due REAL NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO debts (decision, run, server, tool, record, integrity, confidentiality, due)
    SELECT decision, run, server, tool,
        coalesce((SELECT id FROM audit WHERE leaf_index = record), CAST(record AS TEXT)),
        integrity, confidentiality, due
    FROM plane_debts;

DROP TABLE plane_debts;
ALTER TABLE debts RENAME TO plane_debts;
"""


@migrations()
def m025_records_by_id(database: Database) -> None:
    """Name records by their ids, which they have before they have a place in the log."""
    run_script(database, _BY_ID)

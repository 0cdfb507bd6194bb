"""Holds on the log: any number, each with a name."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script

# The one hold that there could be until now goes on under a name of its own.
_HOLDS = """
CREATE TABLE holds (
    name TEXT PRIMARY KEY CHECK (name <> ''),
    first INTEGER NOT NULL
) STRICT;
INSERT INTO holds (name, first) SELECT 'hold', held FROM log_front WHERE held IS NOT NULL;
CREATE TRIGGER holds_are_only_released BEFORE UPDATE ON holds
BEGIN SELECT RAISE(ABORT, 'a hold is released, and not changed'); END;

DROP TRIGGER log_front_only_moves_on;
ALTER TABLE log_front DROP COLUMN held;
CREATE TRIGGER log_front_only_moves_on BEFORE UPDATE ON log_front
WHEN NEW.one <> 1 OR NEW.first < OLD.first OR NEW.first % 256 <> 0
    OR NEW.first > (SELECT coalesce(max(size), 0) FROM checkpoints)
    OR NEW.first > (SELECT coalesce(max(stop), 0) FROM archives)
    OR EXISTS (SELECT 1 FROM holds WHERE first < NEW.first)
    OR EXISTS (SELECT 1 FROM cursors WHERE leaf_index < NEW.first - 1)
BEGIN SELECT RAISE(ABORT, 'these records may not leave the log'); END;
"""


@migrations()
def m019_holds(database: Database) -> None:
    """Let holds stand beside each other."""
    run_script(database, _HOLDS)

"""Which records have left the log and where they are, and checkpoints that name the one before."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script

# The laws of removal stand in the file itself: only whole tiles, only what a checkpoint covers,
# what an archive holds and every follower has had, and nothing that is held.
_RETENTION = """
CREATE TABLE archives (
    first INTEGER PRIMARY KEY,
    stop INTEGER NOT NULL,
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    made_us INTEGER NOT NULL
) STRICT;

CREATE TABLE log_front (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    first INTEGER NOT NULL,
    held INTEGER
) STRICT;
INSERT INTO log_front (one, first, held) VALUES (1, 0, NULL);

CREATE TRIGGER log_front_is_never_deleted BEFORE DELETE ON log_front
BEGIN SELECT RAISE(ABORT, 'the front of the log is kept'); END;
CREATE TRIGGER log_front_only_moves_on BEFORE UPDATE OF one, first ON log_front
WHEN NEW.one <> 1 OR NEW.first < OLD.first OR NEW.first % 256 <> 0
    OR NEW.first > (SELECT coalesce(max(size), 0) FROM checkpoints)
    OR NEW.first > (SELECT coalesce(max(stop), 0) FROM archives)
    OR NEW.first > coalesce(OLD.held, NEW.first)
    OR EXISTS (SELECT 1 FROM cursors WHERE leaf_index < NEW.first - 1)
BEGIN SELECT RAISE(ABORT, 'these records may not leave the log'); END;

DROP TRIGGER audit_is_never_deleted;
CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
WHEN OLD.leaf_index >= coalesce((SELECT first FROM log_front), 0)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

ALTER TABLE checkpoints ADD COLUMN previous INTEGER;
ALTER TABLE checkpoints ADD COLUMN link TEXT;
"""


@migrations()
def m013_retention(database: Database) -> None:
    """Let whole tiles leave the log that are signed, archived and followed; link checkpoints."""
    run_script(database, _RETENTION)

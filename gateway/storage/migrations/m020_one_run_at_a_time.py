"""One live whole run of each owner, and whose it is."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script

# An earlier version let several be live. All that any of them has seen, the newest has seen from
# now on; what was begun in another one goes on in that one, and the others have ended.
_ONE_RUN = """
CREATE TEMP TABLE newest AS SELECT owner, max(began) AS began FROM runs
    WHERE part_of IS NULL AND NOT ended GROUP BY owner;

INSERT INTO run_sources (run, server, tool, record, integrity, confidentiality)
    SELECT newer.id, server, tool, max(record), min(seen.integrity), max(seen.confidentiality)
    FROM newest JOIN runs AS newer ON newer.began = newest.began
    JOIN runs AS older ON older.owner = newest.owner AND older.part_of IS NULL AND NOT older.ended
    JOIN run_sources AS seen ON seen.run = older.id
    GROUP BY newer.id, server, tool
    ON CONFLICT (run, server, tool) DO UPDATE SET record = excluded.record,
        integrity = excluded.integrity, confidentiality = excluded.confidentiality;

UPDATE runs SET
    integrity = (SELECT min(one.integrity) FROM runs AS one
        WHERE one.owner = runs.owner AND one.part_of IS NULL AND NOT one.ended),
    confidentiality = (SELECT max(one.confidentiality) FROM runs AS one
        WHERE one.owner = runs.owner AND one.part_of IS NULL AND NOT one.ended)
    WHERE began IN (SELECT began FROM newest);

UPDATE runs SET part_of = (SELECT newer.id FROM newest JOIN runs AS newer
        ON newer.began = newest.began WHERE newest.owner = runs.owner)
    WHERE part_of IS NOT NULL AND NOT ended AND owner IN (SELECT owner FROM newest);

UPDATE runs SET ended = 1
    WHERE part_of IS NULL AND NOT ended AND began NOT IN (SELECT began FROM newest);

DROP TABLE newest;
DROP TRIGGER runs_are_forgotten_whole;
DROP TABLE run_grants;

CREATE TRIGGER runs_are_forgotten_whole AFTER DELETE ON runs
BEGIN
    DELETE FROM run_sources WHERE run = OLD.id;
END;

CREATE UNIQUE INDEX one_whole_run_is_live ON runs (owner) WHERE part_of IS NULL AND NOT ended;

ALTER TABLE run_owners ADD COLUMN person TEXT NOT NULL DEFAULT '';
"""


@migrations()
def m020_one_run_at_a_time(database: Database) -> None:
    """Join what was live beside each other, and forget which grant was in which run."""
    run_script(database, _ONE_RUN)

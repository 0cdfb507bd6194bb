"""Runs of a version that let several of one client be live beside each other."""

import sqlite3

from sqlite_utils import Database

from gateway.domain.flow import Run, RunId, Source
from gateway.domain.labels import Confidentiality, Integrity, Label
from gateway.storage import run_changes
from gateway.storage.migrations import migrations
from gateway.storage.run_changes import Belonging, Kept
from gateway.storage.run_tables import SqliteRunTable

BEFORE = """
INSERT INTO run_owners VALUES ('emma', 3), ('noah', 1);
INSERT INTO runs VALUES
    (1, 'r_ended', 'emma', NULL, 0, 3, 1),
    (2, 'r_old', 'emma', NULL, 0, 1, 0),
    (3, 'r_task', 'emma', 'r_old', 1, 0, 0),
    (4, 'r_new', 'emma', NULL, 1, 2, 0),
    (5, 'r_noah', 'noah', NULL, 1, 0, 0);
INSERT INTO run_sources VALUES
    ('r_ended', 'bank', 'read', 1, 0, 3),
    ('r_old', 'web', 'page', 2, 0, 1),
    ('r_old', 'mail', 'read', 3, 0, 1),
    ('r_new', 'mail', 'read', 4, 1, 2);
INSERT INTO run_grants VALUES
    ('emma', 'g_1', '/mcp/mail', 'r_old'), ('emma', 'g_2', '/mcp/mail', 'r_new');
"""


def of(integrity: Integrity, confidentiality: Confidentiality) -> Label:
    return Label(integrity=integrity, confidentiality=confidentiality)


def test_runs_that_were_live_beside_each_other_are_one_that_has_seen_it_all() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    database = Database(connection)
    migrations.apply(database, stop_before="m020_one_run_at_a_time")
    connection.executescript(BEFORE)
    migrations.apply(database)
    table = SqliteRunTable(connection)
    outside = of(Integrity.UNTRUSTED, Confidentiality.INTERNAL)
    both = of(Integrity.UNTRUSTED, Confidentiality.PRIVATE)
    joined = Run(
        id=RunId("r_new"),
        label=both,
        sources=(
            Source(server="mail", tool="read", record="4", label=both),
            Source(server="web", tool="page", record="2", label=outside),
        ),
    )
    assert table.wholes("emma") == [Kept(run=joined, owner="emma")]
    assert [kept.run.id for kept in table.parts(RunId("r_new"))] == ["r_task"]
    assert [kept.run.id for kept in table.all() if kept.ended] == ["r_ended", "r_old"]
    assert [kept.run.id for kept in table.wholes("noah")] == ["r_noah"]
    assert table.belonging() == []
    found = run_changes.current(table, lambda *_: RunId("r_4"), owner="emma", person="p")
    assert found.result == joined
    assert table.belonging() == [Belonging(owner="emma", person="p")]


def test_sources_that_named_a_place_in_the_log_name_the_record_there() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    database = Database(connection)
    migrations.apply(database, stop_before="m025_records_by_id")
    connection.executescript("""
        INSERT INTO audit (leaf_index, id, time_us, kind, leaf_hash, body)
            VALUES (7, 'theintent', 0, 'intent', x'', '{}');
        INSERT INTO runs VALUES (1, 'r_1', 'emma', NULL, 0, 1, 0);
        INSERT INTO run_sources VALUES ('r_1', 'web', 'page', 7, 0, 1), ('r_1', 'mail', 'read', 3, 1, 1);
        INSERT INTO plane_debts VALUES ('d_1', 'r_1', 'web', 'page', 7, 'untrusted', 'private', 1.0),
            ('d_2', 'r_1', 'web', 'page', 3, 'untrusted', 'private', 2.0);
        """)
    migrations.apply(database)
    (kept,) = SqliteRunTable(connection).all()
    named = [(one.server, one.record) for one in kept.run.sources]
    assert named == [("web", "theintent"), ("mail", "3")]
    debts = connection.execute("SELECT record FROM plane_debts ORDER BY decision").fetchall()
    assert debts == [("theintent",), ("3",)]
    connection.execute("DELETE FROM runs")
    assert connection.execute("SELECT count(*) FROM run_sources").fetchone() == (0,)

"""The index of the log: made from it, of it alone, and as far as it says."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.audit.questions import Progress
from gateway.errors import AuditUnavailable
from gateway.storage import index as module
from gateway.storage.database import CHECKPOINT, DATABASE
from gateway.storage.index import INDEX, AuditIndex
from tests.storage.logged import (
    AFTER_ALL,
    DAY,
    FROM_CRM,
    NOW,
    TO_OTHERS,
    Event,
    indexed,
    made,
    refused,
    write,
)

SIGNED_IN: Event = ("auth", NOW, {"principal": "emma", "verdict": "allow"})


def caught_up(folder: Path) -> Progress:
    with closing(AuditIndex.open(folder)) as index:
        return index.catch_up(lambda: False)


def calls(folder: Path) -> Any:
    with indexed(folder) as answers:
        rows = answers.who_called("mail", "send", 0, 10)
    return [(row["principal"], row["calls"], row["refused"]) for row in rows]


async def test_it_says_how_far_it_has_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH", 2)
    await write(tmp_path, [SIGNED_IN] * 5)
    with closing(AuditIndex.open(tmp_path)) as index:
        assert index.catch_up(lambda: True) == Progress(through=1, newest=4)
        assert index.catch_up(lambda: True) == Progress(through=3, newest=4)
    with closing(AuditIndex.open(tmp_path)) as index:
        found = index.catch_up(lambda: True)
        assert (found, found.complete) == (Progress(through=4, newest=4), True)
        assert index.catch_up(lambda: False) == found


async def test_an_empty_log_has_an_empty_index(tmp_path: Path) -> None:
    await write(tmp_path, [])
    assert caught_up(tmp_path) == Progress(through=-1, newest=-1)


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
async def test_a_call_counts_once_wherever_its_records_fall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(module, "_BATCH", batch)
    unanswered = made("3")[:1]
    await write(tmp_path, [*made("1"), *refused("2"), *unanswered, *made("4", target="read")])
    assert calls(tmp_path) == [("emma", 3, 1)]


async def test_a_refusal_of_what_came_back_is_no_second_call(tmp_path: Path) -> None:
    await write(tmp_path, [*made("1")[:1], *refused("1")])
    assert calls(tmp_path) == [("emma", 1, 0)]


async def test_what_is_written_later_is_added(tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    assert calls(tmp_path) == [("emma", 1, 0)]
    await write(tmp_path, [*made("2"), *made("3", principal="noah")], begin=2)
    assert calls(tmp_path) == [("emma", 2, 0), ("noah", 1, 0)]
    assert calls(tmp_path) == [("emma", 2, 0), ("noah", 1, 0)]


async def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    caught_up(tmp_path)
    assert stat.S_IMODE((tmp_path / INDEX).stat().st_mode) == 0o600


async def test_one_that_was_deleted_is_made_anew(tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    caught_up(tmp_path)
    for file in tmp_path.glob(f"{INDEX}*"):
        file.unlink()
    assert calls(tmp_path) == [("emma", 1, 0)]


async def test_one_that_is_no_database_is_made_anew(tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    (tmp_path / INDEX).write_text("nothing of the kind, but long enough to be looked at" * 100)
    assert calls(tmp_path) == [("emma", 1, 0)]


async def test_one_of_other_tables_is_made_anew(tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    caught_up(tmp_path)
    with closing(sqlite3.connect(tmp_path / INDEX)) as connection:
        connection.execute("UPDATE used SET calls = 7")
        connection.execute("PRAGMA user_version = 99")
        connection.commit()
    assert calls(tmp_path) == [("emma", 1, 0)]


async def test_a_new_log_has_a_new_index(tmp_path: Path) -> None:
    await write(tmp_path, [*made("1"), *made("2")])
    caught_up(tmp_path)
    for name in (DATABASE, CHECKPOINT):
        (tmp_path / name).rename(tmp_path / f"{name}.old")
    await write(tmp_path, [*made("1"), *made("2")])
    with closing(sqlite3.connect(tmp_path / INDEX)) as connection:
        connection.execute("UPDATE used SET calls = 7")
        connection.commit()
    assert calls(tmp_path) == [("emma", 2, 0)]


@pytest.mark.parametrize("kept", [2, 4], ids=["shorter", "another end"])
async def test_the_index_of_a_longer_or_other_log_is_made_anew(tmp_path: Path, kept: int) -> None:
    await write(tmp_path, [*made("1"), *made("2")])
    caught_up(tmp_path)
    _begin_again(tmp_path)
    await write(tmp_path, [*made("5"), *made("6", principal="noah")][:kept])
    assert sorted(calls(tmp_path)) == [("emma", 1, 0), ("noah", 1, 0)][: kept // 2]


def _begin_again(folder: Path) -> None:
    """Remove the log's records as a restored backup does, which has the same name."""
    (folder / CHECKPOINT).unlink()
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.execute("DROP TRIGGER audit_is_never_deleted")
        for table in ("audit", "tiles", "checkpoints"):
            connection.execute(f"DELETE FROM {table}")
        connection.commit()


async def test_what_the_log_has_no_more_is_forgotten(tmp_path: Path) -> None:
    old = NOW - 3 * DAY
    await write(tmp_path, [*made("1", old), *refused("2", old), *made("3")])
    caught_up(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.execute("DROP TRIGGER audit_is_never_deleted")
        connection.execute("DELETE FROM audit WHERE leaf_index < 3")
        connection.commit()
    with indexed(tmp_path) as answers:
        assert [row["calls"] for row in answers.who_called("mail", "send", 0, 10)] == [1]
        assert [row["calls"] for row in answers.top("client", 0, 10)] == [1]
        assert answers.refusals(0, 10) == []


async def test_a_call_that_began_before_the_first_record_left_is_not_forgotten(
    tmp_path: Path,
) -> None:
    seen: dict[str, Any] = {"sources": FROM_CRM, "destinations": TO_OTHERS}
    gone, kept = made("1", NOW, **seen)[0], made("3", NOW - 30, **seen)[0]
    await write(tmp_path, [gone, SIGNED_IN, kept])
    caught_up(tmp_path)
    _remove_before(tmp_path, 1)
    with indexed(tmp_path) as answers:
        assert [r["id"] for r in answers.outside("crm", 0, AFTER_ALL, None, 9)] == ["r2"]
        assert answers.marked(f"d_{1:0>30}") == []
        assert answers.marked(f"d_{3:0>30}") == [2]


def _remove_before(folder: Path, first: int) -> None:
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.execute("DROP TRIGGER audit_is_never_deleted")
        connection.execute("DELETE FROM audit WHERE leaf_index < ?", (first,))
        connection.commit()


async def test_a_body_that_is_no_json_is_passed_over(tmp_path: Path) -> None:
    await write(tmp_path, [*made("1"), *made("2")])
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.execute("DROP TRIGGER audit_is_never_updated")
        connection.execute("UPDATE audit SET body = 'gone' WHERE leaf_index = 0")
        connection.commit()
    assert caught_up(tmp_path).complete


async def test_where_it_cannot_be_written_nothing_is_said_to_be_in_it(tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    with closing(AuditIndex.open(tmp_path)) as index:
        index._connection.execute("PRAGMA main.max_page_count = 1")
        index._connection.execute("DROP TABLE used")
        with pytest.raises(AuditUnavailable, match="index"):
            index.catch_up(lambda: True)
        through = index._connection.execute("SELECT through FROM progress").fetchone()
        assert through == (-1,)


def test_without_a_log_there_is_no_index(tmp_path: Path) -> None:
    with pytest.raises(AuditUnavailable):
        AuditIndex.open(tmp_path)

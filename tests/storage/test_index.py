"""The index of the log: made from it, of it alone, and as far as it says."""

import sqlite3
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.audit.questions import Progress
from gateway.errors import AuditUnavailable
from gateway.storage import index as module
from gateway.storage import index_words
from gateway.storage.answers import Answers
from gateway.storage.database import CHECKPOINT, DATABASE
from gateway.storage.index import INDEX, AuditIndex
from gateway.storage.index_steps import kept
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
    remove_before,
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
    monkeypatch.setattr(module, "_FEWEST", 2)
    monkeypatch.setattr(module, "_MOST", 2)
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
    monkeypatch.setattr(module, "_FEWEST", batch)
    monkeypatch.setattr(module, "_MOST", batch)
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
    remove_before(tmp_path, 3)
    with indexed(tmp_path) as answers:
        assert [row["calls"] for row in answers.who_called("mail", "send", 0, 10)] == [1]
        assert [row["calls"] for row in answers.top("client", 0, 10)] == [1]
        assert [row["undeclared"] for row in answers.undeclared(0, 10)] == [1]
        assert answers.refusals(0, 10) == []


async def test_a_call_that_began_before_the_first_record_left_is_not_forgotten(
    tmp_path: Path,
) -> None:
    seen: dict[str, Any] = {"sources": FROM_CRM, "destinations": TO_OTHERS}
    gone, kept = made("1", NOW, **seen)[0], made("3", NOW - 30, **seen)[0]
    await write(tmp_path, [gone, SIGNED_IN, kept])
    caught_up(tmp_path)
    remove_before(tmp_path, 1)
    with indexed(tmp_path) as answers:
        assert [r["id"] for r in answers.outside("crm", 0, AFTER_ALL, None, 9)] == ["r2"]
        assert answers.marked(f"d_{1:0>30}") == []
        assert answers.marked(f"d_{3:0>30}") == [2]


def _told(number: int, at: float, word: str) -> list[Event]:
    """A refusal in which everything that a record can say is its own."""
    says = f"{word}{number:04d}{word}"
    return refused(
        f"{number:x}",
        at,
        principal=f"p-{says}",
        client=f"c-{says}",
        server=f"s-{says}",
        target=f"t-{says}",
        sources=({"server": f"o-{says}", "tool": "read", "record": "r1"},),
        destinations=TO_OTHERS,
        reasons=[{"code": "rule_a", "message": f"{says} would leave"}],
    )


OLD, KEPT = 256, 100


async def forgotten(folder: Path, index: AuditIndex) -> None:
    """Have an index take up a log whose older records are removed then."""
    gone = [_told(n, NOW - 3 * DAY + n, "gone") for n in range(OLD)]
    left = [_told(n, NOW + n, "kept") for n in range(OLD, OLD + KEPT)]
    await write(folder, [event for events in (*gone, *left) for event in events])
    index.catch_up(lambda: False)
    remove_before(folder, OLD)


@pytest.fixture
async def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AuditIndex]:
    """An index of many tables of words; the log's first record stands amid the range of one."""
    monkeypatch.setattr(index_words, "PARTITION", 60)
    monkeypatch.setattr(module, "_MOST_FRESH_MARKS", 50)
    await write(tmp_path, [])
    with closing(AuditIndex.open(tmp_path)) as opened:
        yield opened


def content(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.glob(f"{INDEX}*")))


async def test_no_word_of_what_the_log_has_no_more_is_in_the_files(
    tmp_path: Path, index: AuditIndex
) -> None:
    await forgotten(tmp_path, index)
    assert content(tmp_path).count(b"gone") > OLD
    index.catch_up(lambda: True)
    assert content(tmp_path).count(b"gone") == 0
    assert content(tmp_path).count(b"kept") > KEPT


@contextmanager
def read_meanwhile(folder: Path) -> Iterator[None]:
    """Hold the index as it is now for somebody who reads in it."""
    with closing(sqlite3.connect(folder / INDEX)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM names").fetchall()
        yield
        reader.rollback()


async def test_no_word_stays_in_the_write_ahead_log_once_nobody_reads_there(
    tmp_path: Path, index: AuditIndex
) -> None:
    await forgotten(tmp_path, index)
    with read_meanwhile(tmp_path):
        index.catch_up(lambda: True)
        assert b"gone" in content(tmp_path)
    index.catch_up(lambda: True)
    assert b"gone" not in content(tmp_path)


async def test_a_file_that_was_left_with_such_a_log_has_none_after_the_next_start(
    tmp_path: Path, index: AuditIndex
) -> None:
    await forgotten(tmp_path, index)
    with read_meanwhile(tmp_path):
        index.catch_up(lambda: True)
    with closing(AuditIndex.open(tmp_path)) as anew:
        anew.catch_up(lambda: True)
        assert b"gone" not in content(tmp_path)


async def test_no_mark_of_what_the_log_has_no_more_is_left(
    tmp_path: Path, index: AuditIndex
) -> None:
    await forgotten(tmp_path, index)
    index.catch_up(lambda: True)
    with closing(Answers.open(tmp_path)) as answers:
        assert [answers.marked(f"d_{n:0>30x}") for n in (0, OLD - 1)] == [[], []]
        assert [answers.marked(f"d_{n:0>30x}") for n in (OLD, OLD + 99)] == [[OLD], [OLD + 99]]
    entries = index._connection.execute("SELECT entries FROM marks").fetchall()
    assert entries
    assert all(kept(text, OLD) == text != "" for (text,) in entries)


async def test_of_a_call_that_the_log_has_no_more_it_is_not_waited_for_its_end(
    tmp_path: Path,
) -> None:
    await write(tmp_path, [made("1")[0], SIGNED_IN, made("2")[0]])
    caught_up(tmp_path)
    remove_before(tmp_path, 1)
    with closing(AuditIndex.open(tmp_path)) as index:
        index.catch_up(lambda: True)
        under_way = index._connection.execute("SELECT decision_id FROM under_way").fetchall()
    assert under_way == [(f"d_{2:0>30}",)]


async def test_names_of_who_is_still_counted_stay(tmp_path: Path, index: AuditIndex) -> None:
    await forgotten(tmp_path, index)
    index.catch_up(lambda: True)
    names = {name for (name,) in index._connection.execute("SELECT name FROM names")}
    each = {f"{what}-kept{n:04d}kept" for what in "pcsto" for n in range(OLD, OLD + KEPT)}
    assert names == each | {""}


async def test_the_words_that_are_left_are_made_again_a_batch_at_a_time(
    tmp_path: Path, index: AuditIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AGAIN", 8)
    await forgotten(tmp_path, index)
    known = []
    for _ in range(4):
        index.catch_up(lambda: True)
        known += index._connection.execute("SELECT min(begin), through FROM partitions").fetchall()
    assert known == [(240, 263), (240, 271), (240, 279), (240, 287)]


async def test_words_of_new_records_wait_for_those_before_them(
    tmp_path: Path, index: AuditIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AGAIN", 2)
    monkeypatch.setattr(index_words, "PARTITION", 1 << 20)
    await forgotten(tmp_path, index)
    index.catch_up(lambda: True)
    await write(tmp_path, refused("abc"), begin=OLD + KEPT)
    index.catch_up(lambda: True)
    found = index._connection.execute("SELECT through FROM partitions").fetchall()
    assert found == [(OLD + 3,)]


async def test_a_batch_grows_while_it_is_quick_and_shrinks_where_it_takes_long(
    tmp_path: Path, index: AuditIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(tmp_path, [SIGNED_IN] * 40)
    monkeypatch.setattr(module, "_FEWEST", 2)
    monkeypatch.setattr(module, "_MOST", 8)
    index._batch = 2
    took = []
    for quick, long in ((9, 9), (9, 9), (9, 9), (0, 9), (0, 0), (0, 0), (0, 0)):
        monkeypatch.setattr(module, "_QUICK_S", quick)
        monkeypatch.setattr(module, "_LONG_S", long)
        before = index._through
        took.append(index.catch_up(lambda: True).through - before)
    assert took == [2, 4, 8, 8, 8, 4, 2]


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

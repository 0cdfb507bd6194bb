"""Archiving and removing, where two do it at once, files are in the way, or the log is damaged."""

import asyncio
import contextlib
import sqlite3

import pytest

from gateway.errors import AuditUnavailable, ConfigError
from gateway.storage import retention, verify
from gateway.storage.database import DATABASE
from gateway.storage.retention import Retention
from gateway.storage.segments import segment_verified
from gateway.storage.store import Store
from gateway.storage.verify import Finding
from tests.storage.suite import NOW
from tests.storage.test_retention import BEFORE, checked, filled, keeper, signed

__all__ = ["filled"]


def second(keep, folder):
    return Retention(
        keep.store.data_dir,
        keep.store.writer,
        verifier=keep.store.verifier,
        key=keep.store.keys.audit,
        archive=folder / "archive",
        record=keep.record,
        turn=keep.store.aging,
    )


async def test_two_that_archive_at_once_make_each_file_once(filled):
    async with keeper(filled) as keep:
        other = second(keep, filled)
        made = await asyncio.gather(keep.retention.archive(BEFORE), other.archive(BEFORE))
        assert sorted(len(each) for each in made) == [0, 1]
        await other.prune(BEFORE)
    assert checked(filled).finding is Finding.OK


async def test_a_file_that_is_in_the_way_is_not_replaced(filled):
    async with keeper(filled) as keep:
        (segment,) = await keep.retention.archive(BEFORE)
        path = filled / "archive" / segment.path
        await keep.store.writer.run(lambda connection: connection.execute("DELETE FROM archives"))
        path.write_text("what a log that was restored since does not have")
        with pytest.raises(ConfigError, match="is another file, which is not replaced"):
            await keep.retention.archive(BEFORE)
        assert path.read_text().startswith("what a log")
        path.unlink()
        assert len(await keep.retention.archive(BEFORE)) == 1


async def test_a_log_that_cannot_be_read_is_told_as_that(filled, monkeypatch):
    def damaged(*_):
        raise sqlite3.DatabaseError("database disk image is malformed")

    async with keeper(filled) as keep:
        monkeypatch.setattr(retention, "_older", damaged)
        for work in (keep.retention.archive, keep.retention.prune):
            with pytest.raises(AuditUnavailable) as told:
                await work(BEFORE)
            assert told.value.detail == "database disk image is malformed"


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM checkpoints WHERE size = 300",
        "UPDATE checkpoints SET note = (SELECT note FROM checkpoints WHERE size = 700)",
        "UPDATE checkpoints SET note = 'no note' WHERE size = 300",
    ],
)
async def test_a_segment_is_compared_with_the_checkpoint_where_its_records_have_left(
    filled, monkeypatch, sql
):
    monkeypatch.setattr(retention, "SEGMENT_RECORDS", 256)
    async with keeper(filled) as keep:
        segment, _ = await keep.retention.archive(BEFORE)
        await keep.retention.prune(BEFORE)
        path, verifier = filled / "archive" / segment.path, keep.store.verifier
    log = filled / "var" / DATABASE
    found = segment_verified(path, verifier, log)
    assert (found.ok, found.size) == (True, 300)
    with contextlib.closing(sqlite3.connect(log, isolation_level=None)) as connection:
        connection.execute(sql)
    found = segment_verified(path, verifier, log)
    assert (found.ok, found.reason) == (False, "the log cannot tell its first 300")


async def test_a_removal_while_the_log_is_verified_is_no_finding(filled, monkeypatch):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        removal = keep.retention._removable(BEFORE)
        await keep.record("log_pruned", "", signed(keep, removal))
    follow = verify._Pass._follow

    def meanwhile(self, *given):
        monkeypatch.setattr(verify._Pass, "_follow", follow)
        path = filled / "var" / DATABASE
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE log_front SET first = 512")
            connection.execute("DELETE FROM audit WHERE leaf_index < 512")
        return follow(self, *given)

    monkeypatch.setattr(verify._Pass, "_follow", meanwhile)
    found = checked(filled)
    assert (found.reason, found.front) == ("", 512)


async def test_a_damaged_database_says_what_there_is_to_do(filled):
    path = filled / "var" / DATABASE
    with path.open("r+b") as file:
        for page in range(20, path.stat().st_size // 4096, 2):
            file.seek(page * 4096)
            file.write(b"\xa5" * 4096)
    with pytest.raises(ConfigError, match=r"damaged.*restore the data directory from a backup"):
        await Store.open(filled / "var", clock=lambda: NOW)

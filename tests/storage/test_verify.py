"""Tampering with the log's file, and what the verification says of it."""

import asyncio
import contextlib
import shutil
import sqlite3

import orjson
import pytest

from gateway.audit.merkle import leaf_hash
from gateway.audit.tiles import tile_root
from gateway.errors import ConfigError
from gateway.storage.database import CHECKPOINT, DATABASE
from gateway.storage.store import Store
from gateway.storage.verify import Finding, own_verifier, verify
from tests.storage.suite import NOW, event

FIRST, SIZE = 300, 600
"""The log is signed at 0, at FIRST and at SIZE records."""


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A log of 600 records and its key, made once."""
    data_dir = tmp_path_factory.mktemp("original") / "var"

    async def fill():
        for part in (range(FIRST), range(FIRST, SIZE)):
            store = await Store.open(data_dir, clock=lambda: NOW)
            await asyncio.gather(
                *(store.audit.append(event(f"e{n}", server="mail", verdict="deny")) for n in part)
            )
            await store.close()

    asyncio.run(fill())
    return data_dir


@pytest.fixture
def data_dir(original, tmp_path):
    shutil.copytree(original, tmp_path / "var")
    return tmp_path / "var"


@pytest.fixture
def verifier(original):
    return own_verifier(original)


@contextlib.contextmanager
def tampering(data_dir, *, again=False):
    """Somebody who can write the file and knows how the log is built, but has no key."""
    with contextlib.closing(sqlite3.connect(data_dir / DATABASE)) as connection:
        if not again:
            connection.execute("DROP TRIGGER audit_is_never_updated")
            connection.execute("DROP TRIGGER audit_is_never_deleted")
        yield connection
        connection.commit()


def forge(connection, index, **changes):
    """Change a record and everything about it that can be computed without a key."""
    (body,) = connection.execute("SELECT body FROM audit WHERE leaf_index = ?", (index,)).fetchone()
    forged = orjson.dumps({**orjson.loads(body), **changes})
    connection.execute(
        "UPDATE audit SET body = ?, leaf_hash = ?, verdict = ? WHERE leaf_index = ?",
        (forged.decode(), leaf_hash(forged), changes["verdict"], index),
    )


def swap(connection, one, other):
    connection.execute("UPDATE audit SET leaf_index = -1 WHERE leaf_index = ?", (one,))
    connection.execute("UPDATE audit SET leaf_index = ? WHERE leaf_index = ?", (one, other))
    connection.execute("UPDATE audit SET leaf_index = ? WHERE leaf_index = -1", (other,))


def test_an_untouched_log_is_what_was_signed(data_dir, verifier):
    found = verify(data_dir, verifier)
    assert (found.finding, found.size, found.signed, found.checkpoints) == (
        Finding.OK,
        SIZE,
        SIZE,
        4,
    )
    assert (found.first_bad, found.reason, found.exit_status) == (None, "", 0)


@pytest.mark.parametrize(
    ("sql", "first_bad", "says"),
    [
        ("UPDATE audit SET body = replace(body, 'deny', 'deni') WHERE leaf_index = 17", 17,
         "record 17 was changed"),
        ("UPDATE audit SET body = CAST(x'ff' || body AS TEXT) WHERE leaf_index = 17", 17,
         "record 17 was changed"),
        ("UPDATE audit SET leaf_hash = zeroblob(32) WHERE leaf_index = 599", 599,
         "record 599 was changed"),
        ("UPDATE audit SET verdict = 'allow' WHERE leaf_index = 40", 40,
         "record 40 has other columns than content"),
        ("UPDATE audit SET time_us = time_us + 1 WHERE leaf_index = 40", 40,
         "record 40 has other columns than content"),
        ("DELETE FROM audit WHERE leaf_index = 0", 0, "record 1 stands where 0 belongs"),
        ("DELETE FROM audit WHERE leaf_index = 299", 299, "record 300 stands where 299 belongs"),
        ("UPDATE audit SET leaf_index = -1 WHERE leaf_index = 5", 0,
         "record -1 stands where 0 belongs"),
        ("UPDATE tiles SET root = zeroblob(32) WHERE tile = 1", 300,
         "one of the records 300 to 511 was changed or moved: see tile 1"),
        ("DELETE FROM tiles WHERE tile = 0", 0,
         "one of the records 0 to 255 was changed or moved: see tile 0"),
        ("UPDATE checkpoints SET note = replace(note, char(10) || '300' || char(10), char(10) || '301' || char(10)) WHERE size = 300", None, "checkpoint 300: the signature does not match the note"),
    ],
)  # fmt: skip
def test_a_change_in_place_is_found_where_it_is(data_dir, verifier, sql, first_bad, says):
    with tampering(data_dir) as connection:
        assert connection.execute(sql).rowcount == 1
    found = verify(data_dir, verifier)
    assert (found.finding, found.first_bad, found.reason) == (Finding.ALTERED, first_bad, says)
    assert found.exit_status == 1


def test_a_forged_record_is_found_by_the_tile_it_stands_in(data_dir, verifier):
    with tampering(data_dir) as connection:
        forge(connection, 17, verdict="allow")
    found = verify(data_dir, verifier)
    assert (found.finding, found.first_bad) == (Finding.ALTERED, 0)
    assert found.reason == "one of the records 0 to 255 was changed or moved: see tile 0"


def test_a_forged_record_after_the_last_tile_is_found_by_the_checkpoint(data_dir, verifier):
    with tampering(data_dir) as connection:
        forge(connection, 555, verdict="allow")
    found = verify(data_dir, verifier)
    assert (found.finding, found.first_bad) == (Finding.ALTERED, FIRST)
    assert found.reason.startswith("one of the records 300 to 599 was changed or moved")


@pytest.mark.parametrize(
    ("one", "other", "first_bad"), [(3, 4, 0), (301, 302, 300), (590, 591, 300)]
)
def test_swapped_records_are_found(data_dir, verifier, one, other, first_bad):
    with tampering(data_dir) as connection:
        swap(connection, one, other)
    found = verify(data_dir, verifier)
    assert (found.finding, found.first_bad) == (Finding.ALTERED, first_bad)


def test_a_missing_end_is_found_by_the_checkpoints(data_dir, verifier):
    with tampering(data_dir) as connection:
        connection.execute("DELETE FROM audit WHERE leaf_index >= 598")
    found = verify(data_dir, verifier)
    assert (found.finding, found.first_bad) == (Finding.INCOMPLETE, 598)
    assert found.reason.startswith("records 598 to 599 are missing")
    assert found.exit_status == 1


def cut(data_dir, size):
    """Cut off the end with everything in the database that tells of it."""
    with tampering(data_dir) as connection:
        connection.execute("DELETE FROM audit WHERE leaf_index >= ?", (size,))
        connection.execute("DELETE FROM tiles WHERE tile >= ?", (size // 256,))
        connection.execute("DELETE FROM checkpoints WHERE size > ?", (size,))


def test_a_missing_end_with_its_checkpoints_is_found_by_the_file_beside_it(data_dir, verifier):
    cut(data_dir, FIRST)
    found = verify(data_dir, verifier)
    assert (found.finding, found.first_bad) == (Finding.INCOMPLETE, FIRST)


def test_a_missing_end_without_any_trace_is_found_by_a_checkpoint_kept_elsewhere(
    data_dir, verifier
):
    kept = (data_dir / CHECKPOINT).read_text()
    cut(data_dir, FIRST)
    (data_dir / CHECKPOINT).unlink()
    assert verify(data_dir, verifier).finding is Finding.OK
    found = verify(data_dir, verifier, checkpoints=[("kept.txt", kept)])
    assert (found.finding, found.first_bad, found.reason) == (
        Finding.INCOMPLETE,
        FIRST,
        "records 300 to 599 are missing: see kept.txt",
    )


def test_tiles_of_records_that_are_gone_are_found(data_dir, verifier):
    with tampering(data_dir) as connection:
        connection.execute("DELETE FROM audit WHERE leaf_index >= 300")
        connection.execute("DELETE FROM checkpoints WHERE size > 300")
    (data_dir / CHECKPOINT).unlink()
    found = verify(data_dir, verifier)
    assert (found.finding, found.first_bad) == (Finding.INCOMPLETE, FIRST)
    assert found.reason == "there are tiles of records after 299"


def test_a_log_without_any_checkpoint_is_not_good(data_dir, verifier):
    with tampering(data_dir) as connection:
        connection.execute("DELETE FROM checkpoints")
    (data_dir / CHECKPOINT).unlink()
    found = verify(data_dir, verifier)
    assert (found.finding, found.reason) == (
        Finding.INCOMPLETE,
        "there is no checkpoint to compare with",
    )


def test_another_log_in_its_place_is_found(data_dir, verifier, tmp_path):
    async def another():
        store = await Store.open(tmp_path / "another", clock=lambda: NOW)
        await store.audit.append(event("forged"))
        await store.close()

    asyncio.run(another())
    shutil.copy(tmp_path / "another" / DATABASE, data_dir / DATABASE)
    found = verify(data_dir, verifier)
    assert (found.finding, found.exit_status) == (Finding.ALTERED, 1)
    assert "not signed by" in found.reason


def test_a_checkpoint_of_another_history_is_found(data_dir, verifier, original):
    """Whoever has the key can sign another history, but not take back what was handed out."""
    with tampering(data_dir) as connection:
        connection.execute("DELETE FROM audit")
        connection.execute("DELETE FROM tiles")
        connection.execute("DELETE FROM checkpoints")
    (data_dir / CHECKPOINT).unlink()

    async def rewrite():
        store = await Store.open(data_dir, clock=lambda: NOW)
        await asyncio.gather(*(store.audit.append(event(f"r{n}")) for n in range(SIZE)))
        await store.close()

    asyncio.run(rewrite())
    assert verify(data_dir, verifier).finding is Finding.OK
    kept = (original / CHECKPOINT).read_text()
    found = verify(data_dir, verifier, checkpoints=[("kept.txt", kept)])
    assert (found.finding, found.first_bad) == (Finding.ALTERED, SIZE)


@pytest.mark.parametrize(
    ("size", "says"),
    [
        (300, "a checkpoint before that of 600 records is missing (of 300)"),
        (600, "the log's own checkpoint of 600 records is missing"),
    ],
)
def test_a_checkpoint_that_was_taken_away_is_found(data_dir, verifier, size, says):
    with tampering(data_dir) as connection:
        connection.execute("DELETE FROM checkpoints WHERE size = ?", (size,))
    found = verify(data_dir, verifier)
    assert found.finding is Finding.ALTERED
    assert says in found.reason


def test_a_checkpoint_in_anothers_place_is_found(data_dir, verifier):
    with tampering(data_dir) as connection:
        connection.execute("UPDATE checkpoints SET size = 299 WHERE size = 300")
    found = verify(data_dir, verifier)
    assert (found.finding, found.reason) == (
        Finding.ALTERED,
        "checkpoint 299 is one of 300 records",
    )


def test_checkpoints_of_before_there_were_links_are_good(data_dir, verifier):
    with tampering(data_dir) as connection:
        connection.execute("UPDATE checkpoints SET link = NULL, previous = NULL")
    assert verify(data_dir, verifier).reason == ""
    with tampering(data_dir, again=True) as connection:
        connection.execute("ALTER TABLE checkpoints DROP COLUMN link")
        connection.execute("DROP TABLE log_front")
    assert verify(data_dir, verifier).reason == ""


def test_links_that_were_taken_away_are_found(data_dir, verifier):
    async def begin():
        store = await Store.open(data_dir, clock=lambda: NOW)
        await store.audit.append(event("begun", code="opened"))
        await store.close()

    asyncio.run(begin())
    assert verify(data_dir, verifier).reason == ""
    with tampering(data_dir) as connection:
        connection.execute("UPDATE checkpoints SET link = NULL, previous = NULL")
    assert verify(data_dir, verifier).finding is Finding.ALTERED


def test_a_damaged_file_is_a_finding_and_not_a_crash(data_dir, verifier):
    with (data_dir / DATABASE).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 200_000)
    found = verify(data_dir, verifier)
    assert (found.finding, found.exit_status) == (Finding.ALTERED, 1)


def test_no_log_is_an_error(tmp_path, verifier):
    with pytest.raises(ConfigError, match="cannot be opened"):
        verify(tmp_path, verifier)


def test_without_a_key_or_a_log_nobody_can_say_who_signed(data_dir, tmp_path):
    with pytest.raises(ConfigError, match=r"audit\.key is missing"):
        own_verifier(tmp_path)
    with tampering(data_dir) as connection:
        connection.execute("DELETE FROM meta")
    with pytest.raises(ConfigError, match="does not name its log"):
        own_verifier(data_dir)
    (data_dir / DATABASE).write_bytes(b"not a database, but long enough " * 200)
    with pytest.raises(ConfigError, match="cannot be read"):
        own_verifier(data_dir)


def test_records_that_are_not_signed_yet_are_said_not_to_be(data_dir, verifier):
    with tampering(data_dir) as connection:
        connection.execute("DELETE FROM checkpoints WHERE size > 300")
    (data_dir / CHECKPOINT).unlink()
    found = verify(data_dir, verifier)
    assert (found.finding, found.size, found.signed) == (Finding.OK, SIZE, FIRST)


@pytest.mark.parametrize("index", [10, 299, 590])
def test_a_changed_log_is_not_added_to(data_dir, index):
    with tampering(data_dir) as connection:
        forge(connection, index, verdict="allow")
        tile = range(index // 256 * 256, index // 256 * 256 + 256)
        leaves = connection.execute(
            "SELECT leaf_hash FROM audit WHERE leaf_index >= ? AND leaf_index < ?"
            " ORDER BY leaf_index",
            (tile.start, tile.stop),
        )
        connection.execute(
            "UPDATE tiles SET root = ? WHERE tile = ?",
            (tile_root([leaf for (leaf,) in leaves]), index // 256),
        )
    refused_to_open(data_dir, "the first 600 records were changed")


def test_a_log_without_its_end_is_not_added_to(data_dir):
    cut(data_dir, FIRST)
    refused_to_open(data_dir, "600 records were signed, but there are 300")


def test_a_log_is_not_signed_on_with_another_key(data_dir):
    (data_dir / "audit.key").unlink()
    refused_to_open(data_dir, "not signed by")


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("INSERT INTO tiles VALUES (9, zeroblob(32))", "600 records, but 3 tiles"),
        ("UPDATE tiles SET tile = 9 WHERE tile = 0", "tiles 0 to 2 are not all there"),
        ("DELETE FROM audit WHERE leaf_index = 520", "records 512 to 600 are not all there"),
    ],
)
def test_a_damaged_tree_is_not_added_to(data_dir, sql, says):
    with tampering(data_dir) as connection:
        connection.execute(sql)
    with pytest.raises(ConfigError, match=f"the audit log is damaged: {says}"):
        asyncio.run(Store.open(data_dir, clock=lambda: NOW))


def refused_to_open(data_dir, why):
    async def opened():
        await Store.open(data_dir, clock=lambda: NOW)

    for _ in range(2):  # the lock is given back too
        with pytest.raises(ConfigError, match="does not match its own checkpoint") as refused:
            asyncio.run(opened())
        assert why in refused.value.detail

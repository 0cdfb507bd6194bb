"""The keys of the hash in records: rotated, kept, read again, and never guessed at."""

import asyncio
import os
from pathlib import Path

import orjson
import pytest

from gateway.audit.hashing import KeyedHash
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.errors import ConfigError
from gateway.storage.record_keys import RecordKeys
from gateway.storage.store import Store
from tests.storage.suite import NOW

FIRST = b"f" * 32


def event(id_: str) -> AuditRecord:
    fields = {"server": "mail", "arguments": {"to": "bob@example.com"}}
    return AuditRecord(kind=RecordKind.INTENT, time=NOW, id=id_, fields=fields)


def written(store: Store) -> list[dict[str, object]]:
    reader = store.log.reader()
    try:
        return [orjson.loads(record.body) for record in reader.stored_after(-1, 100)]
    finally:
        reader.close()


def test_at_first_there_is_the_one_that_was_there_before(tmp_path: Path) -> None:
    assert RecordKeys.open(tmp_path, FIRST).all == (FIRST,)


def test_a_new_key_is_kept_beside_the_old_ones(tmp_path: Path) -> None:
    keys = RecordKeys.open(tmp_path, FIRST)
    two = keys.add()
    three = keys.add()
    assert (two[0], three[:2], len(set(three))) == (FIRST, two, 3)
    assert keys.all == three == RecordKeys.open(tmp_path, FIRST).all
    assert all(len(key) == 32 for key in three)
    named = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert named == {"record-hash-2.key": 0o600, "record-hash-3.key": 0o600}


@pytest.mark.parametrize("lost", ["record-hash-2.key", "record-hash-3.key"])
def test_a_key_that_is_missing_between_others_is_told_of(tmp_path: Path, lost: str) -> None:
    keys = RecordKeys.open(tmp_path, FIRST)
    for _ in range(3):
        keys.add()
    (tmp_path / lost).unlink()
    with pytest.raises(ConfigError, match=f"{lost} is missing"):
        RecordKeys.open(tmp_path, FIRST)


def test_a_key_that_others_can_reach_or_that_is_none_is_refused(tmp_path: Path) -> None:
    RecordKeys.open(tmp_path, FIRST).add()
    path = tmp_path / "record-hash-2.key"
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        RecordKeys.open(tmp_path, FIRST)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(ConfigError, match="not a key of 32 bytes"):
        RecordKeys.open(tmp_path, FIRST)


async def test_a_rotation_holds_at_once_and_after_a_restart_and_loses_nothing(
    tmp_path: Path,
) -> None:
    store = await Store.open(tmp_path, clock=lambda: NOW)
    before = store.hashes_of("bob@example.com")
    records = [asyncio.create_task(store.audit.append(event(f"a{n}"))) for n in range(20)]
    await asyncio.sleep(0)
    rotating = asyncio.create_task(store.rotate_record_hash())
    records += [asyncio.create_task(store.audit.append(event(f"b{n}"))) for n in range(20)]
    await asyncio.gather(*records)
    assert await rotating == 2
    await store.audit.append(event("c"))
    await store.caught_up()
    found = written(store)
    assert len(found) == 41
    after, same = store.hashes_of("bob@example.com")
    assert (same,) == tuple(before)
    # Each record is of one key as a whole.
    for record in found:
        arguments = record["arguments"]
        assert isinstance(arguments, dict)
        assert {str(record["arguments_hmac"])[:3], arguments["to"][:3]} in ({"h1:"}, {"h2:"})
        assert arguments["to"] in {after, same}
    assert found[-1]["arguments"] == {"to": after}
    await store.close()
    again = await Store.open(tmp_path, clock=lambda: NOW)
    await again.audit.append(event("d"))
    assert written(again)[-1]["arguments"] == {"to": after}
    assert again.hashes_of("bob@example.com") == (after, same)
    assert again.record_hash_keys == 2
    await again.close()


async def test_two_rotations_at_once_are_two(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, clock=lambda: NOW)
    numbers = await asyncio.gather(store.rotate_record_hash(), store.rotate_record_hash())
    assert sorted(numbers) == [2, 3]
    assert len(set(store.hashes_of("x"))) == 3
    await store.close()


async def test_what_else_the_first_key_is_for_stays_as_it_is(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, clock=lambda: NOW)
    before = store.keys.hmac
    await store.rotate_record_hash()
    assert store.keys.hmac == before
    assert store.hashes_of("x")[-1] == KeyedHash(before).of("x")
    await store.close()
    assert (tmp_path / "hmac.key").read_bytes() == before


async def test_a_rotation_cut_short_leaves_the_key_that_was_in_use(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, clock=lambda: NOW)
    await store.close()
    # A file that is half written has another name until it is whole.
    half = tmp_path / "record-hash-2.key.new"
    half.touch(0o600)
    half.write_bytes(os.urandom(5))
    again = await Store.open(tmp_path, clock=lambda: NOW)
    assert again.record_hash_keys == 1
    assert await again.rotate_record_hash() == 2
    await again.close()

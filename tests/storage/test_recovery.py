"""What the log is found like when it is opened: how the last process ended, and what it left."""

import asyncio
import contextlib
import shutil
import sqlite3
import struct

import pytest

from gateway.audit.merkle import leaf_hash
from gateway.audit.record import COLUMNS, columns_of
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.storage.database import DATABASE
from gateway.storage.keeping import Keeping
from gateway.storage.recovery import Found, WalTail, wal_tail
from gateway.storage.store import Store
from gateway.storage.verify import own_verifier, verify
from gateway.storage.writer import Signing
from tests.storage.suite import NOW, event

UNHURRIED = Keeping(signing=Signing(every_s=3600))


@contextlib.asynccontextmanager
async def opened(data_dir, *, now=NOW, **options):
    store = await Store.open(data_dir, clock=lambda: now, **options)
    try:
        yield store
    finally:
        await store.close()


async def append(store, name, kind=RecordKind.SYSTEM, **fields):
    return await store.audit.append(event(name, kind, **fields))


async def killed(tmp_path, *names):
    """Write what a process wrote that was killed: its files, as they were while it ran."""
    data_dir = tmp_path / "living"
    async with opened(data_dir, keeping=UNHURRIED) as store:
        await append(store, "s", code="started")
        for name in names:
            kind, _, decision = name.partition(" ")
            await append(store, name, RecordKind(kind), decision_id=decision)
            await store.caught_up()
        shutil.copytree(data_dir, tmp_path / "var")
    return tmp_path / "var"


async def test_a_new_log_is_clean(tmp_path):
    async with opened(tmp_path / "var") as store:
        assert store.found == Found()
        assert store.found.remarkable == ()


async def test_after_a_stop_the_log_is_clean(tmp_path):
    async with opened(tmp_path / "var") as store:
        await append(store, "a", code="started")
        await append(store, "b", code="stopped")
    async with opened(tmp_path / "var") as store:
        assert store.found == Found(records=2)


async def test_an_end_without_warning_is_told_with_the_calls_that_are_open(tmp_path):
    data_dir = await killed(
        tmp_path, "intent d1", "intent d2", "outcome d1", "intent d3", "list d3"
    )
    async with opened(data_dir) as store:
        found = store.found
        assert (found.clean, found.outcome_unknown, found.unsigned) == (False, 1, 6)
        assert found.remarkable == (
            "the last process ended without warning",
            "1 calls have no known outcome",
            "6 records were not signed yet",
        )
        assert found.members["records"] == 6
        await append(store, "z", code="stopped")
    assert verify(data_dir, own_verifier(data_dir)).signed == 7
    async with opened(data_dir) as store:
        assert store.found.clean
        assert store.found.outcome_unknown == 0  # of the life before the last


async def test_records_that_were_added_after_a_good_end_are_remarkable(tmp_path):
    async with opened(tmp_path / "var") as store:
        await append(store, "a", code="started")
        await append(store, "b", code="stopped")
    with contextlib.closing(sqlite3.connect(tmp_path / "var" / DATABASE)) as connection:
        (body,) = connection.execute("SELECT body FROM audit WHERE leaf_index = 0").fetchone()
        body = body.encode().replace(b'"id":"a"', b'"id":"c"').replace(b"started", b"allowed")
        names = ", ".join(COLUMNS)
        values = (2, *columns_of(body), leaf_hash(body), body.decode())
        places = ", ".join("?" * len(values))
        connection.execute(
            f"INSERT INTO audit (leaf_index, {names}, leaf_hash, body) VALUES ({places})",
            values,
        )
        connection.commit()
    async with opened(tmp_path / "var") as store:
        assert store.found.clean
        assert store.found.remarkable == ("1 records were not signed yet",)


async def test_a_clock_behind_the_last_record_is_told(tmp_path):
    async with opened(tmp_path / "var") as store:
        await append(store, "a")
    async with opened(tmp_path / "var", now=NOW - 90) as store:
        assert store.found.clock_back_s == 90
        assert store.found.remarkable == ("the clock is 90 s behind the last record",)
    async with opened(tmp_path / "var", now=NOW + 90) as store:
        assert store.found.clock_back_s == 0


async def test_a_whole_write_ahead_log_has_no_tail(tmp_path):
    data_dir = await killed(tmp_path, "intent d1")
    assert (data_dir / f"{DATABASE}-wal").stat().st_size > 0
    assert wal_tail(data_dir / DATABASE) == WalTail()


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("cut", [1, 100, 4000])
async def test_a_torn_page_is_told_and_costs_no_record_before_it(tmp_path, cut):
    data_dir = await killed(tmp_path, "intent d1", "intent d2")
    wal = data_dir / f"{DATABASE}-wal"
    content = wal.read_bytes()
    end = written_end(content)
    wal.write_bytes(content[: end - cut] + b"\xa5" * cut + content[end:])
    assert wal_tail(data_dir / DATABASE).torn
    async with opened(data_dir) as store:
        assert store.found.torn
        assert "a transaction that was never acknowledged was cut off" in store.found.remarkable
        assert store.found.journaled == 1
        with contextlib.closing(store.log.reader()) as reader:
            assert [one["id"] for one in reader.export()] == ["s", "intent d1", "intent d2"]
    assert verify(data_dir, own_verifier(data_dir)).reason == ""


@pytest.mark.usefixtures("unhurried")
async def test_pages_of_a_transaction_without_its_end_are_counted(tmp_path):
    data_dir = await killed(tmp_path, "intent d1", "intent d2")
    wal = data_dir / f"{DATABASE}-wal"
    content = wal.read_bytes()
    end = written_end(content)
    page = struct.unpack_from(">I", content, 8)[0]
    wal.write_bytes(content[: end - page - 24])
    tail = wal_tail(data_dir / DATABASE)
    assert (tail.pages > 0, tail.torn) == (True, False)
    async with opened(data_dir) as store:
        assert store.found.unfinished_pages == tail.pages


def written_end(content):
    """Return where the frames of this round end."""
    page, salts, end = struct.unpack_from(">I", content, 8)[0], content[16:24], 32
    while content[end + 8 : end + 16] == salts:
        end += page + 24
    return end


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 64])
def test_what_is_no_write_ahead_log_has_no_tail(tmp_path, content):
    (tmp_path / f"{DATABASE}-wal").write_bytes(content)
    assert wal_tail(tmp_path / DATABASE) == WalTail()
    assert wal_tail(tmp_path / "other") == WalTail()


async def test_records_are_signed_by_count_before_the_time_is_over(tmp_path):
    keeping = Keeping(signing=Signing(every_s=3600, records=10))
    async with opened(tmp_path / "var", keeping=keeping) as store:
        await asyncio.gather(*(append(store, f"e{n}") for n in range(9)))
        await append_until_signed(store, 0)
        await append(store, "e9")
        await append_until_signed(store, 10)
        with contextlib.closing(store.log.reader()) as reader:
            assert reader.checkpoint()[0] == 10


async def append_until_signed(store, size):
    for _ in range(200):
        with contextlib.closing(store.log.reader()) as reader:
            if reader.checkpoint()[0] >= size:
                return
        await asyncio.sleep(0.02)
    raise AssertionError(size)


async def test_a_database_of_before_is_found_as_it_is(tmp_path):
    async with opened(tmp_path / "var") as store:
        record = AuditRecord(kind=RecordKind.SYSTEM, time=NOW, id="a", fields={"code": "started"})
        await store.audit.append(record)
    with contextlib.closing(sqlite3.connect(tmp_path / "var" / DATABASE)) as connection:
        assert connection.execute("SELECT count(*) FROM audit").fetchone() == (1,)
    async with opened(tmp_path / "var") as store:
        assert not store.found.clean

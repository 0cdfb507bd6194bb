"""The spool: what the database does not take is durable elsewhere, and comes back in order."""

import asyncio
import contextlib
import os
import sqlite3

import pytest

from gateway.domain.audit import RecordKind
from gateway.errors import AuditUnavailable, ConfigError
from gateway.storage.database import DATABASE
from gateway.storage.keeping import Keeping
from gateway.storage.spooling import NOWHERE_YET, SpoolingLog, SpoolSettings
from gateway.storage.store import Store
from gateway.storage.verify import own_verifier, verify
from tests.storage.suite import NOW, event

CAPACITY = 256 * 1024
DEADLINE_S = 1.0
"""Of the log, which is what these tests wait out."""
PATIENT_S = 4.0
SPOOL_S = 60.0
"""Of the spool, whose disk other tests keep busy."""


def keeping(tmp_path, capacity=CAPACITY):
    return Keeping(spool=SpoolSettings(path=tmp_path / "spool", capacity=capacity))


@contextlib.asynccontextmanager
async def opened(tmp_path, capacity=CAPACITY, deadline_s=DEADLINE_S):
    store = await Store.open(
        tmp_path / "var",
        deadline_s=deadline_s,
        clock=lambda: NOW,
        keeping=keeping(tmp_path, capacity),
    )
    assert isinstance(store.audit, SpoolingLog)
    store.audit._deadline_s = SPOOL_S
    try:
        yield store
    finally:
        await store.close()


@contextlib.contextmanager
def locked(store):
    path = store.data_dir / DATABASE
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


def log_of(store):
    with contextlib.closing(store.log.reader()) as reader:
        return list(reader.export())


def ids_of(store):
    return [one["id"] for one in log_of(store) if one["kind"] != "gap"]


async def until(holds):
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


def gaps_of(store):
    return [one["evidence"] for one in log_of(store) if one["kind"] == RecordKind.GAP]


async def test_while_the_log_takes_records_nothing_is_spooled(tmp_path):
    async with opened(tmp_path) as store:
        entry = await store.audit.append(event("a"))
        assert (entry.leaf_index, store.audit.spooled, store.audit.spooling) == (0, 0, False)
        assert await store.problem() == ""


async def test_what_a_locked_log_does_not_take_is_spooled_and_comes_back_in_order(tmp_path):
    async with opened(tmp_path) as store:
        await store.audit.append(event("before"))
        with locked(store):
            first = await store.audit.append(event("s0"))
            assert (first.id, first.leaf_index) == ("s0", NOWHERE_YET)
            assert store.audit.spooling
            names = [f"s{n}" for n in range(1, 50)]
            await asyncio.gather(*(store.audit.append(event(name)) for name in names))
            assert store.audit.spooled == 50
            assert ids_of(store) == ["before"]
            assert await store.problem() == ""  # calls are carried
        await until(lambda: not store.audit.spooling)
        await store.audit.append(event("after"))
        assert ids_of(store) == ["before", "s0", *names, "after"]
        assert gaps_of(store) == [{"records": 50, "unreadable_bytes": 0}]
        assert store.audit.spooled == 0
    assert verify(tmp_path / "var", own_verifier(tmp_path / "var")).reason == ""


async def test_what_both_took_is_in_the_log_once(tmp_path):
    """A record that missed its deadline waits in the writer's queue and in the spool."""
    async with opened(tmp_path) as store:
        with locked(store):
            await asyncio.gather(*(store.audit.append(event(f"e{n}")) for n in range(20)))
        await until(lambda: not store.audit.spooling)
        assert sorted(ids_of(store)) == sorted(f"e{n}" for n in range(20))
    assert list(tmp_path.glob("spool.kept-*")) == []  # and that was no surprise


async def test_more_than_one_part_comes_back_in_order(tmp_path):
    async with opened(tmp_path, capacity=4 << 20, deadline_s=PATIENT_S) as store:
        with locked(store):
            await store.audit.append(event("e0"))
            for start in range(1, 2500, 100):
                names = [f"e{n}" for n in range(start, min(start + 100, 2500))]
                await asyncio.gather(*(store.audit.append(event(name)) for name in names))
        await until(lambda: not store.audit.spooling)
        assert ids_of(store) == [f"e{n}" for n in range(2500)]


async def test_records_go_on_to_the_log_while_the_spool_is_brought_back(tmp_path):
    async with opened(tmp_path, capacity=4 << 20, deadline_s=PATIENT_S) as store:
        with locked(store):
            for n in range(0, 300, 50):
                await asyncio.gather(*(store.audit.append(event(f"s{n + m}")) for m in range(50)))
        written: list[str] = []
        while store.audit.spooling or len(written) < 20:
            written.append((await store.audit.append(event(f"n{len(written)}"))).id)
        await until(lambda: not store.audit.spooling)
        found = ids_of(store)
        assert sorted(found) == sorted([*written, *(f"s{n}" for n in range(300))])
        assert [name for name in found if name.startswith("n")] == written


async def test_a_full_spool_is_a_refusal(tmp_path):
    async with opened(tmp_path, capacity=64 * 1024) as store:
        with locked(store):
            kept = 10
            for n in range(kept):
                await store.audit.append(event(f"e{n}", target="x" * 5000))
            for n in range(kept, 20):
                with contextlib.suppress(AuditUnavailable):
                    await store.audit.append(event(f"e{n}", target="x" * 5000))
                    kept += 1
            with pytest.raises(AuditUnavailable, match="the spool is full"):
                await store.audit.append(event("one more", target="x" * 5000))
            assert 10 < kept < 15
            assert "the spool is full" in await store.problem()
            with pytest.raises(AuditUnavailable):
                await store.audit.append(event("more", target="x" * 5000))
        await until(lambda: not store.audit.spooling)
        assert {f"e{n}" for n in range(kept)} <= set(ids_of(store))
        assert (await store.audit.append(event("after"))).leaf_index > kept


async def test_a_spool_that_was_renamed_is_a_refusal_until_it_is_back(tmp_path):
    async with opened(tmp_path) as store:
        with locked(store):
            await store.audit.append(event("kept"))
            (tmp_path / "spool").rename(tmp_path / "elsewhere")
            with pytest.raises(AuditUnavailable, match="spool was renamed or deleted"):
                await store.audit.append(event("lost"))
            assert "spool was renamed or deleted" in await store.problem()
            (tmp_path / "elsewhere").rename(tmp_path / "spool")
            await store.audit.append(event("again"))
        await until(lambda: not store.audit.spooling)
        found = ids_of(store)
        assert [name for name in found if name != "lost"] == ["kept", "again"]


async def test_a_spool_whose_disk_fails_is_a_refusal(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    async with opened(tmp_path) as store:
        with locked(store):
            await store.audit.append(event("kept"))
            monkeypatch.setattr(os, "fdatasync", fail)
            with pytest.raises(AuditUnavailable, match="Input/output error"):
                await store.audit.append(event("refused"))
            monkeypatch.undo()
            await store.audit.append(event("again"))
        await until(lambda: not store.audit.spooling)
        assert [name for name in ids_of(store) if name != "refused"] == ["kept", "again"]


async def test_a_bug_in_bringing_the_spool_back_is_no_end_of_that(tmp_path, monkeypatch):
    async with opened(tmp_path) as store:
        drain, tried = store.audit._drain, 0

        async def broken():
            nonlocal tried
            tried += 1
            if tried == 1:
                raise KeyError("a bug")
            await drain()

        monkeypatch.setattr(store.audit, "_drain", broken)
        with locked(store):
            await store.audit.append(event("s0"))
            await until(lambda: tried)
        await until(lambda: not store.audit.spooling)
        assert ids_of(store) == ["s0"]


async def test_a_bug_in_writing_to_the_spool_is_told_to_whoever_waits(tmp_path, monkeypatch):
    def broken(_):
        raise KeyError("a bug")

    async with opened(tmp_path) as store:
        with locked(store):
            with monkeypatch.context() as patched:
                patched.setattr(store.audit._spool, "append", broken)
                with pytest.raises(AuditUnavailable) as caught:
                    await store.audit.append(event("s0"))
                assert "KeyError" in caught.value.detail
            await store.audit.append(event("s1"))
        await until(lambda: not store.audit.spooling)


async def test_a_spool_that_could_not_be_emptied_takes_nothing_until_a_restart(
    tmp_path, monkeypatch
):
    async with opened(tmp_path) as store:
        with locked(store):
            await store.audit.append(event("kept"))
        monkeypatch.setattr(store.audit._spool, "empty", _failing)
        await until(lambda: store.audit.problem)
        with locked(store), pytest.raises(AuditUnavailable, match="could not be emptied"):
            await store.audit.append(event("refused"))
    async with opened(tmp_path) as store:
        assert store.found.spooled == 0
        assert len(gaps_of(store)) == 1  # nothing is brought back a second time
        with locked(store):
            await store.audit.append(event("taken"))
        await until(lambda: not store.audit.spooling)
        assert [name for name in ids_of(store) if name != "refused"] == ["kept", "taken"]


def _failing():
    raise OSError("a fault")


async def left_in_the_spool(tmp_path, count=3):
    """End without the log having taken records again."""
    async with opened(tmp_path) as store:
        await store.audit.append(event("before"))
        with locked(store):
            for n in range(count):
                await store.audit.append(event(f"s{n}"))
            await store.close()


async def test_what_is_left_in_the_spool_comes_into_the_log_at_the_next_start(tmp_path):
    await left_in_the_spool(tmp_path)
    async with opened(tmp_path) as store:
        assert store.found.spooled == 3
        assert not store.audit.spooling
        assert ids_of(store) == ["before", "s0", "s1", "s2"]
        assert gaps_of(store) == [{"records": 3, "unreadable_bytes": 0}]
    async with opened(tmp_path) as store:
        assert store.found.spooled == 0


async def test_a_torn_end_is_told_and_what_is_whole_comes_back(tmp_path):
    await left_in_the_spool(tmp_path)
    path = tmp_path / "spool"
    content = path.read_bytes()
    end = len(content.rstrip(b"\0"))
    path.write_bytes(content[: end - 40] + bytes(len(content) - end + 40))
    async with opened(tmp_path) as store:
        assert ids_of(store) == ["before", "s0", "s1"]
        (gap,) = gaps_of(store)
        assert gap["unreadable_bytes"] > 40
        assert store.found.spool_unreadable_bytes > 40
    assert len(list(tmp_path.glob("spool.kept-*"))) == 1


async def test_a_line_that_was_changed_or_put_there_is_not_believed(tmp_path):
    await left_in_the_spool(tmp_path)
    path = tmp_path / "spool"
    path.write_bytes(path.read_bytes().replace(b'"s1"', b'"x1"'))
    async with opened(tmp_path) as store:
        assert ids_of(store) == ["before", "s0", "s2"]
        assert gaps_of(store)[0]["unreadable_bytes"] > 0


async def test_a_spool_of_another_log_or_process_is_refused(tmp_path):
    async with opened(tmp_path) as store:
        with pytest.raises(ConfigError, match="another process's"):
            await Store.open(
                tmp_path / "other",
                clock=lambda: NOW,
                keeping=keeping(tmp_path),
            )
        assert await store.problem() == ""
    with pytest.raises(ConfigError, match="is not one of this log"):
        await Store.open(
            tmp_path / "other",
            clock=lambda: NOW,
            keeping=keeping(tmp_path),
        )


async def test_a_head_that_was_changed_is_refused(tmp_path):
    async with opened(tmp_path):
        pass
    path = tmp_path / "spool"
    content = path.read_bytes()
    words = content[:512].rstrip(b"\0").split()
    path.write_bytes(content.replace(words[2], b"0" * 16))
    with pytest.raises(ConfigError, match="head of the spool"):
        async with opened(tmp_path):
            pass


async def test_a_record_that_the_log_refuses_by_itself_is_not_spooled(tmp_path):
    async with opened(tmp_path) as store:
        await store.audit.append(event("a"))
        with pytest.raises(AuditUnavailable, match="not accepted"):
            await store.audit.append(event("a"))
        assert not store.audit.spooling


async def test_a_spool_takes_its_space_at_the_start(tmp_path):
    async with opened(tmp_path):
        assert (tmp_path / "spool").stat().st_blocks * 512 >= CAPACITY


async def test_after_the_end_nothing_is_spooled(tmp_path):
    async with opened(tmp_path) as store:
        pass
    with pytest.raises(AuditUnavailable, match="closed"):
        await store.audit.append(event("late"))


async def test_what_is_recorded_is_so_also_where_whoever_waits_goes(tmp_path):
    """Which door it waits at: the log's own, the spool's, or that of what is read back."""
    async with opened(tmp_path, deadline_s=PATIENT_S) as store:
        await gone_after(store.audit.append(event("log")))
        with locked(store):
            await store.audit.append(event("spooled"))
            store.audit._admitted.clear()
            await gone_after(store.audit.append(event("gone")))
            store.audit._admitted.set()
        await until(lambda: not store.audit.spooling and len(ids_of(store)) == 3)
        assert ids_of(store) == ["log", "spooled", "gone"]


async def gone_after(waits):
    """Wait for a moment, and no longer."""
    task = asyncio.ensure_future(waits)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

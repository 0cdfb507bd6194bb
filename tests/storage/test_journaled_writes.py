"""Records that are durable in the journal first: told at once, and in the log in their order."""

import asyncio
import contextlib
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.config import Config
from gateway.config.storage import Storage
from gateway.domain.audit import LogEntry, RecordKind
from gateway.errors import AuditUnavailable, ConfigError
from gateway.storage import committer
from gateway.storage.beside import waiting_in
from gateway.storage.connection import Durability
from gateway.storage.database import CHECKPOINT, DATABASE
from gateway.storage.journal import JOURNAL, Journal, JournalFailed
from gateway.storage.store import Store
from gateway.storage.verify import own_verifier, verify
from gateway.wiring import told_of_journal
from tests.storage.powercut import Kind, Recording, Unsupported, recorded
from tests.storage.suite import NOW, event


@contextlib.asynccontextmanager
async def opened(
    data_dir: Path, durability: Durability = Durability.PROCESS, deadline_s: float = 10.0
) -> AsyncIterator[Store]:
    store = await Store.open(
        data_dir, durability=durability, deadline_s=deadline_s, clock=lambda: NOW
    )
    try:
        yield store
    finally:
        await store.close()


async def append(store: Store, name: str, kind: RecordKind = RecordKind.INTENT) -> LogEntry:
    return await store.audit.append(event(name, kind))


def rows(data_dir: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(data_dir / DATABASE)) as connection:
        return [name for (name,) in connection.execute("SELECT id FROM audit ORDER BY leaf_index")]


@contextlib.contextmanager
def locked(data_dir: Path):
    """Another connection holds the write lock."""
    with contextlib.closing(sqlite3.connect(data_dir / DATABASE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def killed(data_dir: Path) -> Path:
    """What is found of a process that ends here and now."""
    return Path(shutil.copytree(data_dir, data_dir.with_name("after")))


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("durability", Durability)
async def test_who_may_be_told_before_the_database_has_it_is(
    tmp_path: Path, durability: Durability
) -> None:
    data_dir = tmp_path / "var"
    async with opened(data_dir, durability) as store:
        with locked(data_dir):
            told = [await append(store, name) for name in "ab"]
            assert [one.leaf_index for one in told] == [0, 1]
            assert (rows(data_dir), waiting_in(data_dir)) == ([], 2)
        placed = await append(store, "c", RecordKind.ADMIN)
        assert placed.leaf_index == 2  # what was said before it stands before it
        assert (rows(data_dir), waiting_in(data_dir)) == (["a", "b", "c"], 0)
        await append(store, "d")
    assert rows(data_dir) == ["a", "b", "c", "d"]
    assert verify(data_dir, own_verifier(data_dir)).signed == 4


async def some_turns() -> None:
    """Let everything happen that the loop has to do, and nothing that takes its time."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.usefixtures("unhurried")
async def test_behind_what_waits_for_its_place_a_record_waits_for_its_own(tmp_path: Path) -> None:
    data_dir = tmp_path / "var"
    async with opened(data_dir) as store:
        with locked(data_dir):
            placed = asyncio.ensure_future(append(store, "a", RecordKind.ADMIN))
            await some_turns()
            behind = asyncio.ensure_future(append(store, "b"))
            await some_turns()
            assert not placed.done()
            assert not behind.done()
            assert waiting_in(data_dir) == 0
        assert [(await one).leaf_index for one in (placed, behind)] == [0, 1]
        assert (await append(store, "c")).leaf_index == 2
        assert waiting_in(data_dir) == 1
    assert rows(data_dir) == ["a", "b", "c"]


@pytest.mark.usefixtures("unhurried")
async def test_beside_what_waits_for_its_place_a_record_waits_for_its_own(tmp_path: Path) -> None:
    data_dir = tmp_path / "var"
    async with opened(data_dir) as store:
        with locked(data_dir):
            kinds = (RecordKind.ADMIN, RecordKind.INTENT)
            both = [
                asyncio.ensure_future(append(store, name, kind))
                for name, kind in zip("ab", kinds, strict=True)
            ]
            await some_turns()
            assert not any(one.done() for one in both)
            assert waiting_in(data_dir) == 0
        assert [(await one).leaf_index for one in both] == [0, 1]


async def test_the_database_has_it_a_moment_later(tmp_path: Path) -> None:
    async with opened(tmp_path / "var") as store:
        await append(store, "a")
        async with asyncio.timeout(60):
            while waiting_in(tmp_path / "var"):
                await asyncio.sleep(0.01)
        assert rows(tmp_path / "var") == ["a"]


@pytest.mark.usefixtures("unhurried")
async def test_many_are_taken_up_before_their_time(tmp_path: Path) -> None:
    async with opened(tmp_path / "var") as store:
        for number in range(committer._MANY):
            await append(store, f"e{number}")
        async with asyncio.timeout(60):
            while waiting_in(tmp_path / "var"):
                await asyncio.sleep(0.01)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("durability", Durability)
async def test_after_a_kill_every_record_that_was_told_of_is_in_the_log_once(
    tmp_path: Path, durability: Durability
) -> None:
    async with opened(tmp_path / "var", durability) as store:
        await append(store, "s", RecordKind.SYSTEM)
        await append(store, "a")
        await store.caught_up()
        for name in "bc":
            await append(store, name)
        after = killed(tmp_path / "var")
    for journaled in (2, 0):
        async with opened(after) as store:
            assert (store.found.journaled, store.found.journal_missing) == (journaled, 0)
        assert rows(after) == ["s", "a", "b", "c"]
    assert verify(after, own_verifier(after)).reason == ""


@pytest.mark.usefixtures("unhurried")
async def test_what_the_log_had_is_not_brought_back_whatever_has_left_it_since(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "var") as store:
        await append(store, "a")
        await store.caught_up()
        after = killed(tmp_path / "var")
    assert b'"id":"a"' in (after / JOURNAL).read_bytes()
    assert waiting_in(after) == 0
    async with opened(after) as store:
        assert store.found.journaled == 0


@pytest.fixture
def recording() -> Iterator[Recording]:
    """Skip where SQLite's file layer is out of reach: in a Python that hides its own SQLite."""
    try:
        with recorded() as operations:
            yield operations
    except Unsupported as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("unhurried")
async def test_the_journal_is_emptied_once_the_disk_has_what_the_log_has(
    tmp_path: Path, recording: Recording
) -> None:
    async with opened(tmp_path / "var") as store:
        await append(store, "a")
        await store.caught_up()
        after = killed(tmp_path / "var")
    assert waiting_in(after) == 0
    recording.operations.clear()
    async with opened(after):
        done = [(one.kind, one.name) for one in recording.operations]
    synced = done.index((Kind.SYNC, f"{DATABASE}-wal"))
    assert synced < done.index((Kind.WRITE, JOURNAL))


@pytest.mark.usefixtures("unhurried")
async def test_whoever_verifies_is_told_of_what_the_log_has_not_yet(tmp_path: Path) -> None:
    async with opened(tmp_path / "var") as store:
        for name in "ab":
            await append(store, name)
        after = killed(tmp_path / "var")
    config = Config.model_construct(data_dir=after, storage=Storage())
    assert told_of_journal(config).startswith("2 more records stand in the journal: ")
    (after / JOURNAL).write_bytes(b"another journal")
    assert told_of_journal(config).startswith("the journal cannot be read, ")
    (after / JOURNAL).unlink()
    assert told_of_journal(config) == ""


@pytest.mark.usefixtures("unhurried")
async def test_what_is_owed_at_the_end_stands_in_the_journal(tmp_path: Path) -> None:
    with contextlib.ExitStack() as until_later:
        async with opened(tmp_path, deadline_s=0.2) as store:
            await append(store, "a")
            until_later.enter_context(locked(tmp_path))
        assert waiting_in(tmp_path) == 1
    async with opened(tmp_path) as store:
        assert store.found.journaled == 1
    assert rows(tmp_path) == ["a"]
    async with opened(tmp_path) as store:
        assert store.found.journaled == 0


@pytest.mark.usefixtures("unhurried")
async def test_a_record_of_the_journal_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path / "var") as store:
        for name in "abc":
            await append(store, name)
        after = killed(tmp_path / "var")
    content = (after / JOURNAL).read_bytes()
    (after / JOURNAL).write_bytes(content.replace(b'"id":"b"', b'"id":"x"'))
    async with opened(after) as store:
        assert (store.found.journaled, store.found.journal_missing) == (2, 1)
        assert "1 records of the journal cannot be read" in store.found.remarkable
    assert rows(after) == ["a", "c"]


@pytest.mark.usefixtures("unhurried")
async def test_a_journal_of_another_log_is_set_aside(tmp_path: Path) -> None:
    async with opened(tmp_path / "var") as store:
        await append(store, "a")
        after = killed(tmp_path / "var")
    for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", CHECKPOINT):
        (after / name).unlink(missing_ok=True)
    async with opened(after) as store:
        assert store.found.journaled == 0
    assert rows(after) == []
    (kept,) = after.glob(f"{JOURNAL}.kept-*")
    assert b'"id":"a"' in kept.read_bytes()


@pytest.mark.usefixtures("unhurried")
async def test_a_journal_whose_head_is_damaged_is_set_aside_and_that_is_told(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "var") as store:
        await append(store, "a")
        after = killed(tmp_path / "var")
    content = (after / JOURNAL).read_bytes()
    (after / JOURNAL).write_bytes(b"x" + content[1:])
    async with opened(after) as store:
        (kept,) = after.glob(f"{JOURNAL}.kept-*")
        assert store.found.journal_set_aside == kept.name
        assert any(kept.name in told for told in store.found.remarkable)
    assert b'"id":"a"' in kept.read_bytes()
    async with opened(after) as store:
        assert store.found.journal_set_aside == ""


@pytest.mark.usefixtures("unhurried")
async def test_a_journal_that_cannot_be_emptied_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Journal) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Journal, "begin", fails)
    with pytest.raises(ConfigError, match=r"journal .* cannot be used: .*No space left"):
        async with opened(tmp_path / "var"):
            pass


async def told_of_until_it_fails(store: Store) -> list[str]:
    """Write, a hundred times a second, until the database is known not to take it."""
    told: list[str] = []
    with contextlib.suppress(AuditUnavailable):
        while not store.writer.problem:
            await asyncio.sleep(0.01)
            name = f"e{len(told)}"
            await append(store, name)
            told.append(name)
    return told


async def test_without_a_database_to_take_it_up_nothing_is_told_for_the_journal_alone(
    tmp_path: Path,
) -> None:
    data_dir = tmp_path / "var"
    async with opened(data_dir, deadline_s=0.5) as store:
        await append(store, "before")
        with locked(data_dir):
            told = ["before", *await told_of_until_it_fails(store)]
            with pytest.raises(AuditUnavailable):
                await append(store, "refused")
            assert waiting_in(data_dir) >= len(told) - 1
        async with asyncio.timeout(60):
            while store.writer.problem:
                await asyncio.sleep(0.01)
        assert (await append(store, "after")).leaf_index >= len(told)
        await store.caught_up()
        found = rows(data_dir)
    assert [name for name in found if name in {*told}] == told  # in order, and once each
    assert found[-1] == "after"
    assert verify(data_dir, own_verifier(data_dir)).reason == ""


async def test_a_database_that_was_moved_is_noticed_before_anybody_is_told(tmp_path: Path) -> None:
    data_dir = tmp_path / "var"
    async with opened(data_dir) as store:
        await append(store, "before")
        (data_dir / DATABASE).rename(tmp_path / "elsewhere")
        with pytest.raises(AuditUnavailable, match="renamed or deleted"):
            await append(store, "lost")
        (tmp_path / "elsewhere").rename(data_dir / DATABASE)
        await store.caught_up()
        await append(store, "after")
    assert rows(data_dir) == ["before", "after"]


@pytest.mark.parametrize("durability", Durability)
async def test_without_the_journal_a_record_waits_for_the_database(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    durability: Durability,
) -> None:
    def fails(_: Journal, *__: object) -> bool:
        raise JournalFailed("gone")

    async with opened(tmp_path / "var", durability) as store:
        monkeypatch.setattr(Journal, "put" if durability is Durability.PROCESS else "sync", fails)
        with locked(tmp_path / "var"):
            waiting = asyncio.ensure_future(append(store, "a"))
            while "records wait for the database from now on: gone" not in caplog.text:
                assert not waiting.done()
                await asyncio.sleep(0)
            await some_turns()
            assert not waiting.done()
        assert (await waiting).leaf_index == 0
        assert rows(tmp_path / "var") == ["a"]


@pytest.mark.usefixtures("unhurried")
async def test_a_record_is_told_of_only_once_the_disk_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, sync = threading.Event(), Journal.sync

    def waits(journal: Journal) -> None:
        synced.wait(30)
        sync(journal)

    async with opened(tmp_path / "var", Durability.POWER) as store:
        monkeypatch.setattr(Journal, "sync", waits)
        first, second = (asyncio.ensure_future(append(store, name)) for name in "ab")
        while waiting_in(tmp_path / "var") < 2:
            await asyncio.sleep(0.01)
        assert not first.done()
        assert not second.done()
        synced.set()
        assert [(await one).leaf_index for one in (first, second)] == [0, 1]


@pytest.mark.usefixtures("unhurried")
async def test_a_journal_that_is_gone_once_the_disk_has_it_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    data_dir = tmp_path / "var"
    synced, sync = threading.Event(), Journal.sync

    def waits(journal: Journal) -> None:
        synced.wait(30)
        sync(journal)

    async with opened(data_dir, Durability.POWER) as store:
        monkeypatch.setattr(Journal, "sync", waits)
        with locked(data_dir):
            told = asyncio.ensure_future(append(store, "a"))
            while waiting_in(data_dir) < 1:
                await asyncio.sleep(0.01)
            (data_dir / JOURNAL).rename(tmp_path / "elsewhere")
            synced.set()
            while "renamed or deleted" not in caplog.text:
                assert not told.done()
                await asyncio.sleep(0.01)
            await some_turns()
            assert not told.done()
        assert (await told).leaf_index == 0
        assert rows(data_dir) == ["a"]

"""The writer: nothing is told before it is durable, and nothing waits for ever."""

import asyncio
import contextlib
import sqlite3
import threading

import pytest

from gateway.audit.checkpoint import VerifierKey, open_checkpoint
from gateway.domain.audit import LogEntry
from gateway.errors import AuditUnavailable, ConfigError, Denied
from gateway.storage.connection import Durability, prepare_writer
from gateway.storage.database import CHECKPOINT, DATABASE, Database
from gateway.storage.keys import Keys
from gateway.storage.verify import verify
from gateway.storage.writer import Writer
from tests.audit.encoders import encoder_of
from tests.storage.suite import event


class FailingConnection(sqlite3.Connection):
    """Fails one COMMIT: before it happens, or after; and may fail to settle what it left."""

    fail_before = False
    fail_after = False
    fail_settling = False

    def execute(self, sql, *parameters):
        if sql == "COMMIT" and self.fail_before:
            self.fail_before = False
            raise sqlite3.OperationalError("disk I/O error")
        if "wal_checkpoint" in sql and self.fail_settling:
            raise sqlite3.OperationalError("disk I/O error")
        cursor = super().execute(sql, *parameters)
        if sql == "COMMIT" and self.fail_after:
            self.fail_after = False
            raise sqlite3.OperationalError("disk I/O error")
        return cursor


class Bench:
    """A writer on a directory, and what is needed to disturb it."""

    def __init__(
        self,
        data_dir,
        *,
        durability=Durability.POWER,
        deadline_s=10.0,
        wait_s=10.0,
        capacity=10_000,
    ):
        self.data_dir = data_dir
        data_dir.mkdir()
        self.path = data_dir / DATABASE
        self.keys = Keys.open(data_dir)
        self.durability = durability
        self.wait_s = wait_s
        database = self.database()
        self.first = database._connection
        self.verifier = VerifierKey.of(database.log_id, self.keys.audit)
        self.encoder = encoder_of(log_id=database.log_id, keys=(self.keys.hmac,))
        self.writer = Writer(
            database, reopen=self.database, deadline_s=deadline_s, capacity=capacity
        )

    def database(self):
        return Database.open(
            self.data_dir,
            durability=self.durability,
            wait_s=self.wait_s,
            key=self.keys.audit,
            connect=self.connect,
        )

    def connect(self):
        connection = sqlite3.connect(
            self.path,
            isolation_level=None,
            check_same_thread=False,
            timeout=self.wait_s,
            factory=FailingConnection,
        )
        prepare_writer(connection, self.durability)
        return connection

    async def append(self, name):
        return await self.writer.append(self.encoder.encode(event(name)))

    def rows(self):
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            return [
                name for (name,) in connection.execute("SELECT id FROM audit ORDER BY leaf_index")
            ]

    def checkpoint(self):
        return open_checkpoint((self.data_dir / CHECKPOINT).read_text(), self.verifier)


@contextlib.asynccontextmanager
async def bench(tmp_path, **options):
    made = Bench(tmp_path / "var", **options)
    yield made
    await made.writer.close()


@contextlib.contextmanager
def locked(path):
    """Another connection holds the write lock."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


async def in_hand(at):
    """Return once the writer's thread has taken all that was asked of it."""
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        while at.writer.depth:
            await asyncio.sleep(0.01)


async def test_many_at_once_share_transactions_and_keep_their_order(tmp_path):
    async with bench(tmp_path) as at:
        with locked(at.path):
            first = asyncio.create_task(at.append("first"))
            await in_hand(at)
            others = [asyncio.create_task(at.append(f"e{n}")) for n in range(500)]
            await asyncio.sleep(0)
            assert not first.done()
        await asyncio.gather(first, *others)
        assert at.rows() == ["first", *(f"e{n}" for n in range(500))]
        assert [task.result().leaf_index for task in others] == list(range(1, 501))
        assert at.writer._committer._database.batch == 2


async def test_an_acknowledged_record_can_be_read_by_others_at_once(tmp_path):
    async with bench(tmp_path) as at:
        await at.append("a")
        assert at.rows() == ["a"]


@pytest.mark.parametrize(
    ("durability", "synchronous"), [(Durability.POWER, 2), (Durability.PROCESS, 1)]
)
async def test_the_durability_asked_for_is_in_force_also_after_signing(
    tmp_path, durability, synchronous
):
    made = Bench(tmp_path / "var", durability=durability)
    await made.append("a")
    found = await made.writer.run(lambda c: c.execute("PRAGMA synchronous").fetchone())
    mode = await made.writer.run(lambda c: c.execute("PRAGMA journal_mode").fetchone())
    await made.writer.close()
    assert (found, mode) == ((synchronous,), ("wal",))


class StubbornConnection(sqlite3.Connection):
    """Takes no `synchronous`."""

    def execute(self, sql, *parameters):
        return super().execute("SELECT 1" if "synchronous =" in sql else sql, *parameters)


def test_a_connection_that_would_not_wait_for_the_disk_is_refused(tmp_path):
    connection = sqlite3.connect(
        tmp_path / "a.db", isolation_level=None, factory=StubbornConnection
    )
    sqlite3.Connection.execute(connection, "PRAGMA synchronous = 0")
    with contextlib.closing(connection), pytest.raises(ConfigError, match="synchronous=0"):
        prepare_writer(connection, Durability.POWER)


def test_a_database_that_cannot_have_a_write_ahead_log_is_refused():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    with contextlib.closing(connection), pytest.raises(ConfigError, match="write-ahead log"):
        prepare_writer(connection, Durability.POWER)


async def test_what_is_signed_has_reached_the_disk_even_where_records_need_not(tmp_path):
    made = Bench(tmp_path / "var", durability=Durability.PROCESS)
    await made.append("a")
    statements: list[str] = []
    made.first.set_trace_callback(statements.append)
    await made.writer.close()
    (signing,) = (n for n, sql in enumerate(statements) if "INTO checkpoints" in sql)
    settings = [(n, sql) for n, sql in enumerate(statements) if "synchronous =" in sql]
    assert [sql for _, sql in settings] == ["PRAGMA synchronous = 2"]
    assert settings[0][0] < signing


async def test_a_locked_database_is_a_refusal_and_then_works_again(tmp_path):
    async with bench(tmp_path, wait_s=0.2) as at:
        with locked(at.path):
            with pytest.raises(AuditUnavailable) as refused:
                await at.append("late")
            assert refused.value.code == "audit_unavailable"
            assert "locked" in at.writer.problem
        await at.append("later")
        assert at.rows()[-1] == "later"
        assert at.writer.problem == ""


async def test_a_stuck_writer_is_a_refusal_at_the_deadline_and_the_record_may_still_land(tmp_path):
    async with bench(tmp_path, deadline_s=0.1) as at:
        with locked(at.path):
            with pytest.raises(AuditUnavailable, match="not durable within the deadline"):
                await at.append("late")
            assert at.rows() == []
    assert at.rows() == ["late"]


async def test_the_deadline_is_each_writes_own(tmp_path):
    async with bench(tmp_path, deadline_s=0.3) as at:
        with locked(at.path):
            first = asyncio.create_task(at.append("a"))
            await asyncio.sleep(0.2)
            second = asyncio.create_task(at.append("b"))
            with pytest.raises(AuditUnavailable):
                await first
            assert not second.done()
        assert (await second).id == "b"


async def test_a_full_queue_is_a_refusal_at_once(tmp_path):
    async with bench(tmp_path, capacity=3) as at:
        with locked(at.path):
            taken = asyncio.create_task(at.append("taken"))
            await in_hand(at)
            waiting = [asyncio.create_task(at.append(f"e{n}")) for n in range(3)]
            await asyncio.sleep(0)
            assert at.writer.depth == 3
            with pytest.raises(AuditUnavailable, match="too many records wait"):
                await at.append("one too many")
        await asyncio.gather(taken, *waiting)
        assert at.rows() == ["taken", "e0", "e1", "e2"]


async def test_what_a_caller_no_longer_waits_for_is_written_all_the_same(tmp_path):
    async with bench(tmp_path) as at:
        with locked(at.path):
            task = asyncio.create_task(at.append("a"))
            await in_hand(at)
            task.cancel()
        await at.append("b")
        assert at.rows() == ["a", "b"]


async def test_a_full_disk_is_a_refusal_and_then_works_again(tmp_path):
    async with bench(tmp_path) as at:
        await at.append("before")
        pages = await at.writer.run(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
        at.first.execute(f"PRAGMA max_page_count = {pages}")
        big = at.encoder.encode(event("big", reasons=[{"code": "x", "message": "y" * 50_000}]))
        with pytest.raises(AuditUnavailable, match="full"):
            await at.writer.append(big)
        assert at.rows() == ["before"]
        at.first.execute("PRAGMA max_page_count = 1000000")
        entry = await at.append("after")
        assert (entry.leaf_index, at.rows()) == (1, ["before", "after"])
    assert verify(at.data_dir, at.verifier).reason == ""


async def test_a_commit_that_failed_but_happened_is_acknowledged(tmp_path):
    async with bench(tmp_path) as at:
        await at.append("before")
        at.first.fail_after = True
        assert (await at.append("unknown")).leaf_index == 1
        assert (await at.append("after")).leaf_index == 2
        assert at.rows() == ["before", "unknown", "after"]
    assert verify(at.data_dir, at.verifier).reason == ""


async def test_a_commit_that_failed_and_did_not_happen_is_refused(tmp_path):
    async with bench(tmp_path) as at:
        await at.append("before")
        at.first.fail_before = True
        with pytest.raises(AuditUnavailable, match="disk I/O error"):
            await at.append("lost")
        assert (await at.append("after")).leaf_index == 1
        assert at.rows() == ["before", "after"]
    assert verify(at.data_dir, at.verifier).reason == ""


async def test_a_commit_that_happened_but_may_not_be_on_the_disk_is_refused(tmp_path, monkeypatch):
    async with bench(tmp_path) as at:
        monkeypatch.setattr(FailingConnection, "fail_settling", True)
        at.first.fail_after = True
        with pytest.raises(AuditUnavailable, match="disk I/O error"):
            await at.append("unknown")
    assert at.rows() == ["unknown"]


async def test_a_database_that_cannot_be_reopened_is_tried_again(tmp_path):
    async with bench(tmp_path) as at:
        await at.append("before")
        at.first.fail_before = True
        (at.data_dir / CHECKPOINT).rename(tmp_path / "kept")
        (at.data_dir / CHECKPOINT).write_text("not a checkpoint")
        for _ in range(2):
            with pytest.raises(AuditUnavailable, match="does not match its own checkpoint"):
                await at.append("lost")
        assert at.writer._committer._unsigned_since is None  # or the thread would wake up for ever
        (tmp_path / "kept").rename(at.data_dir / CHECKPOINT)
        await at.append("after")
    assert at.rows() == ["before", "after"]


@pytest.mark.parametrize("name", [DATABASE, f"{DATABASE}-wal"])
async def test_a_file_that_was_renamed_is_a_refusal_until_it_is_back(tmp_path, name):
    async with bench(tmp_path) as at:
        await at.append("before")
        path = at.data_dir / name
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(AuditUnavailable, match="renamed or deleted"):
            await at.append("lost")
        (tmp_path / "elsewhere").rename(path)
        await at.append("after")
        assert at.rows() == ["before", "after"]


async def test_another_file_in_its_place_is_a_refusal(tmp_path):
    async with bench(tmp_path) as at:
        content = at.path.read_bytes()
        at.path.rename(tmp_path / "elsewhere")
        at.path.write_bytes(content)
        with pytest.raises(AuditUnavailable, match="renamed or deleted"):
            await at.append("lost")
        (tmp_path / "elsewhere").rename(at.path)


async def test_a_failing_job_fails_alone(tmp_path):
    def refuse(connection):
        connection.execute("INSERT INTO meta VALUES ('half', 'done')")
        raise Denied("no")

    def keep(connection):
        connection.execute("INSERT INTO meta VALUES ('kept', 'x')")
        return "kept"

    async with bench(tmp_path) as at:
        refused, kept, entry = (
            asyncio.create_task(made)
            for made in (at.writer.run(refuse), at.writer.run(keep), at.append("a"))
        )
        with pytest.raises(Denied):
            await refused
        assert (await kept, await entry) == ("kept", LogEntry(id="a", leaf_index=0))
        meta = await at.writer.run(lambda c: {key for (key,) in c.execute("SELECT key FROM meta")})
    assert meta == {"log_id", "batch", "kept"}


async def test_memory_follows_the_database_although_nobody_waits(tmp_path):
    remembered: list[str] = []
    async with bench(tmp_path) as at:
        with locked(at.path):
            task = asyncio.create_task(at.writer.run(lambda _: "a", committed=remembered.append))
            await in_hand(at)
            task.cancel()
            assert remembered == []
        await at.writer.run(lambda _: "b", committed=remembered.append)
    assert remembered == ["a", "b"]


async def test_memory_is_told_nothing_of_what_did_not_happen(tmp_path):
    remembered: list[str] = []
    async with bench(tmp_path) as at:
        at.first.fail_before = True
        with pytest.raises(AuditUnavailable):
            await at.writer.run(lambda _: "a", committed=remembered.append)
    assert remembered == []


@pytest.mark.parametrize("fault", [TypeError("a bug"), OverflowError("too large")])
async def test_a_bug_of_a_job_is_given_to_whoever_waits_for_it_alone(tmp_path, fault):
    def broken(connection):
        connection.execute("INSERT INTO meta VALUES ('half', 'done')")
        raise fault

    async with bench(tmp_path) as at:
        met, entry = (asyncio.create_task(made) for made in (at.writer.run(broken), at.append("a")))
        with pytest.raises(type(fault)):
            await met
        assert (await entry).leaf_index == 0
        assert (await at.append("b")).leaf_index == 1
        meta = await at.writer.run(lambda c: {key for (key,) in c.execute("SELECT key FROM meta")})
    assert meta == {"log_id", "batch"}


async def test_a_bug_in_writing_one_record_is_the_others_no_harm(tmp_path, monkeypatch):
    insert = Database._insert

    def broken(database, entries):
        if any(one.columns[0] == "bad" for one in entries):
            raise OverflowError("too large")
        return insert(database, entries)

    monkeypatch.setattr(Database, "_insert", broken)
    async with bench(tmp_path) as at:
        with locked(at.path):
            first = asyncio.create_task(at.append("a"))
            await in_hand(at)
            waiting = [asyncio.create_task(at.append(name)) for name in ("b", "bad", "c")]
            await asyncio.sleep(0)
        assert (await first).leaf_index == 0
        with pytest.raises(AuditUnavailable, match="too large"):
            await waiting[1]
        assert [(await one).leaf_index for one in (waiting[0], waiting[2])] == [1, 2]
        assert at.writer.problem == ""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_fault_of_our_own_ends_the_writer_and_refuses_everything(tmp_path):
    release = threading.Event()

    def broken(_):
        release.wait(10)
        raise SystemExit("a fault")

    async with bench(tmp_path) as at:
        await at.append("a")
        broken_one = asyncio.create_task(at.writer.run(broken))
        await in_hand(at)
        behind = asyncio.create_task(at.append("b"))
        await asyncio.sleep(0)
        release.set()
        with pytest.raises(AuditUnavailable, match=r"has ended: SystemExit\('a fault'\)"):
            await broken_one
        with pytest.raises(AuditUnavailable, match=r"\(the writer has ended\)"):
            await behind
        with pytest.raises(AuditUnavailable, match="closed"):
            await at.append("c")
    assert at.rows() == ["a"]


async def test_closing_writes_what_waits_signs_it_and_then_refuses(tmp_path):
    made = Bench(tmp_path / "var")
    tasks = [asyncio.create_task(made.append(f"e{n}")) for n in range(20)]
    await asyncio.sleep(0)
    await made.writer.close()
    await asyncio.gather(*tasks)
    assert made.checkpoint().size == 20
    with pytest.raises(AuditUnavailable, match="closed"):
        await made.append("late")
    await made.writer.close()


async def test_a_new_log_is_signed_before_its_first_record(tmp_path):
    async with bench(tmp_path) as at:
        assert at.checkpoint().size == 0


async def test_a_single_record_is_signed_after_a_moment(tmp_path):
    async with bench(tmp_path) as at:
        await at.append("a")
        for _ in range(100):
            if at.checkpoint().size == 1:
                break
            await asyncio.sleep(0.05)
        assert at.checkpoint().size == 1


async def test_a_checkpoint_that_cannot_be_signed_is_told_until_one_can(tmp_path):
    async with bench(tmp_path) as at:
        (at.data_dir / CHECKPOINT).unlink()
        (at.data_dir / CHECKPOINT / "in the way").mkdir(parents=True)
        await at.append("a")
        await until(lambda: "no checkpoint could be signed" in at.writer.problem)
        await at.append("b")
        assert "no checkpoint could be signed" in at.writer.problem
        (at.data_dir / CHECKPOINT / "in the way").rmdir()
        (at.data_dir / CHECKPOINT).rmdir()
        await at.append("c")
        await until(lambda: at.writer.problem == "")
        assert at.checkpoint().size == 3


async def until(holds):
    """Return once it holds."""
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET verdict = 'allow'",
        "UPDATE audit SET leaf_index = 9",
        "DELETE FROM audit",
        "INSERT OR REPLACE INTO audit SELECT * FROM audit",
    ],
)
async def test_records_are_only_ever_added(tmp_path, statement):
    async with bench(tmp_path) as at:
        await at.append("a")

        def tamper(connection):
            connection.execute(statement)

        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            await at.writer.run(tamper)
        assert at.rows() == ["a"]

"""PostgreSQL is gone, slow, or cut off: refused at once and clearly, and nothing acknowledged is lost."""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gateway.audit.record import RecordEncoder
from gateway.domain.approvals import ApprovalId
from gateway.domain.audit import LogEntry
from gateway.domain.premises import Uses
from gateway.errors import AuditUnavailable
from gateway.storage.audit_log import encoded
from gateway.storage.postgres.base import TABLES
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.lane import Lane
from gateway.storage.postgres.lanes import Kept, Lanes
from gateway.storage.postgres.migrations import migrate
from gateway.storage.postgres.terms import FREELY, Terms
from tests.audit.encoders import terms
from tests.postgres import Postgres, running
from tests.storage.postgres.shared import (
    PATIENCE_S,
    Replica,
    blocked,
    commits_held,
    in_tray,
    ordered,
    record,
    replica,
    verified,
)


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    """A server of one's own, which keeps what it says."""
    with (
        tempfile.TemporaryDirectory(prefix="douane-postgres-") as folder,
        running(Path(folder), {}) as server,
    ):
        yield server


async def back(made: Replica) -> None:
    patience = time.monotonic() + PATIENCE_S
    while True:
        try:
            await made.ledger.append(record(f"back{time.monotonic_ns()}"))
        except AuditUnavailable:
            assert time.monotonic() < patience
            await asyncio.sleep(0.05)
        else:
            return


async def test_a_server_that_ends_without_warning_keeps_what_was_acknowledged(
    own: Postgres,
) -> None:
    address = own.fresh()
    with closing(connect(address, application="test")) as connection:
        migrate(connection, *TABLES)
    told: list[str] = []
    ended = False

    async def calls(caller: int) -> None:
        n = 0
        while not ended:
            n += 1
            try:
                told.append((await made.ledger.append(record(f"{caller}-{n}"))).id)
            except AuditUnavailable:
                await asyncio.sleep(0.01)

    async with replica(address, deadline_s=5.0) as made:
        callers = [asyncio.create_task(calls(n)) for n in range(8)]
        for _ in range(2):
            before = len(told)
            while len(told) < before + 50:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(own.control, "stop", "-m", "immediate")
            with pytest.raises(AuditUnavailable):
                await made.ledger.append(record("gone"))
            await asyncio.to_thread(
                own.control, "start", "-l", own.folder / "log", "-o", own_words(own)
            )
            await back(made)
        ended = True
        await asyncio.gather(*callers)
    ordered(address)
    with closing(connect(address, application="test")) as connection:
        rows = connection.execute("SELECT id FROM audit").fetchall()
    found = [name for (name,) in rows]
    assert set(told) <= set(found)
    assert len(found) == len(set(found))


async def test_a_server_that_does_not_answer_is_refused_within_the_deadline(
    own: Postgres,
) -> None:
    address = own.fresh()
    with closing(connect(address, application="test")) as connection:
        migrate(connection, *TABLES)
    async with replica(address, deadline_s=1.0) as made:
        await made.ledger.append(record("before"))
        frozen = [int((own.folder / "data" / "postmaster.pid").read_text().split()[0])]
        with closing(connect(address, application="test")) as connection:
            rows = connection.execute("SELECT pid FROM pg_stat_activity").fetchall()
            frozen += [pid for (pid,) in rows if pid != connection.info.backend_pid]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            told = await asyncio.gather(
                *(made.ledger.append(record(f"e{n}")) for n in range(5)), return_exceptions=True
            )
            assert {type(one) for one in told} == {AuditUnavailable}
            patience = time.monotonic() + PATIENCE_S
            while made.lanes._able:
                assert time.monotonic() < patience
                await asyncio.sleep(0.05)
            with pytest.raises(AuditUnavailable, match="did not answer in time"):
                await made.ledger.append(record("at once"))
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
        await back(made)
        assert made.lanes.problem == ""
    assert ordered(address).size >= 2


def own_words(own: Postgres) -> str:
    return f"-c listen_addresses= -c unix_socket_directories={own.folder} -c max_connections=200"


async def test_where_there_is_none_it_does_not_open() -> None:
    lanes = Lanes("host=/nowhere", replica="one")
    with pytest.raises(AuditUnavailable):
        await lanes.open()
    with pytest.raises(AuditUnavailable):
        await lanes.put(None, None)  # type: ignore[arg-type]


class Slow:
    """A lane whose server takes as long over a batch as the test wants."""

    next, mark = 1, None

    def __init__(self) -> None:
        self.put_so_far = 0
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()

    async def put(self, rows: list[Any], *, within_s: float) -> list[Any]:
        self.begun.set()
        await self.goes_on.wait()
        self.put_so_far += len(rows)
        return []

    async def close(self) -> None:
        """Let go of nothing."""


async def test_whoever_uses_something_up_hears_of_it_once_its_batch_has_begun() -> None:
    """Refused, it must not be used up: one that waits still is left out, whoever waits longer."""
    entry = RecordEncoder(log_id="log", terms=terms()).encode(record("used"))
    using = Terms(uses=Uses(yes=ApprovalId("a")))
    lane, lanes = Slow(), Lanes("", replica="one", deadline_s=0.01)
    lanes._able = {0}
    working = asyncio.create_task(lanes._work(0, lane))  # type: ignore[arg-type]
    first = asyncio.create_task(lanes.put(entry, using))
    await lane.begun.wait()
    for later in (using, FREELY):
        with pytest.raises(AuditUnavailable, match="the deadline has passed"):
            await lanes.put(entry, later)
    lane.goes_on.set()
    assert await first == Kept()
    lanes._closing = True
    lanes._wake.set()
    await working
    assert lane.put_so_far == 1


async def test_a_commit_of_which_no_answer_came_is_found_out(
    address: str, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replica(address) as made:
        await made.ledger.append(record("before"))
        answered = Lane._answered

        async def cut(lane: Lane, given: Any) -> list[Any]:
            await answered(lane, given)
            monkeypatch.undo()
            await lane._connection.close()
            raise psycopg.OperationalError("the connection is lost")

        monkeypatch.setattr(Lane, "_answered", cut)
        assert await made.ledger.append(record("one")) == LogEntry(id="one")
        assert await made.ledger.append(record("two")) == LogEntry(id="two")
    assert in_tray(owner) == ["before", "one", "two"]


async def test_a_commit_that_may_still_happen_is_waited_for_or_ended(
    address: str, owner: Connection
) -> None:
    async with replica(address) as made:
        with commits_held(address):
            told = asyncio.create_task(made.ledger.append(record("one")))
            assert await blocked(owner, told, at=1)
            owner.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name"
                " LIKE 'douane lane%' AND datname = current_database()"
            )
            with pytest.raises(AuditUnavailable):
                await told
        await back(made)
        assert "one" not in in_tray(owner)


async def test_a_client_that_is_lost_leaves_no_commit_behind(
    address: str, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server goes on with what a connection asked that it does not know to be lost."""
    async with replica(address) as made:
        answered = Lane._answered

        async def cut(lane: Lane, given: Any) -> list[Any]:
            task = asyncio.ensure_future(answered(lane, given))
            assert await blocked(owner, task, at=1)
            kept.append(task)
            monkeypatch.undo()
            os.dup2(os.open(os.devnull, os.O_RDWR), lane._connection.fileno())
            raise TimeoutError

        kept: list[Any] = []
        monkeypatch.setattr(Lane, "_answered", cut)
        with commits_held(address), pytest.raises(AuditUnavailable):
            await made.ledger.append(record("one"))
        await back(made)
        assert "one" not in in_tray(owner)
        await asyncio.gather(*kept, return_exceptions=True)


async def test_a_lane_goes_on_though_nobody_waits_any_more_for_what_it_would_put_next(
    address: str, owner: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """As where a client hangs up while the one before is under way."""
    async with replica(address, "one") as made:
        with commits_held(address):
            first = asyncio.create_task(made.ledger.append(record("first")))
            await blocked(owner, first, at=1)
            entry = await encoded(made.ledger._encoder, record("gone"))
            gone = asyncio.create_task(made.lanes.put(entry, FREELY))
            while not made.lanes.depth:
                await asyncio.sleep(0.01)
            gone.cancel()
            await asyncio.wait([gone])
        await first
        await made.ledger.append(record("last"))
        assert in_tray(owner) == ["first", "last"]
        assert "bug" not in caplog.text


async def test_a_bug_in_putting_one_batch_is_the_end_of_no_lane(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ValueError("a bug")

    async with replica(address, "one") as made:
        with monkeypatch.context() as patched:
            patched.setattr(Lane, "put", broken)
            with pytest.raises(AuditUnavailable, match="a bug"):
                await made.ledger.append(record("first"))
        await back(made)
        assert made.lanes.problem == ""


async def test_a_lane_that_has_ended_is_a_problem_that_readiness_tells(address: str) -> None:
    async with replica(address, "one") as made:
        await back(made)
        (task,) = made.lanes._tasks
        task.cancel()
        await asyncio.wait([task])
        assert made.lanes.problem != ""
        with pytest.raises(AuditUnavailable):
            await made.ledger.append(record("first"))
        made.lanes._tasks.clear()


async def test_many_who_wait_are_refused_beyond_a_bound(address: str) -> None:
    async with replica(address, capacity=2) as made:
        with commits_held(address):
            told = [asyncio.create_task(made.ledger.append(record(f"e{n}"))) for n in range(9)]
            done, _ = await asyncio.wait(told, return_when=asyncio.FIRST_COMPLETED)
            assert "too many records wait" in str(done.pop().exception())
        await asyncio.gather(*told, return_exceptions=True)


async def test_what_waits_at_the_end_is_kept(address: str, owner: Connection) -> None:
    async with replica(address) as made:
        told = [asyncio.create_task(made.ledger.append(record(f"e{n}"))) for n in range(300)]
        for _ in range(2):  # each is begun, and goes on in a task of its own
            await asyncio.sleep(0)
    await asyncio.gather(*told)
    assert len(in_tray(owner)) == 300
    with pytest.raises(AuditUnavailable):
        await made.ledger.append(record("late"))
    ordered(address)
    assert verified(address).size == 300

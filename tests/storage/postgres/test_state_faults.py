"""Changes of state when the connection is lost, or others are always quicker: done, or known not to be."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from gateway.errors import AuditUnavailable, ConfigError, NotFound
from gateway.storage.committer import NotAccepted
from gateway.storage.postgres import jobs
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.state import SharedState
from gateway.storage.state import Tables
from tests.postgres import Postgres
from tests.storage.placed import emptied, shared

_KEEP = "INSERT INTO baselines (subject, state) VALUES (?, ?)"
_HELD = """
CREATE OR REPLACE FUNCTION hold_commit() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = '60s' AS $$
BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER held AFTER INSERT ON baselines DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION hold_commit();
"""

_ACTIVE = b"""
SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'douane state' AND datname = current_database() AND state <> 'idle'
"""


@pytest.fixture
def address(postgres: Postgres) -> str:
    return emptied(postgres)


@pytest.fixture
def owner(address: str) -> Any:
    with closing(connect(address, application="test")) as opened:
        yield opened


@pytest.fixture
async def state(address: str) -> AsyncIterator[SharedState]:
    async with shared(address) as opened:
        yield opened


def keeps(name: str) -> Any:
    def job(tables: Tables) -> str:
        tables.execute(_KEEP, (name, b"x"))
        return name

    return job


def kept(owner: Connection) -> list[str]:
    rows = owner.execute("SELECT subject FROM baselines ORDER BY subject")
    return [name for (name,) in rows.fetchall()]


def losing(monkeypatch: pytest.MonkeyPatch, *, committed: bool) -> None:
    """Lose the connection of the next commit, after or before the server has heard of it."""
    execute, lost = Connection.execute, threading.Event()

    def executed(self: Connection, statement: Any, *more: Any, **options: Any) -> Any:
        if statement != jobs.COMMIT or lost.is_set():
            return execute(self, statement, *more, **options)
        lost.set()
        if committed:
            execute(self, statement, *more, **options)
        self.close()
        raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(Connection, "execute", executed)


async def test_a_change_whose_commit_was_not_answered_is_told_as_made_if_it_was(
    state: SharedState, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing(monkeypatch, committed=True)
    told: list[str] = []
    assert await state.run(keeps("one"), committed=told.append) == "one"
    assert (kept(owner), told) == (["one"], ["one"])
    assert not await state.caught_up()  # it is ours all the same


async def test_a_change_whose_commit_was_never_heard_is_refused(
    state: SharedState, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing(monkeypatch, committed=False)
    told: list[str] = []
    with pytest.raises(AuditUnavailable):
        await state.run(keeps("one"), committed=told.append)
    assert (kept(owner), told) == ([], [])
    assert await state.run(keeps("two")) == "two"


async def test_of_another_server_nobody_knows_what_became_of_a_commit(
    state: SharedState, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts its transactions anew, and one of the same number is somebody else's."""
    became = jobs._BECAME
    monkeypatch.setattr(jobs, "_BECAME", became.replace(b"pg_postmaster_start_time()", b"now()"))
    losing(monkeypatch, committed=True)
    with pytest.raises(AuditUnavailable):
        await state.run(keeps("one"))
    assert kept(owner) == ["one"]


async def test_a_commit_that_is_under_way_still_is_ended_before_anybody_is_told(
    address: str, owner: Connection
) -> None:
    owner.execute(_HELD.encode())
    try:
        async with shared(address, deadline_s=4.0) as state:
            state._session.use(lambda one: setattr(one, "patience_s", 0.3))
            with closing(connect(address, application="test holds")) as holder:
                holder.execute("SELECT pg_advisory_lock(4711)")
                with pytest.raises(AuditUnavailable):
                    await state.run(keeps("one"))
            while owner.execute(_ACTIVE).fetchall() != [(0,)]:
                await asyncio.sleep(0)
            assert kept(owner) == []
    finally:
        owner.execute("DROP TRIGGER held ON baselines")


async def test_a_lost_connection_is_made_anew(state: SharedState, owner: Connection) -> None:
    await state.run(keeps("one"))
    owner.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'douane state'"
        " AND datname = current_database()"
    )
    assert await state.run(keeps("two")) == "two"
    assert kept(owner) == ["one", "two"]


async def test_a_jobs_own_no_undoes_it_alone(state: SharedState, owner: Connection) -> None:
    def refused(error: Exception) -> Any:
        def job(tables: Tables) -> None:
            tables.execute(_KEEP, ("refused", b"x"))
            raise error

        return job

    for error in (NotFound("no"), ValueError("no"), LookupError("no")):
        first, other = asyncio.create_task(state.run(keeps(repr(error)))), refused(error)
        with pytest.raises(type(error), match="no"):
            await state.run(other)
        await first
    with pytest.raises(NotAccepted):
        await state.run(refused(ZeroDivisionError("a bug")))
    assert len(kept(owner)) == 3


async def test_what_others_write_all_the_time_is_told_to_be_unavailable(
    state: SharedState, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_PAUSE_MS", 1)
    monkeypatch.setattr(jobs, "_LONGEST_PAUSE_MS", 1)
    await state.run(keeps("one"))
    tries = []

    def job(tables: Tables) -> None:
        tries.append(tables.execute("SELECT count(*) FROM baselines").fetchone())
        owner.execute("UPDATE baselines SET state = state || 'x'")
        tables.execute("UPDATE baselines SET state = ''")

    with pytest.raises(AuditUnavailable, match="20 tries"):
        await state.run(job)
    assert len(tries) == jobs.MOST_TRIES


async def test_what_nobody_waits_for_any_more_is_not_begun(address: str, owner: Connection) -> None:
    go_on = threading.Event()
    async with shared(address, deadline_s=0.05) as state:
        first = asyncio.create_task(state.run(lambda _: go_on.wait(60)))
        await asyncio.sleep(0)
        with pytest.raises(AuditUnavailable):
            await state.run(keeps("late"))
        go_on.set()
        await asyncio.wait([first])
        assert isinstance(first.exception(), AuditUnavailable)
    assert kept(owner) == []


async def test_what_is_under_way_at_the_end_is_done(address: str, owner: Connection) -> None:
    async with shared(address) as state:
        under_way = [asyncio.create_task(state.run(keeps(str(n)))) for n in range(5)]
        await asyncio.sleep(0)
    assert [await one for one in under_way] == [str(n) for n in range(5)]
    assert len(kept(owner)) == 5
    with pytest.raises(AuditUnavailable):
        await state.run(keeps("more"))


async def test_without_a_database_there_is_no_state(address: str) -> None:
    absent = address.replace("host=", "host=/nowhere")
    with pytest.raises(ConfigError):
        SharedState.open(absent)
    async with shared(address) as state:
        state._conninfo = absent
        with pytest.raises(ConfigError), state.reading():
            pass

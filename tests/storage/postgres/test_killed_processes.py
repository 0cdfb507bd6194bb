"""A server of which a process was killed gives numbers of transactions again, and says that it never ended."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest

from gateway.storage.postgres import jobs
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.jobs import Mark, became
from gateway.storage.postgres.news import News
from tests import postgres
from tests.postgres import Postgres
from tests.storage.placed import PATIENCE_S, shared, with_state
from tests.storage.postgres.replicas import Stores
from tests.storage.suite import sighting, target

_SEEN_BY_NOBODY = "BEGIN; SELECT pg_current_xact_id(); ROLLBACK"


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    # What has not been committed is not on the disk soon.
    with postgres.own({"wal_writer_delay": "10s"}) as server:
        yield server


@pytest.fixture
def address(own: Postgres) -> str:
    address = own.fresh()
    with_state(address)
    return address


async def kill(address: str) -> None:
    """Kill a process of the server's, and wait until all others have ended and it is back."""
    with (
        closing(connect(address, application="test")) as victim,
        closing(connect(address, application="test")) as other,
    ):
        os.kill(victim.info.backend_pid, signal.SIGKILL)
        await until(lambda: not answers(other))
    await until(lambda: is_there(address))


async def until(holds: Callable[[], bool]) -> None:
    patience = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < patience
        await asyncio.sleep(0.02)


def answers(connection: Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def is_there(address: str) -> bool:
    try:
        connect(address, application="test").close()
    except psycopg.OperationalError:
        return False
    return True


async def test_a_number_that_was_seen_already_may_be_anothers_change(address: str) -> None:
    async with shared(address) as here, shared(address) as there:
        one, other = Stores(here), Stores(there)
        with closing(connect(address, application="test")) as owner:
            for _ in range(200):
                owner.execute(_SEEN_BY_NOBODY)
        await there.caught_up()
        await kill(address)
        await one.pins.observe([sighting(target())])
        assert await there.caught_up()
        assert other.pins.all() == one.pins.all() != ()


async def test_what_became_of_a_commit_before_that_is_not_told(address: str) -> None:
    with closing(connect(address, application="test")) as one:
        News().begin(one)
        one.execute(jobs.BEGIN)
        one.execute("INSERT INTO baselines (subject, state) VALUES ('one', '')")
        ((transaction, server, backend),) = one.execute(jobs._MARK).fetchall()
        one.execute(jobs.COMMIT)
    mark = Mark(transaction=transaction, server=server, backend=backend)
    assert became(address, mark, within_s=PATIENCE_S) is True
    await kill(address)
    assert became(address, mark, within_s=PATIENCE_S) is None

"""Who asks for a signed log waits until all that is durable by then is covered, and is told if nobody sees to it."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from gateway.errors import AuditUnavailable
from gateway.storage.postgres import coverage
from gateway.storage.postgres.connection import Connection, Session, connect
from gateway.storage.postgres.coverage import covered
from tests.storage.postgres.shared import PATIENCE_S, following, record, replica


@contextmanager
def session(address: str) -> Iterator[Session]:
    made = Session(address, application="test", patience_s=5.0)
    try:
        yield made
    finally:
        made.close()


def order(address: str, *, sign: bool) -> None:
    """Order what lies in the tray, as whoever leads does, and sign it or not."""
    with closing(connect(address, application="test")) as connection:
        leader = following(connection)
        while leader.step():
            pass
        if sign:
            leader.sign()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How often somebody has waited, each a moment."""
    waited: list[float] = []
    pause = coverage._pause

    def noted(until: float) -> None:
        waited.append(until)
        pause(until)

    monkeypatch.setattr(coverage, "_pause", noted)
    return waited


async def until_waiting(waits: list[float], more_than: int = 0) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len(waits) <= more_than:
            await asyncio.sleep(0.01)


async def test_where_nothing_is_durable_nothing_is_waited_for(
    address: str, owner: Connection, waits: list[float]
) -> None:
    with session(address) as asked:
        await covered(asked, within_s=PATIENCE_S)
    assert waits == []


async def test_what_lies_in_the_tray_is_waited_for_until_it_is_signed(
    address: str, owner: Connection, waits: list[float]
) -> None:
    async with replica(address) as one:
        await one.ledger.append(record("a"))
        with session(address) as asked:
            waiting = asyncio.create_task(covered(asked, within_s=PATIENCE_S))
            await until_waiting(waits)
            await asyncio.to_thread(order, address, sign=False)
            await until_waiting(waits, len(waits) + 1)
            assert not waiting.done()
            await asyncio.to_thread(order, address, sign=True)
            await waiting


async def test_what_comes_afterwards_is_not_waited_for(
    address: str, owner: Connection, waits: list[float]
) -> None:
    async with replica(address) as one:
        await one.ledger.append(record("a"))
        await asyncio.to_thread(order, address, sign=True)
        await one.ledger.append(record("b"))
        with session(address) as asked:
            waiting = asyncio.create_task(covered(asked, within_s=PATIENCE_S))
            await until_waiting(waits)
            await asyncio.to_thread(order, address, sign=True)
            await one.ledger.append(record("c"))
            await waiting
    assert owner.execute("SELECT size FROM tree").fetchall() == [(2,)]


@pytest.mark.parametrize("ordered", [False, True])
async def test_where_nobody_signs_in_time_that_is_told(
    address: str, owner: Connection, *, ordered: bool
) -> None:
    async with replica(address) as one:
        await one.ledger.append(record("a"))
        if ordered:
            await asyncio.to_thread(order, address, sign=False)
        with session(address) as asked, pytest.raises(AuditUnavailable) as found:
            await covered(asked, within_s=-1.0)
    assert found.value.detail == "nobody signs it in time"


async def test_without_the_database_it_is_not_known(address: str) -> None:
    class Gone(Session):
        def use(self, job: object) -> None:  # type: ignore[override]
            raise psycopg.OperationalError("the server is gone")

    with (
        closing(Gone(address, application="test", patience_s=5.0)) as asked,
        pytest.raises(AuditUnavailable) as found,
    ):
        await covered(asked, within_s=PATIENCE_S)
    assert found.value.detail == "the server is gone"

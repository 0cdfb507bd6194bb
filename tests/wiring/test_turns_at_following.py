"""Of gateways that share a log one follows it, and stops as soon as it is not known to be its turn."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from gateway.config import Config
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.ports.following import StoredRecord
from gateway.storage.store import Store
from gateway.web.metrics import Metrics
from gateway.wiring import recorded
from gateway.wiring.recorded import Recorded
from tests.storage.suite import NOW

NAME = "export here"
NAMED = "douane_audit_lag_seconds "
CONFIG = Config.model_validate({"version": 1, "public_url": "https://gateway.example"})


class Given:
    """A turn that a test gives and takes."""

    def __init__(self) -> None:
        self.has = asyncio.Event()
        self.lacks = asyncio.Event()
        self.closed_in: threading.Thread | None = None

    async def taken(self) -> None:
        await self.has.wait()

    async def lost(self) -> None:
        await self.lacks.wait()

    def close(self) -> None:
        self.closed_in = threading.current_thread()


class Kept:
    """A sink that takes everything, and says so."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.came = asyncio.Event()

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        self.ids += [one.leaf_index for one in records]
        self.came.set()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "var", clock=lambda: NOW)
    yield opened
    await opened.close()


async def append(store: Store, name: str) -> None:
    await store.audit.append(AuditRecord(kind=RecordKind.SYSTEM, time=NOW, id=name))
    await store.caught_up()


class Looked:
    """A log of which a test says how late it is, or that nobody can say."""

    def __init__(self) -> None:
        self.lag: float | None = 4.2
        self.asked = asyncio.Event()

    def newest(self) -> int:
        return 7

    def lag_s(self) -> float:
        self.asked.set()
        if self.lag is None:
            raise sqlite3.OperationalError
        return self.lag


async def test_how_late_the_log_is_is_told_and_not_forgotten_where_nobody_can_say(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "_LOOK_S", 0.0)
    monkeypatch.setattr(recorded, "_ANSWERED_S", 0.0)
    metrics, log = Metrics(), Looked()

    def told() -> float:
        (line,) = [one for one in metrics.page().decode().splitlines() if one.startswith(NAMED)]
        return float(line.split()[1])

    async def reached(least: float) -> None:
        async with asyncio.timeout(60):
            while told() < least:
                await asyncio.sleep(0.01)

    found = Recorded(lambda: CONFIG, store, metrics, turn=Given())
    looking = asyncio.create_task(found._look(log))  # type: ignore[arg-type]
    await reached(4.2)
    log.lag = None
    await reached(4.7)
    log.lag = 9.0
    await reached(9.0)
    looking.cancel()


async def test_the_log_is_closed_once_nobody_reads_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go_on, told = threading.Event(), threading.Event(), []

    class Slow(Looked):
        def newest(self) -> int:
            reading.set()
            go_on.wait(60)
            told.append("read")
            return 7

        def close(self) -> None:
            told.append("closed")
            go_on.set()

    monkeypatch.setattr(store.log, "reader", Slow)
    async with (
        asyncio.timeout(60),
        Recorded(lambda: CONFIG, store, Metrics(), turn=Given()).running(),
    ):
        await asyncio.to_thread(reading.wait, 60)
        asyncio.get_running_loop().call_later(0.05, go_on.set)
    while len(told) < 2:
        await asyncio.sleep(0.01)
    assert told == ["read", "closed"]


async def test_the_turn_is_given_back_last_and_beside_the_event_loop(store: Store) -> None:
    turn = Given()
    found = Recorded(lambda: CONFIG, store, Metrics(), turn=turn)
    turn.has.set()
    async with asyncio.timeout(60), found.running():
        assert turn.closed_in is None
    assert turn.closed_in not in {None, threading.current_thread()}


async def test_followers_are_at_work_in_their_turn_alone(store: Store) -> None:
    turn, sink, metrics = Given(), Kept(), Metrics()
    found = Recorded(lambda: CONFIG, store, metrics, turn=turn)
    found.follow(NAME, sink)
    await append(store, "one")
    async with asyncio.timeout(60), found.running():
        assert (found.at_work, found.facts()) == ((), {})
        turn.has.set()
        await sink.came.wait()
        assert [one.name for one in found.at_work] == [NAME]
        turn.has.clear()
        turn.lacks.set()
        while found.at_work:
            await asyncio.sleep(0)
        assert found.facts() == {}
        turn.lacks.clear()
        sink.came.clear()
        await append(store, "two")
        turn.has.set()
        await sink.came.wait()
    assert sink.ids[-1] == 1
    assert found.at_work == ()

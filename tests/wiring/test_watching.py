"""The log is watched: jumps of the clock, silence, space, what it was found like."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from gateway.config import load
from gateway.storage.database import DATABASE
from gateway.storage.recovery import Found
from gateway.storage.store import Store
from gateway.wiring import watching
from gateway.wiring.foundation import open_store
from gateway.wiring.watching import ClockWatch, Silence, Space, Watch

CONFIG = """\
version: 1
public_url: http://127.0.0.1:8080
data_dir: ./data
policy: {path: ./policies}
audit: {deadline: 100ms, on_failure: spool, spool: {path: ./spool, bytes: 65536}, heartbeat: 1h}
"""


class Clocks:
    def __init__(self):
        self.wall, self.steady = 1000.0, 50.0

    def pass_(self, seconds, *, shown=None):
        self.steady += seconds
        self.wall += seconds if shown is None else shown


@pytest.fixture
def clocks():
    return Clocks()


@pytest.mark.parametrize(
    ("passed", "shown", "jumped"),
    [
        (1.0, 1.0, None),
        (1.0, 2.9, None),
        (1.0, 3.1, 2.1),
        (1.0, -3600.0, -3601.0),
        (9.0, 0.0, -9.0),
    ],
)
def test_a_clock_that_shows_other_than_what_passed_has_jumped(clocks, passed, shown, jumped):
    watch = ClockWatch(lambda: clocks.wall, lambda: clocks.steady)
    clocks.pass_(passed, shown=shown)
    found = watch.jump()
    assert (found and found["jumped_s"]) == (jumped and pytest.approx(jumped))
    if found:
        assert (found["before"], found["after"]) == (1000.0, 1000.0 + shown)
        assert found["passed_s"] == passed
    clocks.pass_(1.0)
    assert watch.jump() is None  # a jump is told once


def test_silence_is_broken_once_for_each_time_that_it_is_too_long(clocks):
    silence = Silence(60, lambda: clocks.steady)
    told = []
    for recorded in (5, 5, 6, 6, 6, 6, 6):
        clocks.pass_(30)
        told.append(silence.broken_by(recorded))
    assert told == [False, False, False, False, True, False, True]


def test_little_space_is_told():
    assert Space(free=watching.LOW_BYTES).low == ""
    assert Space(free=100 << 20).low == "100 MiB are left for the audit log"


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "douane.yaml"
    path.write_text(CONFIG)
    return load(path, {})


def records(folder: Path):
    with contextlib.closing(sqlite3.connect(folder / "data" / DATABASE)) as connection:
        return connection.execute(
            "SELECT kind, code, json_extract(body, '$.evidence') FROM audit ORDER BY leaf_index"
        ).fetchall()


async def test_what_the_log_was_found_like_is_its_first_record(config, tmp_path):
    async with open_store(config) as store, Watch(config, store).running():
        pass
    ((kind, code, evidence),) = records(tmp_path)
    assert (kind, code) == ("system", "opened")
    assert '"records":0' in evidence


async def test_what_is_remarkable_is_logged_and_recorded(config, tmp_path, caplog):
    async with open_store(config) as store:
        assert isinstance(store, Store)
        store.found = Found(records=3, clean=False, outcome_unknown=2)
        async with Watch(config, store).running():
            pass
    assert [code for _, code, _ in records(tmp_path)] == ["recovered"]
    assert "2 calls have no known outcome" in caplog.text


async def test_jumps_and_silence_are_recorded_while_it_runs(config, tmp_path, monkeypatch, clocks):
    monkeypatch.setattr(watching, "_LOOK_S", 0.01)
    async with open_store(config) as store:
        watch = Watch(config, store)
        watch._clock = ClockWatch(lambda: clocks.wall, lambda: clocks.steady)
        watch._silence = Silence(60, lambda: clocks.steady)
        async with watch.running():
            clocks.pass_(1, shown=500)
            await until(lambda: "clock_jump" in codes(tmp_path))
            await until(
                lambda: watch._silence._recorded == len(codes(tmp_path))
            )  # and silence begins
            clocks.pass_(61)
            await until(lambda: "heartbeat" in codes(tmp_path))
    assert codes(tmp_path) == ["opened", "clock_jump", "heartbeat"]


def codes(folder):
    return [code for _, code, _ in records(folder)]


async def until(holds):
    import asyncio

    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


async def test_spooling_and_space_are_facts_of_readyz(config, tmp_path, monkeypatch):
    async with open_store(config) as store:
        watch = Watch(config, store)
        assert (watch.facts(), watch.spooled) == ({}, 0)
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / DATABASE)) as connection:
            connection.isolation_level = None
            connection.execute("BEGIN IMMEDIATE")
            await watch._record("heartbeat", "", {})
            assert watch.spooled == 1
            assert watch.facts()["audit_spool"].startswith("1 records are in the spool, ")
        monkeypatch.setattr(watching, "LOW_BYTES", watch.free * 2)
        assert "are left for the audit log" in watch.facts()["audit_space"]


async def test_a_log_that_refuses_has_no_spool(tmp_path):
    store = await Store.open(tmp_path / "var", clock=lambda: 0.0)
    path = tmp_path / "douane.yaml"
    path.write_text(CONFIG.replace("on_failure: spool, spool: {path: ./spool, bytes: 65536}, ", ""))
    watch = Watch(load(path, {}), store)
    assert (watch.facts(), watch.spooled) == ({}, 0)
    await store.close()

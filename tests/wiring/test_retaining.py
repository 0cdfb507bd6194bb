"""What is older than `audit.retention.keep` leaves the log by itself, by way of the archive."""

import asyncio
import contextlib
import logging
import sqlite3
from pathlib import Path

import pytest

from gateway.config import Config, load
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.storage.database import DATABASE
from gateway.storage.store import Store
from gateway.wiring import retaining
from gateway.wiring.foundation import now, open_store
from gateway.wiring.retaining import retain, retained, retention_of, verify_log
from gateway.wiring.stores import Stores
from tests.export.witness import Witness

CONFIG = """\
version: 1
public_url: http://127.0.0.1:8080
data_dir: ./data
policy: {path: ./policies}
audit: {deadline: 10s, checkpoints: {every: 10ms}, retention: {keep: 400d, archive: ./old}}
"""
YEAR_S = 365 * 86_400


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "douane.yaml"
    path.write_text(CONFIG)
    return load(path, {})


async def fill(store: Stores, count: int) -> None:
    await asyncio.gather(
        *(
            store.audit.append(
                AuditRecord(kind=RecordKind.SYSTEM, time=now() - 2 * YEAR_S, id=f"e{n}")
            )
            for n in range(count)
        )
    )
    while True:
        assert isinstance(store, Store)
        with contextlib.closing(store.log.reader()) as reader:
            signed = reader.checkpoint()
        if signed is not None and signed[0] >= count:
            return
        await asyncio.sleep(0.01)


def first(folder: Path) -> int:
    with contextlib.closing(sqlite3.connect(folder / "data" / DATABASE)) as connection:
        return int(connection.execute("SELECT min(leaf_index) FROM audit").fetchone()[0])


async def test_what_is_old_leaves_by_itself(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retaining, "_FIRST_S", 0.0)
    async with open_store(config) as store:
        await fill(store, 300)
        task = asyncio.create_task(retain(config, store))
        async with asyncio.timeout(60):
            while first(tmp_path) == 0:
                await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait([task])
    assert first(tmp_path) == 256
    assert len(list((tmp_path / "old").glob("*.jsonl"))) == 1


async def test_without_a_time_nothing_leaves(config: Config) -> None:
    section = config.audit.model_copy(update={"retention": None})
    without = config.model_copy(update={"audit": section})
    async with open_store(without) as store:
        await retain(without, store)  # it has nothing to wait for


async def test_what_cannot_leave_yet_is_logged_and_stays(
    config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_store(config) as store:
        await fill(store, 300)
        await store.cursors.move("siem", 5)
        with caplog.at_level(logging.INFO):
            await retained(retention_of(config, store), YEAR_S)
    assert "siem has had no records after 5 yet" in caplog.text
    assert first(tmp_path) == 0


async def test_by_hand_and_by_itself_take_turns(config: Config) -> None:
    async with open_store(config) as store:
        await fill(store, 600)
        before_us = int((now() - YEAR_S) * 1e6)
        by_hand, by_itself = retention_of(config, store), retention_of(config, store)
        made = await asyncio.gather(by_hand.archive(before_us), by_itself.archive(before_us))
        assert sorted(len(each) for each in made) == [0, 1]


async def test_verification_asks_the_configured_witnesses_by_itself(
    config: Config, tmp_path: Path
) -> None:
    async with open_store(config) as store:
        await fill(store, 2)
    assert verify_log(config, []).exit_status == 0
    asked = f"{{w1: {{url: https://w.example/s, key: '{Witness().vkey}'}}}}"
    path = tmp_path / "douane.yaml"
    path.write_text(CONFIG.replace("{every: 10ms}", f"{{every: 10ms, witnesses: {asked}}}"))
    watched = load(path, {})
    found = verify_log(watched, [])
    assert found.exit_status == 1
    assert "no checkpoint here is cosigned by witness.example/w1" in found.reason
    assert verify_log(watched, [], without_configured=True).exit_status == 0

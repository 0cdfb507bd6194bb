"""The index keeps up with the log by itself, and a log that is too large is told from a fault."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.admin import archive as module
from gateway.admin.archive import Archive
from gateway.audit.query import Filter, QueryTooLong, compile_filter
from gateway.audit.questions import Progress
from gateway.errors import AuditUnavailable, BadCommand
from gateway.storage.index import INDEX
from gateway.storage.store import Store
from gateway.wiring.indexing import archive_of, kept_up
from tests.storage.logged import NOW, made, write

EVERYTHING = compile_filter(Filter(), now=NOW)


class Index:
    """Counts how often it is asked, and fails as often as it is told to."""

    def __init__(self, *, fails: int = 0) -> None:
        self.asked = 0
        self.fails = fails
        self.reached = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def catch_up(self, enough: Callable[[], bool]) -> Progress:
        assert enough() in {True, False}
        self.asked += 1
        if self.asked <= self.fails:
            raise AuditUnavailable("the index is full", detail="disk")
        self._loop.call_soon_threadsafe(self.reached.set)
        return Progress(through=0, newest=0)


class TooLarge:
    def page(self, _: object) -> Any:
        raise QueryTooLong(5.0)


async def test_it_is_kept_up_while_the_gateway_runs(tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    store = await Store.open(tmp_path, clock=lambda: NOW)
    try:
        with archive_of(store) as archive:
            async with kept_up(archive), asyncio.timeout(60):
                while (await archive._read(lambda: archive._answers.marked(f"d_{1:0>30}"))) != [
                    1,
                    0,
                ]:
                    await asyncio.sleep(0.01)
    finally:
        await store.close()


async def test_an_index_that_fails_is_tried_again_and_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_LOOK_AGAIN_S", 0.0)
    index = Index(fails=3)
    following = asyncio.create_task(Archive(TooLarge(), index).follow())  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        await asyncio.wait_for(index.reached.wait(), 60)
    following.cancel()
    await asyncio.wait([following])
    assert [record.getMessage() for record in caplog.records] == ["the index is full: disk"]
    assert index.asked >= 4


async def test_what_takes_too_long_is_told_as_something_to_narrow() -> None:
    archive = Archive(TooLarge(), Index())  # type: ignore[arg-type]
    with pytest.raises(BadCommand, match="given up after 5 s: narrow it by --since"):
        await archive.page(EVERYTHING)


async def test_only_a_search_for_words_waits_for_the_index() -> None:
    index = Index(fails=1)
    archive = Archive(TooLarge(), index)  # type: ignore[arg-type]
    with pytest.raises(BadCommand):
        await archive.page(EVERYTHING)
    assert index.asked == 0
    words = compile_filter(Filter(where="reasons match x"), now=NOW)
    with pytest.raises(AuditUnavailable):
        await archive.page(words)


async def test_without_an_index_the_log_is_read_all_the_same(tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    (tmp_path / INDEX).mkdir()
    store = await Store.open(tmp_path, clock=lambda: NOW)
    try:
        with archive_of(store) as archive:
            assert len(await archive.page(EVERYTHING)) == len(made("1"))
            with pytest.raises(AuditUnavailable, match="index"):
                await archive.asked(lambda answers: answers.top("client", 0, 1))
    finally:
        await store.close()

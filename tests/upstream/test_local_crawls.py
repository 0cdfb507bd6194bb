"""What a local server shows is read from a process of the crawl's own, which ends with it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.tools import Kind, Profile
from gateway.errors import ConfigError, UpstreamFailed
from gateway.upstream import local
from gateway.upstream.crawler import Crawler
from gateway.upstream.headers import SESSION
from gateway.upstream.local import LocalExchange
from gateway.upstream.settings import LocalSettings
from tests.servers.local import LISTED
from tests.upstream.sinks import Catalog
from tests.upstream.started import LOCAL, settings


@asynccontextmanager
async def crawling(one: LocalSettings) -> AsyncIterator[tuple[Crawler, Catalog]]:
    catalog = Catalog()
    crawler = Crawler([one], sink=catalog, clock=lambda: 1.0, recheck_s=900.0, start=LocalExchange)
    try:
        yield crawler, catalog
    finally:
        await crawler.aclose()


def processes(crawler: Crawler) -> int:
    exchange = crawler._watched[LOCAL].exchange
    assert isinstance(exchange, LocalExchange)
    return len(exchange._channels._open)


@pytest.mark.parametrize("jailed", [True, False], ids=["jailed", "bare"])
async def test_a_server_of_both_families_is_read_in_both(tmp_path: Path, jailed: bool) -> None:
    async with crawling(settings(tmp_path, "modern", jailed=jailed)) as (crawler, catalog):
        await crawler.crawl(LOCAL)
        for profile in Profile:
            assert set(catalog.digests(profile)) == set(LISTED)
        assert crawler.status()[0].profiles == frozenset(Profile)
        assert processes(crawler) == 0


async def test_a_server_of_the_older_family_is_read_in_it(tmp_path: Path) -> None:
    async with crawling(settings(tmp_path)) as (crawler, catalog):
        await crawler.crawl(LOCAL)
        assert crawler.status()[0].profiles == {Profile.LEGACY}
        assert {profile for _, profile, _ in catalog.lists} == {Profile.LEGACY}
        assert processes(crawler) == 0


async def test_a_server_that_is_silent_about_the_newer_family_is_taken_not_to_speak_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_DISCOVERY_S", 0.3)
    async with crawling(settings(tmp_path, "silent-about-discovery")) as (crawler, _):
        await crawler.crawl(LOCAL)
        assert crawler.status()[0].profiles == {Profile.LEGACY}


@pytest.mark.parametrize(
    ("how", "told", "idle_s"),
    [("dies", "the process has ended", 60.0), ("mute", "nothing within 0.5 s", 0.5)],
)
async def test_a_server_that_does_not_speak_fails_its_crawl(
    tmp_path: Path, how: str, told: str, idle_s: float
) -> None:
    async with crawling(settings(tmp_path, how, idle_s=idle_s)) as (crawler, catalog):
        with pytest.raises(UpstreamFailed, match=told):
            await crawler.crawl(LOCAL)
        assert catalog.lists == {}
        assert processes(crawler) == 0


async def test_a_server_that_may_not_be_started_says_why(tmp_path: Path) -> None:
    one = replace(settings(tmp_path), refused="no jail: bwrap not found")
    async with crawling(one) as (crawler, _):
        with pytest.raises(UpstreamFailed):
            await crawler.crawl(LOCAL)
        assert "no jail: bwrap not found" in crawler.status()[0].error


async def test_nobody_listens_to_a_local_server_for_ever(tmp_path: Path) -> None:
    async with crawling(settings(tmp_path, "modern")) as (crawler, catalog):
        running = asyncio.create_task(crawler.run())
        async with asyncio.timeout(60):
            while (LOCAL, Profile.MODERN, Kind.TOOL) not in catalog.lists or processes(crawler):
                await asyncio.sleep(0.02)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_conversation_has_a_process_and_its_session_no_other(tmp_path: Path) -> None:
    exchange = LocalExchange(settings(tmp_path))
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'
    )

    async def send(verb: str, session: str | None, body: bytes = b"") -> Any:
        return await exchange.send(verb, [] if session is None else [(SESSION, session)], body)

    try:
        begun = await send("POST", None, body)
        assert (await send("POST", "another", body)).status == 404
        assert (await send("GET", begun.session)).status == 404
        assert (await send("DELETE", begun.session)).status == 200
        assert (await send("POST", begun.session, body)).status == 404
    finally:
        await exchange.aclose()


async def test_no_server_is_started_where_nothing_starts_any(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="would have to be started"):
        Crawler([settings(tmp_path)], sink=Catalog(), clock=lambda: 1.0)

"""The crawler comes again in time and soon after news, and goes on whatever an upstream does."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from gateway.domain.tools import Kind, Profile, UpstreamId
from gateway.errors import AuditUnavailable, UnknownTool, UpstreamFailed
from gateway.upstream.crawler import Crawler
from gateway.upstream.settings import UpstreamSettings
from gateway.upstream.watched import CrawlStatus
from tests.servers.process import nobodys_port
from tests.servers.raw import Script, answers, hangs, raw_upstream, resets, streams
from tests.upstream.sinks import Catalog
from tests.upstream.speaking import (
    MODERN_RESULT,
    NOW,
    RAW,
    crawling,
    legacy,
    lists_read,
    modern,
    shows,
)


async def test_a_server_that_is_not_configured_is_unknown():
    async with crawling(hangs) as (crawler, _, _server):
        with pytest.raises(UnknownTool):
            await crawler.crawl(UpstreamId("other"))


async def test_two_crawls_of_one_server_do_not_overlap():
    open_now = most = 0
    inner = legacy(shows("a"))

    async def script(request: web.Request) -> web.StreamResponse:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(0.01)
        open_now -= 1
        return await inner(request)

    async with crawling(script) as (crawler, _, _server):
        await asyncio.gather(crawler.crawl(RAW), crawler.crawl(RAW))
    assert most == 1


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(crawler: Crawler) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(crawler.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_changed_list_is_read_again_soon_and_once_for_many_announcements():
    async with (
        crawling(legacy(shows("a")), debounce_s=0.3) as (crawler, catalog, server),
        running(crawler),
    ):
        await until(lambda: crawler.status()[0].seen_at is not None)
        server.script = legacy(shows("a", "evil"))
        for _ in range(5):
            crawler.announce(RAW, Kind.TOOL)
            await asyncio.sleep(0.02)
        await until(lambda: "evil" in catalog.digests(Profile.LEGACY))
        await asyncio.sleep(0.5)
    assert lists_read(server) == 2


async def test_lists_are_read_again_on_schedule():
    async with (
        crawling(legacy(shows("a")), recheck_s=0.05) as (crawler, catalog, server),
        running(crawler),
    ):
        await until(lambda: crawler.status()[0].seen_at is not None)
        server.script = legacy(shows("b"))
        await until(lambda: "b" in catalog.digests(Profile.LEGACY))


@pytest.mark.parametrize("bad", [resets, answers("<html>", status=502, media="text/html")])
async def test_an_upstream_that_was_down_is_tried_again(bad: Script):
    async with crawling(bad, recheck_s=0.05) as (crawler, catalog, server), running(crawler):
        await until(lambda: crawler.status()[0].error != "")
        server.script = legacy(shows("a"))
        await until(lambda: crawler.status()[0].seen_at is not None)
    assert crawler.status()[0].error == ""
    assert catalog.digests(Profile.LEGACY).keys() == {"a"}


class FullDisk(Catalog):
    """A sink that cannot take anything, and says so in two ways."""

    async def seen(self, *about: Any) -> Collection[str]:
        self.times += 1
        raise AuditUnavailable("no") if self.times % 2 else ValueError("no canonical form")


async def test_a_sink_that_fails_does_not_end_the_crawler():
    sink = FullDisk()
    async with (
        crawling(legacy(shows("a")), recheck_s=0.02, sink=sink) as (crawler, _, _server),
        running(crawler) as task,
    ):
        await until(lambda: sink.times >= 4)
        assert not task.done()


class BadForOne(Catalog):
    """A sink that meets a bug with what one server shows."""

    async def seen(self, *about: Any) -> Collection[str]:
        if about[0] == "bad":
            self.times += 1
            raise OverflowError("integer division result too large for a float")
        return await super().seen(*about)


async def test_a_bug_that_one_server_finds_stays_its_own():
    sink = BadForOne()
    async with raw_upstream(legacy(shows("a"))) as good, raw_upstream(legacy(shows("a"))) as bad:
        settings = [
            UpstreamSettings(server=UpstreamId("bad"), url=bad.url),
            UpstreamSettings(server=UpstreamId("good"), url=good.url),
        ]
        crawler = Crawler(settings, sink=sink, clock=lambda: NOW, recheck_s=0.02)
        await crawler.first_pass(10)
        async with running(crawler) as task:
            read = lists_read(good)
            await until(lambda: lists_read(good) > read + 2 and sink.times > 3)
            assert not task.done()
        broken, well = crawler.status()
        await crawler.aclose()
    assert "too large for a float" in broken.error
    assert (well.error, well.seen_at) == ("", NOW)


async def test_a_call_that_waits_for_a_list_which_meets_a_bug_is_refused():
    class Broken(Catalog):
        async def seen(self, *about: Any) -> Collection[str]:
            raise OverflowError

    async with crawling(legacy(shows("a")), sink=Broken()) as (crawler, _, _server):
        with pytest.raises(UpstreamFailed, match="cannot be read"):
            await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)


async def test_a_bug_in_looking_ahead_ends_neither_that_nor_the_crawls(monkeypatch):
    monkeypatch.setattr("gateway.upstream.crawler._PAUSE_S", 0.0)
    asked = 0

    def chance() -> float:
        nonlocal asked
        asked += 1
        raise OverflowError

    async with (
        crawling(legacy(shows("a")), chance=chance) as (crawler, _, _server),
        running(crawler) as task,
    ):
        await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)
        await until(lambda: asked > 2)
        assert not task.done()


async def test_the_first_pass_ends_when_all_were_tried():
    async with crawling(legacy(shows("a"))) as (crawler, catalog, server):
        await crawler.first_pass(10)
        assert catalog.digests(Profile.LEGACY).keys() == {"a"}
        async with running(crawler):
            await asyncio.sleep(0.1)
        assert lists_read(server) == 1


async def test_every_crawl_is_told_with_its_time_and_what_became_of_it():
    told = []

    def crawled(server, seconds, *, failed):
        told.append((str(server), seconds >= 0, failed))

    async with crawling(legacy(shows("a")), crawled=crawled) as (crawler, _, server):
        await crawler.first_pass(10)
        server.script = answers(status=500)
        await crawler._try(RAW)
    assert told == [(str(RAW), True, False), (str(RAW), True, True)]


async def test_the_first_pass_waits_for_no_upstream_longer_than_it_may():
    async with raw_upstream(legacy(shows("a"))) as good, raw_upstream(hangs) as bad:
        catalog = Catalog()
        settings = [
            UpstreamSettings(server=UpstreamId("bad"), url=bad.url),
            UpstreamSettings(server=UpstreamId("good"), url=good.url),
            UpstreamSettings(server=UpstreamId("gone"), url=f"http://127.0.0.1:{nobodys_port()}/"),
        ]
        crawler = Crawler(settings, sink=catalog, clock=lambda: NOW)
        await crawler.first_pass(0.5)
        await bad.until_left()
        await crawler.aclose()
    assert catalog.digests(Profile.LEGACY).keys() == {"a"}
    _, well, gone = crawler.status()
    assert well == CrawlStatus(
        server=UpstreamId("good"), seen_at=NOW, error="", profiles=frozenset({Profile.LEGACY})
    )
    assert "connection: ConnectFailed" in gone.error


def event(method: str) -> bytes:
    return b"data: " + json.dumps({"jsonrpc": "2.0", "method": method}).encode() + b"\n\n"


def says(verb: str, asked: bytes, *methods: str, otherwise: Script) -> Script:
    """Answer one kind of request with a stream of notifications that stays open."""
    news = streams(b": listening\n\n", *map(event, methods), then=hangs)

    async def script(request: web.Request) -> web.StreamResponse:
        if request.method == verb and asked in await request.read():
            return await news(request)
        return await otherwise(request)

    return script


async def test_a_legacy_server_that_says_itself_that_a_list_changed_is_read_again():
    script = says("GET", b"", "notifications/tools/list_changed", otherwise=legacy(shows("a")))
    async with crawling(script, debounce_s=0.05) as (crawler, _, server):
        await crawler.first_pass(10)
        async with running(crawler):
            await until(lambda: lists_read(server) == 2)
    (listening,) = [seen for seen in server.seen if seen.method == "GET"]
    assert listening.headers["mcp-session-id"] == "s1"
    openings = [seen.json for seen in server.seen if b'"initialize"' in seen.body]
    assert {} in [opening["params"]["capabilities"] for opening in openings]


async def test_a_modern_server_that_says_itself_that_a_list_changed_is_read_again():
    asked = b'"subscriptions/listen"'
    inner = modern(MODERN_RESULT)
    script = says("POST", asked, "notifications/prompts/list_changed", otherwise=inner)
    async with crawling(script, debounce_s=0.05) as (crawler, _, server):
        await crawler.first_pass(10)
        async with running(crawler):
            await until(lambda: lists_read(server) == 2)
    (listening,) = [seen for seen in server.seen if asked in seen.body]
    assert listening.json["params"]["notifications"] == {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
    }


async def test_what_the_first_pass_did_not_wait_for_is_tried_again_at_once():
    async with crawling(hangs) as (crawler, _, server):
        await crawler.first_pass(0.1)
        server.script = legacy(shows("a"))
        async with running(crawler):
            await until(lambda: crawler.status()[0].seen_at is not None)


async def test_other_news_and_streams_that_end_cause_no_crawl():
    script = says("GET", b"", "notifications/message", otherwise=legacy(shows("a")))
    async with crawling(script, debounce_s=0.01) as (crawler, _, server):
        await crawler.first_pass(10)
        async with running(crawler):
            await until(lambda: any(seen.method == "GET" for seen in server.seen))
            await asyncio.sleep(0.1)
        assert lists_read(server) == 1
        await server.until_left()

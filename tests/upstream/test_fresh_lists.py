"""A call relies on lists that were read recently; older ones are read again before it goes on."""

import asyncio
import json
import threading
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web

from gateway.domain.tools import Kind, Profile, UpstreamId
from gateway.errors import CredentialRequired, UnknownTool, UpstreamFailed, UpstreamResting
from gateway.upstream import listener, replies
from gateway.upstream.breaker import Breaker, Patience
from gateway.upstream.crawler import Crawler
from gateway.upstream.personal import People
from gateway.wire.jsontext import WireLimits
from gateway.wire.server_message import read_server_message
from gateway.wire.sse import data_event
from tests.servers.raw import answers, hangs
from tests.upstream.permits import Connected
from tests.upstream.speaking import (
    MODERN_RESULT,
    RAW,
    crawling,
    legacy,
    lists_read,
    modern,
    rpc_error,
    shows,
)


class Monotonic:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Monotonic:
    return Monotonic()


async def test_a_list_is_read_again_once_it_is_too_old(clock):
    async with crawling(legacy(shows("a")), monotonic=clock, fresh_s=60) as (crawler, seen, server):
        await crawler.crawl(RAW)
        clock.now += 59.9
        await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)
        assert lists_read(server) == 1
        server.script = legacy(shows("a", "evil"))
        clock.now += 0.1
        await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)
        assert lists_read(server) == 2
        assert seen.digests(Profile.LEGACY).keys() == {"a", "evil"}


async def test_what_was_never_read_is_read_first(clock):
    async with crawling(modern(MODERN_RESULT), monotonic=clock) as (crawler, seen, server):
        for kind in (Kind.TOOL, Kind.PROMPT, Kind.TEMPLATE, Kind.SERVER):
            await crawler.refresh(RAW, Profile.MODERN, kind)
        assert lists_read(server) == 1
        assert seen.digests(Profile.MODERN).keys() == {"a"}


@pytest.mark.parametrize(
    ("ttl", "lasts_s"),
    [
        *[(20_000, 20), (0, 10), (9_999_999, 60), (-1, 60), (True, 60), ("5", 60), (None, 60)],
        *[(10**400, 60), (-(10**400), 60)],
    ],
)
async def test_a_shorter_life_that_a_list_says_itself_counts(clock, ttl: Any, lasts_s: float):
    script = modern({**MODERN_RESULT, "ttlMs": ttl})
    async with crawling(script, monotonic=clock, fresh_s=60) as (crawler, _, server):
        await crawler.crawl(RAW)
        clock.now += lasts_s - 0.1
        await crawler.refresh(RAW, Profile.MODERN, Kind.TOOL)
        assert lists_read(server) == 1
        clock.now += 0.2
        await crawler.refresh(RAW, Profile.MODERN, Kind.TOOL)
        assert lists_read(server) == 2


async def test_of_several_pages_the_shortest_life_counts(clock):
    async def script(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        if message["method"] == "initialize":
            return rpc_error(message["id"], -32601, status=404)
        page = {**MODERN_RESULT, "ttlMs": 50_000}
        if message["method"] == "tools/list":
            second = "cursor" in message.get("params", {})
            page |= {"ttlMs": 30_000} if second else {"nextCursor": "2"}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": page})

    async with crawling(script, monotonic=clock, fresh_s=60) as (crawler, _, server):
        await crawler.crawl(RAW)
        clock.now += 31
        await crawler.refresh(RAW, Profile.MODERN, Kind.PROMPT)
        assert lists_read(server) == 2
        await crawler.refresh(RAW, Profile.MODERN, Kind.TOOL)
        assert lists_read(server) == 4


async def test_a_list_that_cannot_be_read_again_is_nothing_to_rely_on(clock):
    async with crawling(legacy(shows("a")), monotonic=clock, fresh_s=60) as (crawler, _, server):
        await crawler.crawl(RAW)
        clock.now += 60
        server.script = answers("<html>", status=502, media="text/html")
        with pytest.raises(UpstreamFailed, match="list cannot be read"):
            await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)
        before = len(server.seen)
        with pytest.raises(UpstreamFailed):
            await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)
        assert len(server.seen) == before, "one attempt a second is enough"
        server.script = legacy(shows("a"))
        clock.now += 1
        await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)


async def test_one_list_that_fails_ends_no_call_that_relies_on_another(clock):
    script = legacy(lambda method, params: {"tools": []})
    async with crawling(script, monotonic=clock) as (crawler, _, _server):
        await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)
        with pytest.raises(UpstreamFailed) as told:
            await crawler.refresh(RAW, Profile.LEGACY, Kind.PROMPT)
        assert "legacy, list of prompt" in told.value.detail


async def test_many_calls_at_once_read_the_list_once(clock):
    async with crawling(legacy(shows("a")), monotonic=clock) as (crawler, _, server):
        waiting = [crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL) for _ in range(20)]
        await asyncio.gather(*waiting)
        assert lists_read(server) == 1


async def test_a_family_that_is_not_spoken_has_no_list_to_rely_on(clock):
    async with crawling(legacy(shows("a")), monotonic=clock) as (crawler, _, _server):
        with pytest.raises(UpstreamFailed):
            await crawler.refresh(RAW, Profile.MODERN, Kind.TOOL)


async def test_a_call_waits_only_so_long(clock, monkeypatch):
    monkeypatch.setattr("gateway.upstream.crawler._PATIENCE_S", 0.05)
    async with crawling(hangs, monotonic=clock) as (crawler, _, _server):
        with pytest.raises(UpstreamFailed):
            await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)


@pytest.mark.parametrize("per_person", [True, False])
async def test_that_a_list_is_not_shown_to_us_is_no_look_at_it(clock, per_person: bool):
    script, people = answers("{}", status=401), People(Connected())
    settings = {"per_person": per_person}
    async with crawling(script, settings=settings, people=people, monotonic=clock) as found:
        crawler, _, _server = found
        with suppress(CredentialRequired):
            await crawler.crawl(RAW)
        with pytest.raises(UpstreamFailed):
            await crawler.refresh(RAW, Profile.MODERN, Kind.TOOL)


async def test_a_server_that_is_not_configured_has_no_list():
    async with crawling(hangs) as (crawler, _, _server):
        with pytest.raises(UnknownTool):
            await crawler.refresh(UpstreamId("other"), Profile.MODERN, Kind.TOOL)


def breaker_of(clock: Monotonic, failures: int) -> Breaker:
    patience = Patience(failures=failures, rest_s=10)
    return Breaker(RAW, patience, clock=clock, jitter=lambda: 0.0)


async def refused(crawler: Crawler) -> type[UpstreamFailed] | None:
    try:
        await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)
    except UpstreamFailed as error:
        return type(error)
    return None


async def test_no_call_waits_for_a_list_of_a_server_that_is_left_alone(clock):
    breaker = breaker_of(clock, failures=2)
    down = answers("<html>", status=503, media="text/html")
    kept = {"monotonic": clock, "fresh_s": 60, "breakers": {RAW: breaker}}
    async with crawling(down, **kept) as (crawler, _, server):
        for _ in range(2):
            assert await refused(crawler) is UpstreamFailed
            clock.now += 2
        seen = len(server.seen)
        assert await refused(crawler) is UpstreamResting
        assert len(server.seen) == seen
        server.script = legacy(shows("a"))
        clock.now += 10
        assert await refused(crawler) is None
        assert breaker.is_open  # what a list says of calls is little
        clock.now += 60
        assert await refused(crawler) is None


async def test_a_caller_who_goes_away_leaves_the_trial_of_a_list_to_the_next(clock):
    breaker = breaker_of(clock, failures=1)
    down = answers("<html>", status=503, media="text/html")
    async with crawling(down, monotonic=clock, breakers={RAW: breaker}) as (crawler, _, server):
        assert await refused(crawler) is UpstreamFailed
        clock.now += 10
        server.script = hangs
        seen = len(server.seen)
        waiting = asyncio.create_task(refused(crawler))
        await server.until_seen(seen + 1)
        waiting.cancel()
        await asyncio.wait([waiting])
        server.script = legacy(shows("a"))
        clock.now += 1
        assert await refused(crawler) is None


async def test_a_caller_in_a_family_that_the_server_does_not_speak_harms_nobody_else(clock):
    breaker = breaker_of(clock, failures=2)
    kept = {"monotonic": clock, "fresh_s": 60, "breakers": {RAW: breaker}}
    async with crawling(legacy(shows("a")), **kept) as (crawler, _, _):
        for _ in range(3):
            clock.now += 2
            with pytest.raises(UpstreamFailed):
                await crawler.refresh(RAW, Profile.MODERN, Kind.TOOL)
        assert breaker.count() == 0
        clock.now += 2
        assert await refused(crawler) is None


@pytest.mark.parametrize(("size", "leaves"), [(1, False), (5_000, True)])
async def test_what_is_said_of_lists_at_length_is_read_beside_the_loop(monkeypatch, size, leaves):
    ran = set()

    def noting(data, limits):
        ran.add(threading.get_ident())
        return read_server_message(data, limits)

    monkeypatch.setattr(replies, "read_server_message", noting)
    said = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    event = data_event(json.dumps({**said, "params": {"a": [0] * size}}).encode())
    assert await listener._changed(RAW, event, WireLimits()) == (Kind.TOOL,)
    assert (threading.get_ident() not in ran) is leaves

"""A list that stays as it was costs one request: nothing of it is read, compared or written anew."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from gateway.domain.tools import Kind, Profile
from gateway.errors import UpstreamFailed
from gateway.upstream import crawler as crawling_room
from gateway.upstream.crawler import Crawler
from gateway.upstream.settings import UpstreamSettings
from gateway.upstream.watched import Read, Watched
from tests.servers.raw import RawUpstream, Script
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
from tests.upstream.test_fresh_lists import Monotonic

TOOLS = (Profile.LEGACY, Kind.TOOL)


@pytest.fixture
def clock() -> Monotonic:
    return Monotonic()


async def look(crawler: Crawler, clock: Monotonic, profile: Profile = Profile.LEGACY) -> None:
    clock.now += 60
    await crawler.refresh(RAW, profile, Kind.TOOL)


def asked(server: RawUpstream, method: str) -> int:
    return sum(f'"{method}"'.encode() in seen.body for seen in server.seen)


async def test_a_list_of_the_same_bytes_is_not_compared_again(clock: Monotonic) -> None:
    async with crawling(legacy(shows("a")), monotonic=clock) as (crawler, catalog, server):
        await look(crawler, clock)
        times = catalog.times
        for count in range(2, 5):
            await look(crawler, clock)
            assert (catalog.times, lists_read(server)) == (times, count)
        server.script = legacy(shows("a", "evil"))
        await look(crawler, clock)
        assert catalog.digests(Profile.LEGACY).keys() == {"a", "evil"}


async def test_the_same_bytes_are_compared_with_other_pins(clock: Monotonic) -> None:
    """Or else a person could approve what a client was shown, and nobody saw that we are not."""
    async with crawling(legacy(shows("a")), monotonic=clock) as (crawler, catalog, _):
        await look(crawler, clock)
        times = catalog.times
        catalog.pins += 1
        await look(crawler, clock)
        assert catalog.times == times + 1


async def test_what_a_list_holds_that_is_not_in_force_is_told_as_long_as_it_stays(
    clock: Monotonic,
) -> None:
    async with crawling(legacy(shows("a")), monotonic=clock) as (crawler, catalog, server):
        catalog.apart = {"a", ""}
        for _ in range(3):  # read, the same bytes again, and not read at all
            clock.now += 30
            assert set(await crawler.refresh(RAW, *TOOLS)) == {"a", ""}
        assert lists_read(server) == 2
        catalog.apart = ()
        catalog.pins += 1
        clock.now += 60
        assert set(await crawler.refresh(RAW, *TOOLS)) == set()


def shaped(shape: Callable[[str, str], str]) -> Script:
    """Speak 2026-07-28 only, each response as `shape` writes it of an id and a result."""

    async def script(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        if message["method"] == "initialize":
            return web.json_response({"jsonrpc": "2.0", "id": None, "error": {}}, status=404)
        text = shape(json.dumps(message["id"]), json.dumps(MODERN_RESULT))
        return web.Response(text=text, content_type="application/json")

    return script


def echo(id_: str, result: str) -> str:
    return f'{{"odd":{{"id":{id_}}},{result[1:]}'


@pytest.mark.parametrize(
    ("shape", "again"),
    [
        (lambda id_, result: f'{{"jsonrpc":"2.0","id":{id_},"result":{result}}}', False),
        (lambda id_, result: f'{{ "id" : {id_}, "jsonrpc": "2.0", "result":{result}}}', False),
        (lambda id_, result: f'{{"result":{result},"jsonrpc":"2.0","id":{id_}}}\n', False),
        (lambda id_, result: f'{{"result":{result},"id":{id_},"jsonrpc":"2.0"}}', False),
        (lambda id_, result: f'{{"\\u0069d":{id_},"result":{result},"jsonrpc":"2.0"}}', True),
        (lambda id_, result: f'{{"jsonrpc":"2.0","id":{id_},"result":{echo(id_, result)}}}', True),
        (lambda id_, result: f'{{"result":{echo(id_, result)},"jsonrpc":"2.0","id":{id_}}}', True),
    ],
)
async def test_only_the_id_may_differ_where_it_plainly_is_the_id(
    clock: Monotonic, shape: Callable[[str, str], str], again: bool
) -> None:
    async with crawling(shaped(shape), monotonic=clock) as (crawler, catalog, _):
        await look(crawler, clock, Profile.MODERN)
        times = catalog.times
        await look(crawler, clock, Profile.MODERN)
        assert (catalog.times > times) is again


def tagged(etag: str, results: dict[str, dict[str, Any]]) -> Script:
    """Speak 2026-07-28 with an `ETag` on each page, by its cursor."""

    async def script(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        if message["method"] == "initialize":
            return web.json_response({"jsonrpc": "2.0", "id": None, "error": {}}, status=404)
        result = {**MODERN_RESULT}
        if message["method"] == "tools/list":
            cursor = message["params"].get("cursor", "")
            result |= results[cursor]
            current = etag.replace("N", str(len(json.dumps(result))))
            if request.headers.get("if-none-match") == current:
                return web.Response(status=304)
            return web.json_response(
                {"jsonrpc": "2.0", "id": message["id"], "result": result}, headers={"ETag": current}
            )
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})

    return script


def conditions(server: RawUpstream) -> list[str | None]:
    return [
        seen.headers.get("if-none-match") for seen in server.seen if b'"tools/list"' in seen.body
    ]


async def test_a_server_with_etags_need_not_send_its_list_again(clock: Monotonic) -> None:
    pages: dict[str, dict[str, Any]] = {"": {"nextCursor": "2"}, "2": {"tools": []}}
    async with crawling(tagged('"vN"', pages), monotonic=clock) as (crawler, catalog, server):
        await look(crawler, clock, Profile.MODERN)
        times = catalog.times
        await look(crawler, clock, Profile.MODERN)
        assert catalog.times == times
        assert None not in conditions(server)[2:]
        pages["2"] = {"tools": [{"name": "evil", "inputSchema": {"type": "object"}}]}
        await look(crawler, clock, Profile.MODERN)
        assert catalog.digests(Profile.MODERN).keys() == {"a", "evil"}
        catalog.pins += 1
        await look(crawler, clock, Profile.MODERN)
        assert conditions(server)[-2:] == [None, None], "what was not sent cannot be compared"


@pytest.mark.parametrize("etag", ['W/"N"', "N", '"N' + "x" * 300 + '"'])
async def test_an_etag_that_does_not_stand_for_the_very_bytes_is_not_used(
    clock: Monotonic, etag: str
) -> None:
    async with crawling(tagged(etag, {"": {}}), monotonic=clock) as (crawler, _, server):
        for _ in range(3):
            await look(crawler, clock, Profile.MODERN)
        assert conditions(server) == [None] * 3


async def test_nothing_has_changed_is_no_answer_to_who_did_not_ask_it(clock: Monotonic) -> None:
    inner = modern(MODERN_RESULT)

    async def script(request: web.Request) -> web.StreamResponse:
        lists = b'"tools/list"' in await request.read()
        return web.Response(status=304) if lists else await inner(request)

    async with crawling(script, monotonic=clock) as (crawler, _, _server):
        with pytest.raises(UpstreamFailed):
            await look(crawler, clock, Profile.MODERN)


async def test_looks_share_a_session_which_begins_anew_now_and_then(clock: Monotonic) -> None:
    async with crawling(legacy(shows("a")), monotonic=clock) as (crawler, _, server):
        for _ in range(5):
            await look(crawler, clock)
        assert asked(server, "initialize") == 1
        await look(crawler, clock)
        assert asked(server, "initialize") == 2
        clock.now += 1
        await crawler.refresh(RAW, Profile.LEGACY, Kind.SERVER)
        assert asked(server, "initialize") == 2, "a handshake says it too"


async def test_a_session_that_the_server_has_forgotten_begins_anew(clock: Monotonic) -> None:
    inner = legacy(shows("a"))
    known: list[bool] = [True]

    async def script(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if b'"initialize"' in body:
            known[0] = True
        if "mcp-session-id" in request.headers and not known[0]:
            return web.Response(status=404)
        return await inner(request)

    async with crawling(script, monotonic=clock) as (crawler, _, server):
        await look(crawler, clock)
        known[0] = False
        await look(crawler, clock)
        assert asked(server, "initialize") == 2


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def test_what_calls_rely_on_is_looked_at_before_they_have_to_wait() -> None:
    async with crawling(legacy(shows("a")), fresh_s=2.0, chance=lambda: 1.0) as found:
        crawler, _, server = found
        running = asyncio.create_task(crawler.run())
        await until(lambda: crawler.status()[0].seen_at is not None)
        count = lists_read(server)
        await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)
        assert lists_read(server) == count
        await until(lambda: lists_read(server) > count)
        watched = crawler.known[RAW]
        await until(lambda: watched.read[TOOLS].began > watched.used[TOOLS])
        assert crawler._due(watched) is None, "nobody has relied on what was read last"
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.parametrize(("chance", "after_s"), [(0.0, 51.0), (1.0, 36.0)])
async def test_servers_are_not_all_looked_at_in_one_instant(
    clock: Monotonic, chance: float, after_s: float
) -> None:
    async with crawling(legacy(shows("a")), monotonic=clock, chance=lambda: chance) as found:
        crawler, _, _server = found
        await crawler.crawl(RAW)
        await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)
        due = crawler._due(crawler.known[RAW])
        assert due is not None
        assert due[0] == TOOLS
        assert due[1] == pytest.approx(after_s)


async def test_a_slow_servers_list_is_there_for_the_next_call(
    clock: Monotonic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawling_room, "_PATIENCE_S", 0.05)
    gate, inner = asyncio.Event(), legacy(shows("a"))

    async def script(request: web.Request) -> web.StreamResponse:
        if b'"tools/list"' in await request.read():
            await gate.wait()
        return await inner(request)

    async with crawling(script, monotonic=clock) as (crawler, _, server):
        with pytest.raises(UpstreamFailed, match="list cannot be read"):
            await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)
        gate.set()
        await until(lambda: TOOLS in crawler.known[RAW].read)
        await crawler.refresh(RAW, Profile.LEGACY, Kind.TOOL)
        assert lists_read(server) == 1


async def test_whoever_takes_over_knows_what_was_known(clock: Monotonic) -> None:
    async with crawling(legacy(shows("a")), monotonic=clock) as (crawler, catalog, server):
        await crawler.crawl(RAW)
        before, seen = crawler.known[RAW], len(server.seen)

        def following(**changed: Any) -> Crawler:
            return Crawler(
                [replace(before.settings, **changed)],
                sink=Catalog(),
                clock=lambda: NOW,
                monotonic=clock,
                known=crawler.known,
            )

        same, other = following(), following(extensions=frozenset({"x/y"}))
        await same.first_pass(10)
        await same.refresh(RAW, *TOOLS)
        assert same.status() == crawler.status()
        assert len(server.seen) == seen, "nothing has changed that could be asked for"
        await other.refresh(RAW, *TOOLS)
        assert len(server.seen) > seen, "another way to a server is another one"
        await other.aclose()
        await crawler.aclose()
        clock.now += 60
        await same.refresh(RAW, *TOOLS)
        crawler.known[RAW].holders += 1  # which the fixture takes back
        await same.aclose()
        assert catalog.times > 0


async def test_what_is_read_still_is_compared_by_whoever_takes_over(
    clock: Monotonic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was begun by another configuration, and its sink compares as that one says."""
    monkeypatch.setattr(crawling_room, "_PATIENCE_S", 0.05)
    gate, inner = asyncio.Event(), legacy(shows("a"))

    async def script(request: web.Request) -> web.StreamResponse:
        if b'"tools/list"' in await request.read():
            await gate.wait()
        return await inner(request)

    async with crawling(script, monotonic=clock) as (crawler, catalog, _):
        with pytest.raises(UpstreamFailed):
            await crawler.refresh(RAW, *TOOLS)
        watched, sink = crawler.known[RAW], Catalog()
        later = Crawler(
            [watched.settings],
            sink=sink,
            clock=lambda: NOW,
            monotonic=clock,
            known=crawler.known,
        )
        crawler.hand_over()
        clock.now += 2  # nobody tries again at once
        with pytest.raises(UpstreamFailed):
            await later.refresh(RAW, *TOOLS)
        watched.holders += 1  # which the fixture takes back
        await crawler.aclose()
        gate.set()
        await until(lambda: TOOLS in watched.read)
        assert catalog.digests(Profile.LEGACY) == {}
        assert sink.digests(Profile.LEGACY).keys() == {"a"}
        await later.aclose()


def test_what_was_asked_for_earlier_replaces_nothing() -> None:
    watched = Watched(UpstreamSettings(server=RAW, url="http://127.0.0.1:9/mcp"))
    watched.note(TOOLS, Read(began=2.0))
    watched.note(TOOLS, Read(began=1.0))
    assert watched.read[TOOLS].began == 2.0

"""The crawler asks as each family wants it, and hands over whole lists or none."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from gateway.domain.tools import Kind, Profile
from gateway.errors import CredentialRequired, UpstreamFailed
from gateway.upstream import reading
from gateway.upstream.lists import ListLimits
from gateway.upstream.settings import Limits, Timeouts
from gateway.upstream.watched import CrawlStatus
from gateway.wire.extensions import UI
from tests.servers.raw import answers, hangs, streams
from tests.upstream.speaking import (
    MODERN_RESULT,
    NOTHING,
    NOW,
    RAW,
    SERVER,
    Respond,
    crawling,
    legacy,
    modern,
    shows,
    tool,
)
from tests.upstream.test_fresh_lists import Monotonic


async def test_a_legacy_server_is_read_in_a_session_that_is_ended():
    async with crawling(legacy(shows("a", "b"))) as (crawler, catalog, server):
        await crawler.crawl(RAW)
    assert catalog.lists == {
        (RAW, Profile.LEGACY, Kind.SERVER): [SERVER],
        (RAW, Profile.LEGACY, Kind.TOOL): [tool("a"), tool("b")],
        (RAW, Profile.LEGACY, Kind.PROMPT): [],
        (RAW, Profile.LEGACY, Kind.TEMPLATE): [],
    }
    assert catalog.versions == {"7"}
    assert crawler.status() == (
        CrawlStatus(server=RAW, seen_at=NOW, error="", profiles=frozenset({Profile.LEGACY})),
    )
    _, opening, *rest = server.seen
    assert opening.json["params"]["capabilities"].keys() == {"elicitation", "roots", "sampling"}
    assert [
        (
            seen.method,
            seen.json["method"] if seen.body else "",
            seen.headers["mcp-session-id"],
            seen.headers["mcp-protocol-version"],
        )
        for seen in rest
    ] == [
        ("POST", "notifications/initialized", "s1", "2025-11-25"),
        ("POST", "tools/list", "s1", "2025-11-25"),
        ("POST", "prompts/list", "s1", "2025-11-25"),
        ("POST", "resources/templates/list", "s1", "2025-11-25"),
        ("DELETE", "", "s1", "2025-11-25"),
    ]


async def test_a_modern_server_is_asked_as_its_revision_wants_it():
    async with crawling(modern(MODERN_RESULT)) as (crawler, catalog, server):
        await crawler.crawl(RAW)
    capabilities = MODERN_RESULT["capabilities"]
    assert catalog.lists[RAW, Profile.MODERN, Kind.SERVER] == [
        {**SERVER, "capabilities": capabilities}
    ]
    assert catalog.lists[RAW, Profile.MODERN, Kind.TOOL] == [tool("a")]
    assert crawler.status()[0].profiles == {Profile.MODERN}
    for seen in server.seen[:4]:
        meta = seen.json["params"]["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert meta["io.modelcontextprotocol/clientCapabilities"].keys() == {
            "elicitation",
            "roots",
            "sampling",
        }
        assert seen.headers["mcp-protocol-version"] == "2026-07-28"
        assert seen.headers["mcp-method"] == seen.json["method"]


async def test_a_server_that_offers_another_modern_revision_is_not_taken_for_one_we_know():
    result = {**MODERN_RESULT, "supportedVersions": ["2099-01-01"]}
    async with crawling(modern(result)) as (crawler, catalog, _):
        with pytest.raises(UpstreamFailed, match="speaks no revision"):
            await crawler.crawl(RAW)
    assert catalog.lists == {}


async def test_pages_are_read_to_the_end():
    def respond(method: str, params: dict[str, Any]) -> Any:
        page = int(params.get("cursor", "0"))
        more = {"nextCursor": str(page + 1)} if page < 3 else {}
        return {**NOTHING, "tools": [tool(f"t{page}")], **more}

    async with crawling(legacy(respond)) as (crawler, catalog, _):
        await crawler.crawl(RAW)
    tools = catalog.lists[RAW, Profile.LEGACY, Kind.TOOL]
    assert [item["name"] for item in tools] == ["t0", "t1", "t2", "t3"]


def endless(method: str, params: dict[str, Any]) -> Any:
    following = str(int(params.get("cursor", "0")) + 1)
    return {**NOTHING, "tools": [tool(following)], "nextCursor": following}


def circular(method: str, params: dict[str, Any]) -> Any:
    following = "b" if params.get("cursor") == "a" else "a"
    return {**NOTHING, "tools": [tool("x")], "nextCursor": following}


def malformed(method: str, params: dict[str, Any]) -> Any:
    return {"tools": {"a": 1}, "prompts": None}


def wrong_cursor(method: str, params: dict[str, Any]) -> Any:
    return NOTHING if params else {**NOTHING, "tools": [tool("x")], "nextCursor": 1}


def long_cursor(method: str, params: dict[str, Any]) -> Any:
    return NOTHING if params else {**NOTHING, "tools": [tool("x")], "nextCursor": "c" * 8193}


def failing_page(method: str, params: dict[str, Any]) -> Any:
    if "cursor" in params:
        return web.Response(status=500)
    return {**NOTHING, "tools": [tool("x")], "nextCursor": "1"}


@pytest.mark.parametrize(
    ("respond", "limits", "error"),
    [
        (endless, ListLimits(pages=5), "tools/list: more than 5 pages"),
        (endless, ListLimits(items=5), "tools/list: more than 5 items"),
        (endless, ListLimits(list_bytes=500), "tools/list: more than 500 bytes"),
        (circular, ListLimits(), "tools/list: the cursor is malformed or was used before"),
        (wrong_cursor, ListLimits(), "tools/list: the cursor is malformed or was used before"),
        (long_cursor, ListLimits(), "used before, or is too long"),
        (malformed, ListLimits(), "tools/list: the result has no list 'tools'"),
        (failing_page, ListLimits(), "status 500"),
    ],
)
async def test_a_list_that_cannot_be_read_to_its_end_is_not_handed_over_at_all(
    respond: Respond, limits: ListLimits, error: str
):
    def only_tools_are_bad(method: str, params: dict[str, Any]) -> Any:
        return respond(method, params) if method == "tools/list" else NOTHING

    async with crawling(legacy(only_tools_are_bad), limits=limits) as (crawler, catalog, _):
        with pytest.raises(UpstreamFailed, match=error):
            await crawler.crawl(RAW)
    assert {kind for _, _, kind in catalog.lists} == {Kind.SERVER, Kind.PROMPT, Kind.TEMPLATE}
    (status,) = crawler.status()
    assert error in status.error
    assert status.seen_at is None


async def test_a_list_that_a_server_neither_declares_nor_knows_is_empty():
    def respond(method: str, params: dict[str, Any]) -> Any:
        return {"tools": []} if method == "tools/list" else -32601

    async with crawling(legacy(respond)) as (crawler, catalog, _):
        await crawler.crawl(RAW)
    assert catalog.lists[RAW, Profile.LEGACY, Kind.PROMPT] == []


async def test_a_list_that_is_not_declared_may_still_not_fail():
    def respond(method: str, params: dict[str, Any]) -> Any:
        return NOTHING if method == "tools/list" else web.json_response({}, status=500)

    async with crawling(legacy(respond)) as (crawler, catalog, _):
        with pytest.raises(UpstreamFailed, match="prompts/list: status 500"):
            await crawler.crawl(RAW)
    assert (RAW, Profile.LEGACY, Kind.PROMPT) not in catalog.lists


async def test_a_declared_list_that_is_not_answered_is_an_error():
    def respond(method: str, params: dict[str, Any]) -> Any:
        return -32601 if method == "tools/list" else NOTHING

    async with crawling(legacy(respond)) as (crawler, catalog, _):
        with pytest.raises(UpstreamFailed, match="tools/list: status 200, error -32601"):
            await crawler.crawl(RAW)
    assert (RAW, Profile.LEGACY, Kind.TOOL) not in catalog.lists


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":"douane-1","result":{"a":1,"a":2}}',
        b'{"jsonrpc":"2.0","id":"other","result":{}}',
        b'{"id":"douane-1","result":{}}',
        b'{"jsonrpc":"2.0","id":"douane-1","result":[]}',
        b'{"jsonrpc":"2.0","id":"douane-1","result":{"resultType":"input_required"}}',
        b'[{"jsonrpc":"2.0","id":"douane-1","result":{}}]',
        b"",
        b"{" * 100,
    ],
)
async def test_an_answer_that_is_not_our_response_is_a_fault(text: bytes):
    async with crawling(answers(text)) as (crawler, catalog, _):
        with pytest.raises(UpstreamFailed, match=r"modern: .*; legacy: "):
            await crawler.crawl(RAW)
    assert catalog.lists == {}


async def test_other_messages_on_a_stream_are_passed_over():
    noise = b'data: {"jsonrpc":"2.0","id":"douane-1","method":"roots/list"}\n\n: hm\n\n'
    about = json.dumps({"jsonrpc": "2.0", "id": "douane-1", "result": MODERN_RESULT}).encode()
    plain = modern(MODERN_RESULT)

    async def script(request: web.Request) -> web.StreamResponse:
        if b"server/discover" in await request.read():
            return await streams(noise, b"data: " + about + b"\n\n", then=hangs)(request)
        return await plain(request)

    async with crawling(script) as (crawler, catalog, server):
        await crawler.crawl(RAW)
        await server.until_left()
    assert catalog.lists[RAW, Profile.MODERN, Kind.TOOL] == [tool("a")]


async def test_a_stream_that_ends_without_our_response_is_a_fault():
    async with crawling(streams(b": hello\n\n")) as (crawler, _, _server):
        with pytest.raises(UpstreamFailed, match="ended without a response"):
            await crawler.crawl(RAW)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25\r\nx: y", 7, None, {"a": 1}])
async def test_a_revision_that_we_do_not_know_is_a_fault(revision: Any):
    opening = {"protocolVersion": revision, "capabilities": {}, "serverInfo": {}}

    async def script(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read() or b"{}")
        if message.get("method") != "initialize":
            return web.Response(status=404)
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": opening}
        return web.json_response(answer, headers={"Mcp-Session-Id": "s1"})

    async with crawling(script) as (crawler, catalog, _):
        with pytest.raises(UpstreamFailed, match="a revision that the gateway does not know"):
            await crawler.crawl(RAW)
    assert catalog.lists == {}


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_an_upstream_that_is_unwell_is_not_taken_for_one_of_the_other_family(status: int):
    async with crawling(answers("{}", status=status)) as (crawler, _, _server):
        with pytest.raises(UpstreamFailed, match=f"status {status}"):
            await crawler.crawl(RAW)


async def test_a_missing_credential_is_told_as_such():
    async with crawling(answers("{}", status=401)) as (crawler, _, server):
        with pytest.raises(CredentialRequired):
            await crawler.crawl(RAW)
    assert len(server.seen) == 1
    assert "credential" in crawler.status()[0].error


async def test_an_upstream_that_drips_does_not_hold_a_crawl_up():
    async def drips(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(b": wait\n\n")
            await asyncio.sleep(0.02)

    settings = {"timeouts": Timeouts(idle_s=0.2)}
    async with crawling(drips, settings=settings) as (crawler, _, _server):
        with pytest.raises(UpstreamFailed, match="hard maximum"):
            await crawler.crawl(RAW)


async def test_a_server_that_does_not_take_leave_does_not_hold_a_crawl_up():
    inner = legacy(shows("a"))

    async def script(request: web.Request) -> web.StreamResponse:
        return await (hangs if request.method == "DELETE" else inner)(request)

    async with crawling(script) as (crawler, catalog, server), asyncio.timeout(60):
        await crawler.crawl(RAW)
        await server.until_left()
    assert catalog.digests(Profile.LEGACY).keys() == {"a"}


async def test_a_handshake_that_is_not_accepted_is_a_fault():
    inner = legacy(shows("a"))

    async def script(request: web.Request) -> web.StreamResponse:
        if b"notifications/initialized" in await request.read():
            return web.Response(status=400)
        return await inner(request)

    async with crawling(script) as (crawler, catalog, _):
        with pytest.raises(UpstreamFailed, match="notifications/initialized: status 400"):
            await crawler.crawl(RAW)
    assert catalog.lists == {}


async def test_json_that_nests_too_deep_is_a_fault():
    deep = b'{"jsonrpc":"2.0","id":"douane-1","result":' + b"[" * 9 + b"]" * 9 + b"}"
    settings = {"limits": Limits(json_depth=9)}
    async with crawling(answers(deep), settings=settings) as (crawler, _, _server):
        with pytest.raises(UpstreamFailed, match="nested deeper than 9 levels"):
            await crawler.crawl(RAW)


INTERFACE = "ui://raw/inbox"
WITH_INTERFACE = {**tool("a"), "_meta": {"ui": {"resourceUri": INTERFACE}}}
MORE = {**tool("b"), "_meta": {"ui/resourceUri": "ui://raw/gone"}}


def with_interfaces(method: str, params: dict[str, Any]) -> Any:
    if method == "resources/read":
        page = {"contents": [{"uri": params["uri"], "text": "<b>"}]}
        return page if params["uri"] == INTERFACE else -32002
    return {**NOTHING, "tools": [WITH_INTERFACE, MORE]}


async def test_interfaces_that_tools_name_are_read_where_that_extension_is_approved():
    apps = {"extensions": frozenset({UI})}
    async with crawling(legacy(with_interfaces), settings=apps) as (crawler, catalog, server):
        with pytest.raises(UpstreamFailed, match="resources/read: status 200, error -32002"):
            await crawler.crawl(RAW)
    (shown,) = catalog.lists[RAW, Profile.LEGACY, Kind.RESOURCE]
    assert shown["uri"] == INTERFACE
    assert shown["contents"][0]["text"]["bytes"] == len("<b>")
    declared = server.seen[1].json["params"]["capabilities"]["extensions"]
    assert declared == {UI: {"mimeTypes": ["text/html;profile=mcp-app"]}}
    assert [item["name"] for item in catalog.lists[RAW, Profile.LEGACY, Kind.TOOL]] == ["a", "b"]


async def test_interfaces_are_not_read_where_nobody_may_show_them():
    async with crawling(legacy(with_interfaces)) as (crawler, catalog, server):
        await crawler.crawl(RAW)
    assert not any(b"resources/read" in seen.body for seen in server.seen)
    assert (RAW, Profile.LEGACY, Kind.RESOURCE) not in catalog.lists


async def test_interfaces_are_read_again_though_the_list_that_names_them_stays():
    html, clock, broken = ["<b>"], Monotonic(), False

    def script(method: str, params: dict[str, Any]) -> Any:
        if method == "resources/read":
            page = {"contents": [{"uri": params["uri"], "text": html[0]}]}
            return -32002 if broken else page
        return {**NOTHING, "tools": [WITH_INTERFACE]}

    place = (RAW, Profile.LEGACY, Kind.RESOURCE)
    apps = {"extensions": frozenset({UI})}
    async with crawling(legacy(script), settings=apps, monotonic=clock) as (crawler, catalog, _):
        await crawler.refresh(*place)
        catalog.apart = {INTERFACE}
        html[0] = "<script>"
        assert set(await crawler.refresh(*place)) == set()  # it was looked at just now
        clock.now += 60
        assert set(await crawler.refresh(*place)) == {INTERFACE}
        (shown,) = catalog.lists[place]
        assert shown["contents"][0]["text"]["bytes"] == len(html[0])
        broken = True
        clock.now += 60
        with pytest.raises(UpstreamFailed, match="cannot be read"):
            await crawler.refresh(*place)
    async with crawling(legacy(script)) as (crawler, _, _server):
        with pytest.raises(UpstreamFailed, match="cannot be read"):
            await crawler.refresh(*place)  # nobody reads any here


async def test_of_many_interfaces_only_so_many_are_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "_MOST_INTERFACES", 1)
    apps = {"extensions": frozenset({UI})}
    async with crawling(legacy(with_interfaces), settings=apps) as (crawler, _, server):
        with pytest.raises(UpstreamFailed, match="more than 1 interfaces"):
            await crawler.crawl(RAW)
    assert sum(b"resources/read" in seen.body for seen in server.seen) == 1


async def test_a_modern_server_is_asked_for_an_interface_as_its_revision_wants_it():
    page = {"contents": [{"uri": INTERFACE, "text": "<b>"}]}
    script = modern({**MODERN_RESULT, **page, "tools": [WITH_INTERFACE]})
    apps = {"extensions": frozenset({UI})}
    async with crawling(script, settings=apps) as (crawler, catalog, server):
        await crawler.crawl(RAW)
    assert len(catalog.lists[RAW, Profile.MODERN, Kind.RESOURCE]) == 1
    (asked,) = (seen for seen in server.seen if b"resources/read" in seen.body)
    assert (asked.headers["mcp-method"], asked.headers["mcp-name"]) == ("resources/read", INTERFACE)
    meta = asked.json["params"]["_meta"]
    assert UI in meta["io.modelcontextprotocol/clientCapabilities"]["extensions"]

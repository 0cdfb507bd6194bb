"""A client of one family of revisions in front of a server of the other, and resources of both."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.builtin.homeward import Homeward
from gateway.domain.calls import Permit, RawAnswer, Reply
from gateway.domain.tools import Kind, Profile
from gateway.errors import UpstreamFailed
from gateway.wire.jsontext import WireLimits
from gateway.wire.sse import data_event
from tests.builtin.front import NOTES, Site, methods, sent, speaks
from tests.pipeline.house import ALICE, MAIL, Events, Seen, event, result, text

OLD: dict[str, Any] = {"profile": Profile.LEGACY, "session": "esr.1"}
STATED = "io.modelcontextprotocol/"
CALL = {"name": "mail__search", "arguments": {"q": "x"}}


async def site_of(profile: Profile) -> Site:
    return await Site(spoken=frozenset({profile})).furnish()


async def test_a_stateless_client_calls_a_server_with_sessions() -> None:
    site = await site_of(Profile.LEGACY)
    site.servers[MAIL].answer = speaks()
    meta = {f"{STATED}protocolVersion": "2026-07-28", f"{STATED}clientCapabilities": {}, "kept": 1}
    for id_ in (1, 2):
        params = {**CALL, "_meta": meta, "inputResponses": {}, "requestState": "x"}
        seen = await site.ask("tools/call", params, id_=id_)
        assert seen.json == {
            "jsonrpc": "2.0",
            "id": id_,
            "result": {**text("hello"), "resultType": "complete"},
        }
    assert methods(site.servers[MAIL]) == [
        "initialize",
        "notifications/initialized",
        "GET",
        "tools/call",
        "tools/call",
    ]
    last = site.servers[MAIL].saw[-1]
    assert sent(last)["params"] == {"name": "search", "arguments": {"q": "x"}, "_meta": {"kept": 1}}
    assert (last.session, dict(last.call.headers)["mcp-protocol-version"]) == ("s1", "2025-11-25")
    await site.aclose()


async def test_an_event_is_as_large_as_it_may_be_where_it_comes_in() -> None:
    site = await site_of(Profile.LEGACY)
    size = 5 << 20  # more than is read of a server that nothing else is said of

    def large(permit: Permit) -> RawAnswer:
        final = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": text("x" * size)}
        return Events([event(final)]).answer()

    site.servers[MAIL].answer = speaks(large)
    (told,) = (await site.ask("tools/call", CALL, **OLD)).messages
    assert len(told["result"]["content"][0]["text"]) == size


async def test_a_client_of_a_session_calls_a_stateless_server() -> None:
    site = await site_of(Profile.MODERN)
    site.servers[MAIL].answer = lambda permit: result(
        permit, {**text("hello"), "structuredContent": [1], "resultType": "complete", "ttlMs": 1}
    )
    seen = await site.ask("tools/call", CALL, **OLD)
    assert seen.json["result"] == text("hello")
    (permit,) = site.servers[MAIL].saw
    stated = sent(permit)["params"]["_meta"]
    assert stated[f"{STATED}clientCapabilities"] == {}
    assert stated[f"{STATED}clientInfo"]["name"] == "douane"
    assert permit.session is None
    assert dict(permit.call.headers) == {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "search",
    }


async def test_a_server_that_asks_a_client_that_cannot_be_asked_is_no_answer() -> None:
    site = await site_of(Profile.MODERN)
    ask = {"resultType": "input_required", "inputRequests": {}, "requestState": "x"}
    site.servers[MAIL].answer = lambda permit: result(permit, ask)
    told = (await site.ask("tools/call", CALL, **OLD)).json["result"]
    assert told["isError"] is True
    assert "requestState" not in told


async def test_questions_pass_between_stateless_client_and_server() -> None:
    site = await Site().furnish()
    ask = {"resultType": "input_required", "inputRequests": {}, "requestState": "s"}
    site.servers[MAIL].answer = lambda permit: result(permit, ask)
    given = (await site.ask("tools/call", CALL)).json["result"]
    assert given == {**ask, "requestState": given["requestState"]}
    again = {**CALL, "inputResponses": {"a": {}}}
    await site.ask("tools/call", {**again, "requestState": given["requestState"]})
    expected = {**again, "name": "search", "requestState": "s"}
    assert sent(site.servers[MAIL].saw[-1])["params"] == expected


async def test_what_one_person_is_asked_no_other_answers_at_either_endpoint() -> None:
    site = await Site().furnish()
    site.house.gate.people["bob"] = replace(ALICE, subject="bob", token_id="t2")
    asked = {"who": {"method": "elicitation/create", "params": {}}}
    ask = {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}
    site.servers[MAIL].answer = lambda permit: result(permit, ask)
    state = (await site.ask("tools/call", CALL)).json["result"]["requestState"]
    calls = len(site.servers[MAIL].saw)
    stolen: Mapping[str, Any]
    for stolen in ({"requestState": state}, {"inputResponses": {"who": {}}}, {"requestState": "s"}):
        seen = await site.ask("tools/call", {**CALL, **stolen}, who="bob")
        assert seen.json["error"]["code"] == -32602
    assert len(site.servers[MAIL].saw) == calls


@pytest.mark.parametrize(("code", "told"), [(-32002, -32602), (-32042, -32603), (-32000, -32000)])
async def test_a_code_that_the_stateless_revision_forbids_is_another_one(
    code: int, told: int
) -> None:
    site = await site_of(Profile.LEGACY)

    def fails(permit: Permit) -> RawAnswer:
        error = {"code": code, "message": "no", "data": 1}
        body = {"jsonrpc": "2.0", "id": permit.call.message.id, "error": error}
        return RawAnswer(
            status=200,
            headers=(("content-type", "application/json"),),
            session=None,
            body=json.dumps(body).encode(),
        )

    site.servers[MAIL].answer = speaks(fails)
    error = (await site.ask("tools/call", CALL)).json["error"]
    assert error == {"code": told, "message": "no", "data": 1}
    error = (await site.ask("tools/call", CALL, **OLD)).json["error"]
    assert error["code"] == code
    await site.aclose()


@pytest.mark.parametrize("wants", [True, False])
async def test_a_stateless_client_hears_of_logs_only_if_it_wants_to(wants: bool) -> None:
    site = await site_of(Profile.LEGACY)
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}}

    def streams(permit: Permit) -> RawAnswer:
        final = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": text("hello")}
        return Events([event(log), event(final)]).answer()

    site.servers[MAIL].answer = speaks(streams)
    meta = {f"{STATED}logLevel": "info"} if wants else {}
    seen = await site.ask("tools/call", {**CALL, "_meta": meta})
    assert len(seen.messages) == (2 if wants else 1)
    assert seen.messages[-1]["result"]["resultType"] == "complete"
    await site.aclose()


def with_resources(uris: Mapping[str | None, tuple[list[str], str | None]]) -> Any:
    """Answer resources/list by cursor, and resources/read with the URI that was read."""

    def answered(permit: Permit) -> RawAnswer:
        params = permit.call.message.params
        if permit.call.message.method == "resources/read":
            return result(permit, {"contents": [{"uri": params["uri"], "text": "x"}]})
        found, following = uris[params.get("cursor")]
        page: dict[str, Any] = {"resources": [{"uri": uri, "name": uri} for uri in found]}
        return result(permit, page if following is None else {**page, "nextCursor": following})

    return answered


@pytest.mark.parametrize("client", list(Profile))
@pytest.mark.parametrize("server", list(Profile))
async def test_resources_of_all_servers_are_listed_and_read_by_uris_of_ours(
    client: Profile, server: Profile
) -> None:
    site = await site_of(server)
    site.servers[MAIL].answer = speaks(with_resources({None: (["m:1"], "c"), "c": (["m:2"], None)}))
    site.servers[NOTES].answer = speaks(with_resources({None: (["file:///a%20b?c#d"], None)}))
    first = (await site.ask("resources/list", profile=client)).json["result"]
    cursor = {"cursor": first["nextCursor"]}
    second = (await site.ask("resources/list", cursor, profile=client)).json["result"]
    uris = [one["uri"] for page in (first, second) for one in page["resources"]]
    assert uris == ["douane://mail/m:1", "douane://notes/file:///a%20b?c#d", "douane://mail/m:2"]
    assert "nextCursor" not in second
    read = (await site.ask("resources/read", {"uri": uris[1]}, profile=client)).json["result"]
    assert read["contents"] == [{"uri": uris[1], "text": "x"}]
    assert sent(site.servers[NOTES].saw[-1])["params"]["uri"] == "file:///a%20b?c#d"
    if client is Profile.MODERN and server is Profile.LEGACY:
        assert (read["ttlMs"], read["cacheScope"]) == (0, "private")
    await site.aclose()


async def test_a_server_that_fails_or_hangs_takes_no_resources_of_others_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = await Site().furnish()
    site.servers[NOTES].answer = with_resources({None: (["n:1"], None)})

    def gone(_: Permit) -> RawAnswer:
        raise UpstreamFailed("it is gone")

    site.servers[MAIL].answer = gone
    assert await _uris(site) == ["douane://notes/n:1"]
    monkeypatch.setattr("gateway.builtin.waits._WHOLE_S", 0.5)
    monkeypatch.setattr(site.servers[MAIL], "forward", _for_ever)
    assert await _uris(site) == ["douane://notes/n:1"]


async def _for_ever(_: Permit) -> RawAnswer:
    await asyncio.Event().wait()
    raise AssertionError


async def _uris(site: Site) -> list[str]:
    listed = (await site.ask("resources/list")).json["result"]["resources"]
    return [one["uri"] for one in listed]


async def test_a_server_that_was_not_approved_is_not_asked_for_resources() -> None:
    site = Site()
    item = {"name": "mail", "capabilities": {"resources": {}}}
    await site.show(MAIL, item, kind=Kind.SERVER, approve=False)
    await site.show(NOTES, {"name": "notes", "capabilities": {}}, kind=Kind.SERVER)
    assert await _uris(site) == []
    assert site.servers[MAIL].saw == site.servers[NOTES].saw == []


BLOCKS = [
    {"type": "resource_link", "uri": "m:1", "name": "one"},
    {"type": "resource", "resource": {"uri": "m:2", "text": "two"}},
    {"type": "text", "text": '"resource m:3'},
]
TOLD = [
    {"type": "resource_link", "uri": "douane://mail/m:1", "name": "one"},
    {"type": "resource", "resource": {"uri": "douane://mail/m:2", "text": "two"}},
    BLOCKS[2],
]


async def test_resources_in_results_are_named_as_they_can_be_read() -> None:
    site = await Site().furnish()
    site.servers[MAIL].answer = lambda permit: result(permit, {"content": BLOCKS})
    assert (await site.ask("tools/call", CALL)).json["result"]["content"] == TOLD
    said = {"messages": [{"role": "user", "content": BLOCKS[1]}]}
    site.servers[NOTES].answer = lambda permit: result(permit, said)
    seen = await site.ask("prompts/get", {"name": "notes__sum_up"})
    (message,) = seen.json["result"]["messages"]
    assert message["content"]["resource"]["uri"] == "douane://notes/m:2"


@pytest.mark.parametrize("block", [0, 1])
@pytest.mark.parametrize("streamed", [False, True])
async def test_so_are_those_whose_type_is_spelt_in_escapes(block: int, streamed: bool) -> None:
    told = {"jsonrpc": "2.0", "id": 1, "result": {"content": [BLOCKS[block]]}}
    body = json.dumps(told).encode().replace(b'"resource', rb'"\u0072esource')

    async def parts() -> AsyncGenerator[bytes, None]:
        yield b""
        yield data_event(body).raw

    home = Homeward(
        server=MAIL,
        method="tools/call",
        upstream=Profile.MODERN,
        client=Profile.MODERN,
        logs=False,
        limits=WireLimits(),
        who="u_alice",
    )
    reply = Reply(status=200, headers=(), body=parts() if streamed else body)
    seen = await Seen.of(await home.reply(reply))
    (message,) = seen.messages or [seen.json]
    assert message["result"]["content"] == [TOLD[block]]


@pytest.mark.parametrize(
    ("ref", "inner"),
    [
        (
            {"type": "ref/prompt", "name": "notes__sum_up"},
            {"type": "ref/prompt", "name": "sum_up"},
        ),
        (
            {"type": "ref/resource", "uri": "douane://notes/notes://{name}"},
            {"type": "ref/resource", "uri": "notes://{name}"},
        ),
    ],
)
async def test_what_is_completed_is_asked_of_its_server(
    ref: dict[str, str], inner: dict[str, str]
) -> None:
    site = await Site().furnish()
    values = {"completion": {"values": ["a"]}}
    site.servers[NOTES].answer = lambda permit: result(permit, values)
    params = {"ref": ref, "argument": {"name": "x", "value": "a"}}
    seen = await site.ask("completion/complete", params)
    assert seen.json["result"] == values
    assert sent(site.servers[NOTES].saw[0])["params"]["ref"] == inner


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "sum_up"}),
        ("resources/read", {"uri": "notes://x"}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "sum_up"}}),
        ("resources/subscribe", {"uri": "notes://x"}),
    ],
)
async def test_the_servers_own_names_mean_nothing_here(method: str, params: dict[str, Any]) -> None:
    site = await Site().furnish()
    seen = await site.ask(method, params, **OLD)
    assert seen.reply.code == "unknown_tool"
    assert site.servers[NOTES].saw == []

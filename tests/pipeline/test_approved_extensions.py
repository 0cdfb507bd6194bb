"""Extensions of the protocol are off on both sides until somebody approves them for a server."""

import json
from typing import Any

import pytest

from gateway.domain.decisions import Verdict
from gateway.domain.tools import Kind, Profile
from gateway.wire.extensions import TASKS, UI
from tests.pipeline.house import MAIL, TOOLS, House, result, text, whole

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CORE: dict[str, Any] = {"roots": {}, "sampling": {}}
MORE: dict[str, Any] = {**CORE, "extensions": {UI: {}, TASKS: {}}, "tasks": {"list": {}}}
UI_ONLY = {**CORE, "extensions": {UI: {}}}
NONE = {**CORE, "extensions": {}}

WAYS = [(frozenset(), NONE), (frozenset({UI}), UI_ONLY)]
GREETINGS = [(Profile.LEGACY, "initialize"), (Profile.MODERN, "server/discover")]


def hello(house: House, profile: Profile, method: str):
    params: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": MORE}
    if profile is Profile.MODERN:
        params = {"_meta": {CAPABILITIES: MORE}}
    return house.request(method, params, profile=profile)


def sent(house: House) -> dict[str, Any]:
    """What the upstream got; what was decided on is the same."""
    (permit,) = house.server.saw
    message = permit.call.message
    params: dict[str, Any] = json.loads(message.body)["params"]
    assert params == message.params
    return params


@pytest.mark.parametrize(("approved", "kept"), WAYS)
@pytest.mark.parametrize(("profile", "method"), GREETINGS)
async def test_a_server_hears_of_approved_extensions_only(
    profile: Profile, method: str, approved: frozenset[str], kept: dict[str, Any]
):
    house = House(extensions=approved)
    house.server.answer = lambda permit: result(permit, {"capabilities": {}})
    await house.handle(hello(house, profile, method))
    params = sent(house)
    found = params["_meta"][CAPABILITIES] if "_meta" in params else params["capabilities"]
    assert found == kept


@pytest.mark.parametrize(("approved", "kept"), WAYS)
@pytest.mark.parametrize(("profile", "method"), GREETINGS)
async def test_a_client_hears_of_approved_extensions_only(
    profile: Profile, method: str, approved: frozenset[str], kept: dict[str, Any]
):
    house = House(extensions=approved)
    house.server.answer = lambda permit: result(
        permit, {"ttlMs": 1, "capabilities": MORE, "cacheScope": "private"}
    )
    seen = await house.handle(hello(house, profile, method))
    assert list(seen.json["result"].items()) == [
        ("ttlMs", 1),
        ("capabilities", kept),
        ("cacheScope", "private"),
    ]


async def test_every_stateless_call_declares_approved_extensions_only():
    house = House()
    await house.approve_all()
    await house.handle(house.call(arguments={"q": 1.0}, _meta={CAPABILITIES: MORE}))
    assert sent(house) == {
        "name": "search",
        "arguments": {"q": 1.0},
        "_meta": {CAPABILITIES: NONE},
    }


async def test_a_greeting_of_the_core_keeps_its_bytes():
    house = House()
    body = b'{"jsonrpc":"2.0", "id":1, "result":{"capabilities":{"tools":{}},  "ttlMs": 15}}'
    house.server.answer = lambda permit: whole(body)
    call = house.request("server/discover")
    seen = await house.handle(call)
    assert (seen.bytes, house.server.saw[0].call.message.body) == (body, call.message.body)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"])
async def test_tasks_are_refused_until_they_are_approved(method: str):
    house = House(extensions=frozenset({UI}))
    await house.approve_all()
    seen = await house.handle(house.request(method, {"taskId": "1"}))
    assert (seen.json["error"]["code"], house.server.saw) == (-32601, [])
    house.server.answer = lambda permit: result(permit, {"resultType": "task", "task": {}})
    assert (await house.handle(house.call())).code == "upstream_failed"


URI = "ui://mail/inbox"
TOOL = {**TOOLS["search"], "_meta": {"ui": {"resourceUri": URI}}}


def page(html: str = "<b>Mail</b>", **more: Any) -> dict[str, Any]:
    return {"contents": [{"uri": URI, "mimeType": "text/html", "text": html, **more}]}


async def house_with_interface() -> House:
    house = House(extensions=frozenset({UI}))
    await house.approve_all()
    await house.show(TOOL, TOOLS["send"])
    await house.approve(Kind.TOOL, "search")
    return house


async def read(house: House, shown: dict[str, Any], uri: str = URI):
    house.server.answer = lambda permit: result(permit, shown)
    return await house.handle(house.request("resources/read", {"uri": uri}))


async def test_an_interface_is_filed_when_first_seen_and_given_out_once_approved():
    house = await house_with_interface()
    seen = await read(house, page())
    assert (seen.code, b"Mail" in seen.bytes) == ("pin_pending", False)
    await house.approve(Kind.RESOURCE, URI)
    seen = await read(house, page())
    assert (seen.code, seen.json["result"]) == (None, page())


@pytest.mark.parametrize(
    "other", [page("<b>Evil</b>"), page(_meta={"ui": {"csp": {"connectDomains": ["evil"]}}})]
)
async def test_an_interface_that_is_another_one_than_approved_is_withheld(other: dict[str, Any]):
    house = await house_with_interface()
    await read(house, page())
    await house.approve(Kind.RESOURCE, URI)
    seen = await read(house, other)
    assert (seen.code, b"vil" in seen.bytes) == ("pin_drift", False)
    # Drift stays until a person acts, also when the server changes back.
    assert (await read(house, page())).code == "pin_drift"


async def test_where_the_approved_interface_stays_in_force_no_other_one_is_given_out():
    house = await house_with_interface()
    await read(house, page())
    await house.approve(Kind.RESOURCE, URI)
    house.rule.pin = "serve_approved"
    for _ in range(2):
        seen = await read(house, page("<b>Evil</b>"))
        assert (seen.code, b"Evil" in seen.bytes) == ("pin_drift", False)
    assert (await read(house, page())).json["result"] == page()


async def test_an_interface_that_no_tool_names_is_neither_filed_nor_given_out():
    house = await house_with_interface()
    seen = await read(house, page(), "ui://mail/other")
    assert seen.code == "unknown_tool"
    assert [pin for pin in house.pins.all(MAIL) if pin.target.kind is Kind.RESOURCE] == []


async def test_a_name_that_only_looks_like_an_interface_is_judged_as_one():
    house = await house_with_interface()
    assert (await read(house, page(), "UI://mail/inbox")).code == "unknown_tool"


async def test_other_resources_are_not_pinned_by_their_content():
    house = await house_with_interface()
    for body in ("one", "two"):
        seen = await read(house, page(body), "mail://inbox")
        assert seen.json["result"] == page(body)


async def test_an_interface_is_judged_like_any_resource_besides():
    house = await house_with_interface()
    await read(house, page())
    await house.approve(Kind.RESOURCE, URI)
    house.rule.says = lambda q: Verdict.DENY if q["phase"] == "call" else Verdict.ALLOW
    house.server.saw.clear()
    assert ((await read(house, page())).code, house.server.saw) == ("denied", [])


async def test_an_interface_asks_through_ordinary_calls():
    house = await house_with_interface()
    house.server.answer = lambda permit: result(permit, text("hi"))
    assert (await house.handle(house.call())).code is None
    assert [record.kind.value for record in house.audit.records[-2:]] == ["intent", "outcome"]


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("name", ["task", "Task", "TASK"])
async def test_who_asks_for_a_task_gets_a_result_and_no_server_hears_of_it(
    profile: Profile, name: str
):
    house = House()
    await house.approve_all(profile)
    house.server.answer = lambda permit: result(permit, text("found"))
    params = {"name": "search", "arguments": {"task": "kept"}, name: {"ttl": 60_000}}
    call = house.request("tools/call", params, profile=profile)
    assert (await house.handle(call)).json["result"]["content"] == text("found")["content"]
    assert sent(house) == {"name": "search", "arguments": {"task": "kept"}}


async def test_what_legacy_tools_say_of_tasks_is_not_served_and_what_needs_one_is_not_listed():
    house = House()
    tools = [
        {**TOOLS["search"], "execution": {"taskSupport": "optional"}},
        {**TOOLS["send"], "execution": {"taskSupport": "required"}},
    ]
    await house.show(*tools, profile=Profile.LEGACY)
    for name in TOOLS:
        await house.approve(Kind.TOOL, name, Profile.LEGACY)
    house.server.answer = lambda permit: result(permit, {"tools": tools})
    seen = await house.handle(house.request("tools/list", profile=Profile.LEGACY))
    assert seen.json["result"]["tools"] == [TOOLS["search"]]
    # Called nevertheless, its server says what it says to whoever asks for no task.
    house.server.answer = lambda permit: whole(
        json.dumps(
            {
                "jsonrpc": "2.0",
                "id": permit.call.message.id,
                "error": {"code": -32601, "message": "needs a task"},
            }
        ).encode()
    )
    answered = await house.handle(house.call("send", profile=Profile.LEGACY))
    assert answered.json["error"]["code"] == -32601

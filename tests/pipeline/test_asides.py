"""From a run that has read something, nothing of the caller's choosing goes out beside what is judged."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import Form, Permit, RawAnswer, ServerEvent
from gateway.domain.decisions import Duty, Obligation, Verdict
from gateway.domain.labels import STRICTEST_DEFAULT, ToolRule
from gateway.domain.tools import Profile
from gateway.pipeline import asides
from gateway.wire.extensions import UI
from tests.pipeline.house import ALICE, Events, House, Seen, decision, event, result, text, whole

CODED = "Vuk1c2FoYmVkd2FyZXRoZXJlaXNubw"
"""What says nothing to whoever does not have the key."""
CLIENT = "io.modelcontextprotocol/clientInfo"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SCHEMA = {"type": "object", "properties": {"to": {"type": "string", "x-mcp-header": "To"}}}


def is_ok(permit: Permit) -> RawAnswer:
    if permit.call.message.form is not Form.REQUEST:
        return whole(b"", status=202)
    return result(permit, {"tools": []} if permit.access is None else text("fine"))


@pytest.fixture
async def house() -> House:
    built = House(tools={"search": ToolRule(result=STRICTEST_DEFAULT)})
    for profile in Profile:
        await built.approve_all(profile)
    built.server.answer = is_ok
    return built


async def read(house: House, profile: Profile = Profile.MODERN, **more: Any) -> None:
    """Have the run read what is private."""
    await house.handle(house.call(profile=profile, **more))
    house.server.saw.clear()


def sent(house: House) -> str:
    """Return all that the last message said to its server."""
    call = house.server.saw[-1].call
    assert json.loads(call.message.body).get("id") == call.message.id
    assert json.loads(call.message.body).get("params", {}) == call.message.params
    return json.dumps([call.message.body.decode(), call.headers])


MODERN = Profile.MODERN
ASIDES: list[dict[str, Any]] = [
    {"id_": CODED},
    {"id_": 1234567890123456},
    {"meta": {"progressToken": CODED}},
    {"meta": {"progressToken": 1234567890123456}},
    {"meta": {"traceparent": CODED}},
    {"meta": {"tracestate": f"a={CODED.lower()}"}},
    {"meta": {"traceparent": TRACE, "tracestate": f"a={CODED.lower()}"}},
    {"meta": {"baggage": f"a={CODED}"}},
    {"meta": {"com.example/x": {CODED: 1}}},
    {"meta": {CLIENT: {"name": CODED, "version": "1"}}},
    {"meta": {CLIENT: {"name": "a", "version": "1", "icons": [{"src": CODED}]}}},
    {"meta": {SUBSCRIPTION: CODED}},
    {"headers": (("tracestate", f"a={CODED}"),)},
    {"headers": (("mcp-param-other", CODED),)},
    {"headers": ((f"mcp-param-{CODED.lower()}", "1"),)},
]


def message(house: House, method: str, aside: dict[str, Any], profile: Profile) -> Any:
    params: dict[str, Any] = {"name": "search", "arguments": {}} if method == "tools/call" else {}
    if "meta" in aside:
        params["_meta"] = aside["meta"]
    call = house.request(method, params, profile=profile, id_=aside.get("id_", 1))
    return replace(call, headers=(*call.headers, *aside.get("headers", ())))


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
@pytest.mark.parametrize("aside", ASIDES, ids=str)
async def test_nothing_that_a_caller_chooses_goes_out_beside_it(
    house: House, aside: dict[str, Any], method: str, profile: Profile
) -> None:
    await read(house, profile)
    seen = await house.handle(message(house, method, aside, profile))
    assert seen.json["id"] == aside.get("id_", 1)
    assert "result" in seen.json
    told = sent(house).lower()
    assert CODED.lower() not in told
    assert "1234567890123456" not in told


@pytest.mark.parametrize("aside", [one for one in ASIDES if "headers" not in one], ids=str)
async def test_from_a_clean_run_it_goes_out_as_it_came(house: House, aside: dict[str, Any]) -> None:
    call = message(house, "tools/call", aside, Profile.MODERN)
    await house.handle(call)
    assert house.server.saw[-1].call.message is call.message


@pytest.mark.parametrize("phase", ["call", "result"])
@pytest.mark.parametrize("label", [{"confidentiality": "private"}, {"integrity": "untrusted"}])
async def test_what_policy_alone_says_that_it_read_counts(
    house: House, label: dict[str, str], phase: str
) -> None:
    house = House()
    await house.approve_all()
    house.server.answer = is_ok
    duty = [Obligation(duty=Duty.LABEL, detail=label)]
    house.rule.says = lambda q: (
        decision(Verdict.ALLOW, obligations=duty) if q["phase"] == phase else Verdict.ALLOW
    )
    await read(house)
    await house.handle(message(house, "tools/call", {"id_": CODED}, Profile.MODERN))
    assert CODED not in sent(house)
    page = house.request("tools/list", {"cursor": CODED})
    assert (await house.handle(page)).reply.code == "denied"


async def test_a_program_that_the_server_knows_keeps_its_name(house: House) -> None:
    known = {"name": "Agent", "version": "3"}
    await read(house, Profile.MODERN)
    for program, told in ((known, {"name": "client", "version": "0"}), (known, known)):
        call = message(house, "tools/call", {"meta": {CLIENT: program}}, Profile.MODERN)
        await house.handle(call)
        assert house.server.saw[-1].call.message.params["_meta"][CLIENT] == told
        await _heard_before(house, {CLIENT: known})


async def test_what_the_server_has_heard_before_it_may_hear_again(house: House) -> None:
    about = {"com.example/x": "de", "com.example/y": "de"}
    await house.handle(message(house, "tools/call", {"meta": about}, MODERN))
    await read(house, MODERN)
    for said, heard in ((about, about), ({"com.example/x": CODED}, {})):
        assert await told_about(house, said) == heard


async def told_about(house: House, said: dict[str, Any]) -> dict[str, Any]:
    """Return what a server is told of what a client says in members that the protocol does not know."""
    await house.handle(message(house, "tools/call", {"meta": said}, MODERN))
    told = house.server.saw[-1].call.message.params["_meta"]
    return {name: one for name, one in told.items() if name in said}


async def test_what_it_has_heard_it_hears_as_one(house: House) -> None:
    """A choice of many members, each of which was heard with either value, would say as many bits."""
    await house.handle(house.call())
    every = [{f"com.example/m{number}": bit for number in range(20)} for bit in (0, 1)]
    for each in every:
        await _heard_before(house, each)
    said = every[-1]
    assert await told_about(house, said) == said
    mixed = {name: number % 2 for number, name in enumerate(said)}
    turned = dict(reversed(said.items()))
    for other in (mixed, turned, dict([*said.items()][:10])):
        assert await told_about(house, other) == {}


async def test_the_state_of_a_trace_is_heard_by_itself(house: House) -> None:
    state = {"tracestate": "a=b"}
    await house.handle(message(house, "tools/call", {"meta": state}, MODERN))
    await read(house, MODERN)
    assert await told_about(house, {**state, "com.example/x": CODED}) == state
    assert await told_about(house, {"tracestate": f"a={CODED}"}) == {}


async def _heard_before(house: House, about: dict[str, Any]) -> None:
    """Let the server hear something about a message in a run that has read nothing."""
    permit = house.server.saw[-1]
    clean = replace(permit.run, sources=())
    call = message(house, "tools/call", {"meta": about}, Profile.MODERN)
    await house.conversations.asides.going(replace(permit, run=clean, call=call))


async def test_what_mirrors_an_argument_goes_on(house: House) -> None:
    await house.show(
        {"name": "send", "inputSchema": {"type": "object"}},
        {"name": "search", "inputSchema": SCHEMA},
    )
    for name in ("search", "send"):
        await house.approve("tool", name)  # type: ignore[arg-type]
    await read(house)
    call = house.call("search", {"to": "kim"})
    fields = (("mcp-param-to", "kim"), ("mcp-param-other", CODED))
    await house.handle(replace(call, headers=(*call.headers, *fields)))
    assert ("mcp-param-to", "kim") in house.server.saw[-1].call.headers
    assert CODED not in sent(house)


async def test_what_mirrors_the_body_goes_on_in_our_spelling(house: House) -> None:
    """That one text may be written in two ways would be room for one bit of each header."""
    await house.show(
        {"name": "search", "inputSchema": SCHEMA},
        {"name": "send", "inputSchema": {"type": "object"}},
    )
    for name in ("search", "send"):
        await house.approve("tool", name)  # type: ignore[arg-type]
    await read(house)
    call = house.call("search", {"to": "kim"})
    fields = (("mcp-name", "=?base64?c2VhcmNo?="), ("mcp-param-to", "=?base64?a2lt?="))
    await house.handle(replace(call, headers=fields))
    told = house.server.saw[-1].call.headers
    assert told == (("mcp-name", "search"), ("mcp-param-to", "kim"))


def streamed(*messages: Any) -> Any:
    """Answer with events that name the request and its token as the server knows them."""

    def answer(permit: Permit) -> RawAnswer:
        asked = permit.call.message
        token = asked.params.get("_meta", {}).get("progressToken")
        return Events([event(one(asked.id, token)) for one in messages]).answer()

    return answer


def done(id_: Any, token: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": text("fine")}


def progress(id_: Any, token: Any) -> dict[str, Any]:
    params = {"progressToken": token, "progress": 1, "_meta": {SUBSCRIPTION: id_}}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


@pytest.mark.parametrize("id_", [CODED, 7, "7"])
@pytest.mark.parametrize("token", [CODED, 8, "8"])
async def test_a_client_hears_its_own_names(house: House, id_: Any, token: Any) -> None:
    await read(house)
    house.server.answer = streamed(progress, done)
    aside = {"id_": id_, "meta": {"progressToken": token}}
    seen = await house.handle(message(house, "tools/call", aside, Profile.MODERN))
    told, last = seen.messages
    assert told["params"]["progressToken"] == token
    assert told["params"]["_meta"][SUBSCRIPTION] == id_
    assert last["id"] == id_


async def test_nobody_hears_of_anothers_names(house: House) -> None:
    house.gate.people["bob"] = replace(ALICE, subject="bob")
    await read(house)
    await read(house, who="bob")
    aside = {"meta": {"progressToken": "mine"}}
    await house.handle(message(house, "tools/call", aside, Profile.MODERN))
    ours = house.server.saw[-1].call.message.params["_meta"]["progressToken"]
    house.server.answer = streamed(lambda id_, _: progress(id_, ours), done)
    seen = await house.handle(house.call(who="bob"))
    assert seen.messages[0]["params"]["progressToken"] == ours
    assert b"mine" not in seen.bytes


async def test_nobody_hears_of_names_of_another_session_of_theirs(house: House) -> None:
    await read(house, Profile.LEGACY)
    search = {"name": "search", "arguments": {}}
    mine = {**search, "_meta": {"progressToken": "mine"}}
    of: dict[str, Any] = {"profile": Profile.LEGACY, "id_": 5}
    await house.handle(house.request("tools/call", mine, session="one", **of))
    ours = house.server.saw[-1].call.message.params["_meta"]["progressToken"]
    house.server.answer = streamed(lambda id_, _: progress(id_, ours), done)
    seen = await house.handle(house.request("tools/call", search, session="other", **of))
    assert seen.messages[0]["params"]["progressToken"] == ours
    assert b"mine" not in seen.bytes


@pytest.mark.parametrize("streams", [False, True])
async def test_an_answer_is_known_however_much_others_were_told_meanwhile(
    monkeypatch: pytest.MonkeyPatch, *, streams: bool
) -> None:
    monkeypatch.setattr(asides, "_OCTETS", 0)
    house = House(tools={"search": ToolRule(result=STRICTEST_DEFAULT)})
    await house.approve_all()
    house.server.answer = is_ok
    await read(house)
    if streams:
        house.server.answer = streamed(progress, done)
    aside = {"id_": "mine", "meta": {"progressToken": "its"}}
    seen = await house.handle(message(house, "tools/call", aside, MODERN))
    last = seen.messages[-1] if streams else seen.json
    assert (last["id"], last["result"]["content"]) == ("mine", text("fine")["content"])
    if streams:
        assert seen.messages[0]["params"]["progressToken"] == "its"
        assert seen.messages[0]["params"]["_meta"][SUBSCRIPTION] == "mine"


@pytest.mark.parametrize("id_", [CODED, 5])
async def test_what_is_cancelled_is_called_what_the_server_was_told(house: House, id_: Any) -> None:
    await house.handle(message(house, "tools/call", {"id_": "early"}, Profile.LEGACY))
    await house.handle(message(house, "tools/call", {"id_": id_}, Profile.LEGACY))
    called = house.server.saw[-1].call.message.id
    assert called != id_
    for named, told in (("early", "early"), (id_, called)):
        await house.handle(cancelled(house, named))
        assert house.server.saw[-1].call.message.params["requestId"] == told


async def test_what_goes_on_in_one_session_is_not_cancelled_in_another(house: House) -> None:
    await read(house, Profile.LEGACY)
    search = {"name": "search", "arguments": {}}
    await house.handle(
        house.request("tools/call", search, profile=Profile.LEGACY, id_=5, session="one")
    )
    called = house.server.saw[-1].call.message.id
    for session, is_told in (("other", False), ("one", True)):
        await house.handle(cancelled(house, 5, session=session))
        told = house.server.saw[-1].call.message.params["requestId"]
        assert (told == called) is is_told


async def test_what_nobody_asked_for_is_cancelled_under_no_name(house: House) -> None:
    await read(house, Profile.LEGACY)
    await house.handle(cancelled(house, CODED))
    assert CODED not in sent(house)


def cancelled(house: House, id_: Any, **more: Any) -> Any:
    return house.request(
        "notifications/cancelled",
        {"requestId": id_},
        profile=Profile.LEGACY,
        form=Form.NOTIFICATION,
        id_=None,
        **more,
    )


async def test_only_a_token_that_the_server_gave_comes_back_to_it(house: House) -> None:
    await read(house, Profile.LEGACY)
    asks = {"method": "ping", "params": {"_meta": {"progressToken": "theirs"}}}
    house.server.answer = streamed(lambda id_, _: {"jsonrpc": "2.0", "id": "q", **asks}, done)
    await house.handle(message(house, "tools/call", {}, Profile.LEGACY))
    house.server.answer = is_ok
    for token, goes in (("theirs", True), (CODED, False)):
        params = {"progressToken": token, "progress": 1}
        told = house.request(
            "notifications/progress",
            params,
            profile=Profile.LEGACY,
            form=Form.NOTIFICATION,
            id_=None,
        )
        await house.handle(told)
        assert (token in sent(house)) is goes


async def resumed(house: House, id_: str) -> Seen:
    call = house.request(
        "GET", {}, profile=Profile.LEGACY, session="s1", form=Form.STREAM, id_=None
    )
    return await house.handle(replace(call, headers=(*call.headers, ("last-event-id", id_))))


async def test_what_one_is_given_or_says_has_nobody_elses_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asides, "_OCTETS", 32 * 1024)
    house = House(tools={"search": ToolRule(result=STRICTEST_DEFAULT)})
    house.gate.people["bob"] = replace(ALICE, subject="bob")
    await house.approve_all(Profile.LEGACY)
    house.server.answer = is_ok
    for who in ("alice", "bob"):
        await read(house, Profile.LEGACY, who=who)
    given = ServerEvent(raw=b"id: given-1\ndata:\n\n", data=None)
    flood = [ServerEvent(raw=b"id: %d\ndata:\n\n" % n, data=None) for n in range(1_000)]
    stream: dict[str, Any] = {"profile": Profile.LEGACY, "session": "s1", "form": Form.STREAM}
    stream["id_"] = None
    house.server.answer = lambda permit: Events([given]).answer()
    await house.handle(house.request("GET", {}, **stream))
    house.server.answer = is_ok
    await house.handle(message(house, "tools/call", {"id_": "mine"}, Profile.LEGACY))
    called = house.server.saw[-1].call.message.id
    house.server.answer = lambda permit: Events(flood).answer()
    await house.handle(house.request("GET", {}, who="bob", **stream))
    house.server.answer = is_ok
    for n in range(200):
        call = house.call(profile=Profile.LEGACY, who="bob")
        await house.handle(replace(call, message=replace(call.message, id=n)))
    await house.handle(cancelled(house, "mine"))
    assert house.server.saw[-1].call.message.params["requestId"] == called
    await resumed(house, "given-1")
    assert ("last-event-id", "given-1") in house.server.saw[-1].call.headers


async def test_a_stream_is_resumed_after_what_was_given_alone(house: House) -> None:
    await read(house, Profile.LEGACY)
    news = ServerEvent(raw=b"id: given-1\ndata:\n\n", data=None)
    house.server.answer = lambda permit: Events([news]).answer()
    call = house.request(
        "GET", {}, profile=Profile.LEGACY, session="s1", form=Form.STREAM, id_=None
    )
    await house.handle(call)
    house.server.saw.clear()
    assert (await resumed(house, CODED)).reply.code == "denied"
    assert house.server.saw == []
    await resumed(house, "given-1")
    assert ("last-event-id", "given-1") in house.server.saw[-1].call.headers


@pytest.mark.parametrize("name", ["traceparent", CLIENT, "com.example/x"])
async def test_an_answer_says_nothing_of_itself(house: House, name: str) -> None:
    await read(house, Profile.LEGACY)
    asks = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "a"}}
    house.server.answer = lambda permit: Events([event(asks)]).answer()
    call = house.request(
        "GET", {}, profile=Profile.LEGACY, session="s1", form=Form.STREAM, id_=None
    )
    await house.handle(call)
    house.server.answer = is_ok
    given = {"action": "accept", "content": {"a": "yes"}, "_meta": {name: CODED}}
    answer = house.request(
        "", given, profile=Profile.LEGACY, session="s1", form=Form.RESPONSE, id_="q"
    )
    body = json.dumps({"jsonrpc": "2.0", "id": "q", "result": given}).encode()
    told = replace(answer, message=replace(answer.message, body=body))
    await house.handle(told)
    arrived = json.loads(house.server.saw[-1].call.message.body)
    assert arrived == {
        "jsonrpc": "2.0",
        "id": "q",
        "result": {"action": "accept", "content": {"a": "yes"}},
    }


@pytest.mark.parametrize("member", ["result", "error"])
@pytest.mark.parametrize(
    "ours", [{"_meta": {"douane/run": "abc"}}, {"task": {"taskId": "t"}}], ids=["run", "task"]
)
@pytest.mark.parametrize("has_read", [False, True])
async def test_an_answer_that_says_something_to_us_is_an_answer_still(
    house: House, ours: dict[str, Any], member: str, *, has_read: bool
) -> None:
    if has_read:
        await read(house, Profile.LEGACY)
    asks = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "a"}}
    house.server.answer = lambda permit: Events([event(asks)]).answer()
    in_session: dict[str, Any] = {"profile": Profile.LEGACY, "session": "s1"}
    await house.handle(house.request("GET", {}, form=Form.STREAM, id_=None, **in_session))
    house.server.answer = is_ok
    given = {"code": 1, "message": "no"} if member == "error" else {"action": "decline"}
    body = json.dumps({"jsonrpc": "2.0", "id": "q", member: {**given, **ours}}).encode()
    answer = house.request("", {**given, **ours}, form=Form.RESPONSE, id_="q", **in_session)
    await house.handle(replace(answer, message=replace(answer.message, body=body)))
    arrived = json.loads(house.server.saw[-1].call.message.body)
    assert arrived == {"jsonrpc": "2.0", "id": "q", member: given}


BLANKS = "\t \n  \r" * 50
"""What a message can hold a great deal of without saying anything."""
SPELLED: list[tuple[str, Form, dict[str, Any]]] = [
    ("notifications/initialized", Form.NOTIFICATION, {}),
    ("notifications/roots/list_changed", Form.NOTIFICATION, {}),
    ("notifications/progress", Form.NOTIFICATION, {"progressToken": 1, "progress": 2}),
    ("notifications/cancelled", Form.NOTIFICATION, {"requestId": 3}),
    ("ping", Form.REQUEST, {}),
    ("tools/call", Form.REQUEST, {"name": "search", "arguments": {"a": "b"}}),
]


@pytest.mark.parametrize(("method", "form", "params"), SPELLED)
async def test_a_message_says_nothing_by_how_it_is_spelled(
    house: House, method: str, form: Form, params: dict[str, Any]
) -> None:
    await read(house, Profile.LEGACY)
    id_ = 1 if form is Form.REQUEST else None
    call = house.request(method, params, profile=Profile.LEGACY, form=form, id_=id_)
    assert BLANKS not in sent_as(house, await said_in(house, call, spelled(call.message.body)))


async def test_an_answer_says_nothing_by_how_it_is_spelled(house: House) -> None:
    await read(house, Profile.LEGACY)
    asks = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "a"}}
    house.server.answer = lambda permit: Events([event(asks)]).answer()
    in_session: dict[str, Any] = {"profile": Profile.LEGACY, "session": "s1"}
    await house.handle(house.request("GET", {}, form=Form.STREAM, id_=None, **in_session))
    house.server.answer = is_ok
    answer = house.request("", {"action": "decline"}, form=Form.RESPONSE, id_="q", **in_session)
    body = b'{"jsonrpc": "2.0", "id": "q", "result": {"action": "decline"}}'
    assert BLANKS not in sent_as(house, await said_in(house, answer, spelled(body)))


def spelled(body: bytes) -> bytes:
    return body.replace(b"{", b"{" + BLANKS.encode())


async def said_in(house: House, call: Any, body: bytes) -> Any:
    house.server.saw.clear()
    await house.handle(replace(call, message=replace(call.message, body=body)))
    return {name: inner for name, inner in json.loads(body).items() if inner is not None}


def sent_as(house: House, said: Any) -> str:
    """Return the text that arrived, which says what was `said`, but for names of ours."""
    (permit,) = house.server.saw
    text_ = permit.call.message.body.decode()
    told = json.loads(text_)
    assert told.keys() == said.keys() | ({"params"} if "method" in said else set())
    assert told.get("result") == said.get("result")
    return text_


EXTENSION = "com.example/maps"
ABILITIES = "io.modelcontextprotocol/clientCapabilities"
FOR_INTERFACES = {"mimeTypes": ["text/html;profile=mcp-app"]}


@pytest.mark.parametrize("member", ["extensions", "experimental"])
@pytest.mark.parametrize("profile", list(Profile))
async def test_what_an_approved_extension_is_set_to_is_what_was_heard_before(
    profile: Profile, member: str
) -> None:
    house = House(
        tools={"search": ToolRule(result=STRICTEST_DEFAULT)}, extensions=frozenset({EXTENSION, UI})
    )
    await house.approve_all(profile)
    house.server.answer = is_ok
    assert await declared(house, profile, member, {"zoom": 3}) == {"zoom": 3}
    await read(house, profile)
    for said, told in (({"zoom": 3}, {"zoom": 3}), ({"zoom": 4}, {}), ({"key": CODED}, {})):
        assert await declared(house, profile, member, said) == told


async def declared(house: House, profile: Profile, member: str, settings: Any) -> Any:
    """Return what a server is told of an extension's `settings`."""
    says = {"sampling": {}, member: {EXTENSION: settings, UI: FOR_INTERFACES}}
    if profile is Profile.LEGACY:
        params = {"protocolVersion": "2025-11-25", "capabilities": says}
        await house.handle(house.request("initialize", params, profile=profile))
        told = house.server.saw[-1].call.message.params["capabilities"]
    else:
        await house.handle(house.call(_meta={ABILITIES: says}))
        told = house.server.saw[-1].call.message.params["_meta"][ABILITIES]
    assert (told["sampling"], told[member][UI]) == ({}, FOR_INTERFACES)
    return told[member][EXTENSION]

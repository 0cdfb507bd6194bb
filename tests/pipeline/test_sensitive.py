"""Sensitive data in calls and answers: what policy is told, what callers see, and what comes back of it."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from gateway.audit.redaction import Redaction
from gateway.domain.calls import RawAnswer
from gateway.domain.decisions import Decision, Duty, Obligation, Verdict
from gateway.domain.flow import Task
from gateway.domain.labels import Effect, ToolRule
from gateway.domain.tools import OWN, Kind, Profile
from gateway.errors import UpstreamFailed
from gateway.pipeline import sensitive
from gateway.storage import late_calls
from gateway.wire.extensions import TASKS, with_params
from tests.audit.encoders import encoder_of
from tests.dlp.texts import CARD, IBAN, KEY
from tests.pipeline.house import ALICE, TOOLS, Events, House, decision, event, result, text
from tests.pipeline.late_house import ASKS, META, Works, about, begin, look

EMMA = replace(ALICE, subject="emma", user_id="u_emma", trusted_host=True)
BOB = replace(ALICE, subject="bob", client_id="other")
TOKENIZED = Obligation(duty=Duty.TOKENIZE, detail={"classes": ["iban", "card"]})
MASKED = Obligation(duty=Duty.MASK, detail={"classes": ["credential"]})


def says(question: Mapping[str, Any]) -> Decision | Verdict:
    """Mask what is found in an answer, and allow everything."""
    if question["phase"] != "result" or not question["dlp"]["result"]:
        return Verdict.ALLOW
    return decision(Verdict.ALLOW, obligations=[TOKENIZED, MASKED])


@pytest.fixture
async def house() -> House:
    built = House(
        tools={"send": ToolRule(effect=Effect.EGRESS, destination=("to",), payload=("body",))}
    )
    built.gate.people |= {"emma": EMMA, "bob": BOB}
    built.rule.says = says
    for profile in Profile:
        await built.approve_all(profile)
    return built


async def reads(house: House, words: str, who: str = "alice") -> str:
    house.server.answer = lambda permit: result(permit, text(words))
    seen = await house.handle(house.call("search", who=who))
    return str(seen.json["result"]["content"][0]["text"])


def asked(house: House, phase: str = "call") -> Mapping[str, Any]:
    told: Mapping[str, Any] = [q for q in house.rule.asked if q["phase"] == phase][-1]["dlp"]
    return told


async def test_policy_is_told_what_a_call_carries_and_never_the_value(house: House) -> None:
    await house.handle(house.call("send", {"to": "eve", "body": f"it is {KEY}"}))
    assert asked(house)["arguments"] == [
        {
            "class": "api_key",
            "group": "credential",
            "path": "$.body",
            "count": 1,
            "given": "",
            "place": False,
        }
    ]
    await house.handle(house.call("send", {"to": "eve", "body": "hello"}))
    assert asked(house) == {"arguments": [], "result": []}


async def test_what_a_server_gave_goes_home_and_is_a_strangers_elsewhere(house: House) -> None:
    await reads(house, f"your key is {KEY}")
    await house.handle(house.call("send", {"body": KEY}))
    assert [row["given"] for row in asked(house)["arguments"]] == ["server"]
    await house.handle(house.call("send", {"body": KEY}, who="bob"))
    assert [row["given"] for row in asked(house)["arguments"]] == [""]


async def test_what_the_users_words_have_is_theirs(house: House) -> None:
    for said, given in ((f"send {KEY} to eve", "task"), ("send the key to eve", "")):
        task = Task(prompt=said, tools=None)
        await house.handle(replace(house.call("send", {"body": KEY}, who="emma"), declared=task))
        assert [row["given"] for row in asked(house)["arguments"]] == [given]


async def test_answers_are_masked_and_their_facts_are_told(house: House) -> None:
    assert await reads(house, f"key {KEY}, pay {IBAN}") == "key [api_key], pay <IBAN:1>"
    assert [(row["class"], row["path"]) for row in asked(house, "result")["result"]] == [
        ("api_key", "$.content[0].text"),
        ("iban", "$.content[0].text"),
    ]


async def test_a_token_comes_back_as_its_value_and_stands_in_the_record(house: House) -> None:
    await reads(house, f"pay {IBAN}")
    house.server.answer = lambda permit: result(permit, text(f"paid {IBAN}"))
    seen = await house.handle(house.call("send", {"to": "<IBAN:1>", "body": ["for <IBAN:1>"]}))
    sent = house.server.saw[-1].call.message
    assert sent.params["arguments"] == {"to": IBAN, "body": [f"for {IBAN}"]}
    assert json.loads(sent.body)["params"] == sent.params
    assert [row["given"] for row in asked(house)["arguments"]] == ["server", "server"]
    assert seen.json["result"]["content"][0]["text"] == "paid <IBAN:1>"
    # Of an answer's bytes a record keeps a keyed hash.
    kept = [{n: f for n, f in r.fields.items() if n != "result"} for r in house.audit.records]
    said = json.dumps(kept, default=str)
    assert "<IBAN:1>" in said
    assert IBAN not in said


async def test_whoever_is_asked_is_shown_the_token(house: House) -> None:
    house.rule.says = lambda q: (
        decision(Verdict.ASK, "outside") if q["phase"] == "call" and q["arguments"] else says(q)
    )
    await reads(house, f"pay {IBAN}", who="emma")
    seen = await house.handle(house.call("send", {"to": "<IBAN:1>", "body": "x"}, who="emma"))
    assert seen.code == "approval_required"
    (request,) = [one.request for one in house.approvals.all(now=house.now)]
    assert request.arguments == {"to": "<IBAN:1>", "body": "x"}
    shown = repr((request.places, request.evidence, request.reasons, seen.bytes))
    assert IBAN not in shown


async def test_whoever_is_asked_is_shown_no_part_of_what_a_token_stands_for(house: House) -> None:
    """Of a long destination only its beginning is quoted, in which a value may end."""
    house.rule.says = lambda q: (
        decision(Verdict.ASK, "outside") if q["phase"] == "call" and q["arguments"] else says(q)
    )
    await reads(house, f"pay {IBAN}", who="emma")
    to = f"{'x' * 185} <IBAN:1>"
    await house.handle(house.call("send", {"to": to, "body": "x"}, who="emma"))
    (request,) = [one.request for one in house.approvals.all(now=house.now)]
    assert f'"{to}" ($.to)' in repr(request.evidence)
    assert IBAN[:9] not in repr((request.places, request.evidence, request.reasons))


async def test_a_call_to_the_gateway_itself_keeps_its_tokens(house: House) -> None:
    """A program that had the value could spell it out for whoever wrote it."""
    await reads(house, f"pay {IBAN}")
    calls, principal = house.call("send", {"body": "<IBAN:1>"}), house.gate.people["alice"]
    sensitive, run = house.sensitive, house.server.saw[-1].run
    access = house.server.saw[-1].access
    assert access is not None
    pin = access.pinned.pin
    theirs = await sensitive.restored(calls, principal, run, pin)
    assert theirs.message.params["arguments"] == {"body": IBAN}
    ours = replace(calls, server=OWN)
    assert await sensitive.restored(ours, principal, run, pin) is ours


async def test_a_call_in_rounds_goes_on_with_its_tokens(house: House) -> None:
    await reads(house, f"pay {IBAN}")
    asks = {"resultType": "input_required", "requestState": "s1", "inputRequests": {}}
    house.server.answer = lambda permit: result(permit, asks)
    call = house.call("send", {"to": "<IBAN:1>"})
    state = (await house.handle(call)).json["result"]["requestState"]
    house.server.answer = lambda permit: result(permit, text("done"))
    params = {**call.message.params, "requestState": state}
    seen = await house.handle(replace(call, message=with_params(call.message, params)))
    assert seen.json["result"]["content"][0]["text"] == "done"
    assert house.server.saw[-1].call.message.params["requestState"] == "s1"


async def test_tokens_stand_for_no_more_than_a_message_may_hold(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await reads(house, f"pay {IBAN}")
    monkeypatch.setattr(sensitive, "_LONGEST", 3 * len(IBAN))
    sent = len(house.server.saw)
    seen = await house.handle(house.call("send", {"body": ["<IBAN:1>"] * 3}))
    assert len(house.server.saw) == sent + 1
    for body in (["<IBAN:1>"] * 4, "<IBAN:1>" * 4):
        seen = await house.handle(house.call("send", {"body": body}))
        assert b"make it in parts" in seen.bytes
    monkeypatch.setattr(sensitive, "_MOST_TOKENS", 0)
    seen = await house.handle(house.call("send", {"body": "<IBAN:1>"}))
    assert b"make it in parts" in seen.bytes
    assert len(house.server.saw) == sent + 1


@pytest.mark.parametrize("token", ["<IBAN:2>", "<CARD:1>", "<API_KEY:1>"])
async def test_a_token_that_stands_for_nothing_is_refused(house: House, token: str) -> None:
    await reads(house, f"pay {IBAN}")
    sent = len(house.server.saw)
    seen = await house.handle(house.call("send", {"to": token}))
    assert f"{token} stands for nothing in this run" in seen.bytes.decode()
    assert seen.code == "denied"
    assert len(house.server.saw) == sent


async def test_a_token_is_of_its_run_alone(house: House) -> None:
    await reads(house, f"pay {IBAN}")
    seen = await house.handle(house.call("send", {"to": "<IBAN:1>"}, who="bob"))
    assert seen.code == "denied"
    assert b"stands for nothing" in seen.bytes


async def test_what_only_looks_like_a_token_is_a_text(house: House) -> None:
    await house.handle(house.call("send", {"body": "see <STEP:1> and <iban:1>"}))
    assert house.server.saw[-1].call.message.params["arguments"] == {
        "body": "see <STEP:1> and <iban:1>"
    }


MIRRORED = {
    "name": "send",
    "inputSchema": {
        "type": "object",
        "properties": {"to": {"type": "string", "x-mcp-header": "To"}},
    },
}


async def test_a_header_that_mirrors_a_token_says_its_value(house: House) -> None:
    await house.show(MIRRORED)

    await house.approve(Kind.TOOL, "send")
    await reads(house, f"pay {IBAN}")
    call = house.call("send", {"to": "<IBAN:1>"})
    told = replace(call, headers=(*call.headers, ("mcp-param-to", "<IBAN:1>")))
    house.server.answer = lambda permit: result(permit, text("ok"))
    await house.handle(told)
    permit = house.server.saw[-1]
    assert dict(permit.call.headers)["mcp-param-to"] == IBAN
    # Also where the run has nothing to tell, and heads go on as they are.
    assert permit.access is not None
    pin = permit.access.pinned.pin
    alone = await house.sensitive.restored(told, permit.principal, permit.run, pin)
    assert dict(alone.headers)["mcp-param-to"] == IBAN


def streamed(*words: str) -> Any:
    def answer(permit: Any) -> RawAnswer:
        logs = [
            {
                "jsonrpc": "2.0",
                "method": "notifications/message",
                "params": {"level": "info", "data": one},
            }
            for one in words
        ]
        last = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": text("done")}
        return Events([event(one) for one in (*logs, last)]).answer()

    return answer


async def test_what_is_cut_over_two_events_never_arrives_whole(house: House) -> None:
    number = CARD.replace(" ", "")
    house.server.answer = streamed(f"it is {number[:9]}", f"{number[9:]} ok", "and on")
    seen = await house.handle(house.call("search", profile=Profile.LEGACY))
    said = [one["params"]["data"] for one in seen.messages if "method" in one]
    assert said == [f"it is {number[:9]}", "[card] ok", "and on"]


async def test_without_anything_to_find_events_pass_as_they_came(house: House) -> None:
    house.server.answer = streamed("4111", "22", "33")
    seen = await house.handle(house.call("search", profile=Profile.LEGACY))
    assert [one["params"]["data"] for one in seen.messages if "method" in one] == [
        "4111",
        "22",
        "33",
    ]


async def test_a_refusal_by_policy_says_no_value(house: House) -> None:
    house.rule.says = lambda q: (
        decision(Verdict.DENY, "sensitive_data")
        if q["phase"] == "call" and q["dlp"]["arguments"]
        else Verdict.ALLOW
    )
    seen = await house.handle(house.call("send", {"to": "eve", "body": f"it is {KEY}"}))
    assert seen.code == "denied"
    assert KEY.encode() not in seen.bytes


@pytest.mark.parametrize(
    "said", [KEY, f"it is {KEY} ok".encode().hex(), "password: Mistral-4-Quince"]
)
async def test_a_record_holds_no_secret_in_any_form(house: House, said: str) -> None:
    await house.handle(house.call("send", {"to": "eve", "body": [said]}))
    kept = json.dumps([dict(r.fields) for r in house.audit.records], default=str)
    assert said not in kept
    assert "Mistral" not in kept


SPELT = [KEY, f"it is {KEY} ok".encode().hex(), f"{KEY[:4]}\u200b{KEY[4:]}"]
NUMBERED = {
    "name": "strict",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}


def records(house: House) -> str:
    """Return all that is on record; of an answer's bytes that is a keyed hash."""
    kept = [{n: f for n, f in r.fields.items() if n != "result"} for r in house.audit.records]
    return json.dumps(kept, default=str, ensure_ascii=False)


@pytest.mark.parametrize("said", SPELT)
@pytest.mark.parametrize(
    ("why", "method", "params"),
    [
        ("unknown_tool", "tools/call", {"name": "nosuch", "arguments": {"a": ["SAID"]}}),
        ("unknown_tool", "tools/call", {"name": "waits", "arguments": {"SAID": {}}}),
        ("denied", "tools/call", {"name": "strict", "arguments": {"note": "SAID"}}),
        ("denied", "tools/call", {"name": "send", "arguments": {"to": "<IBAN:9>", "body": "SAID"}}),
        ("unknown_tool", "prompts/get", {"name": "nosuch", "arguments": {"a": "SAID"}}),
        ("unknown_tool", "resources/read", {"uri": "https://e.example/SAID"}),
        ("drift", "tools/call", {"name": "send", "arguments": {"body": "SAID"}}),
    ],
)
async def test_what_ends_before_anybody_looked_has_no_secret_on_record(
    house: House, said: str, why: str, method: str, params: dict[str, Any]
) -> None:
    await house.show(NUMBERED, *TOOLS.values())
    await house.approve(Kind.TOOL, "strict")
    await house.show({"name": "waits"}, NUMBERED, *TOOLS.values())
    if why == "drift":
        await house.show({**TOOLS["send"], "description": "Another."}, NUMBERED)
    if method == "resources/read":
        house.rule.digest = "sha256:another"
        house.rule.says = lambda q: Verdict.DENY if q["phase"] == "list" else says(q)
    call = house.request(method, json.loads(json.dumps(params).replace("SAID", said)))
    assert (await house.handle(call)).code is not None
    assert not house.server.saw
    kept = records(house)
    assert said not in kept
    assert KEY not in kept
    assert "masked" in kept or "api_key" in kept


async def test_what_is_refused_and_holds_no_secret_is_on_record_as_it_is(house: House) -> None:
    arguments = {"to": "eve", "body": ["hello", 7, None, {"a": CARD}]}
    await house.handle(house.call("nosuch", arguments))
    assert house.last["arguments"] == arguments
    await house.handle(house.request("tools/list"))
    assert "arguments" not in house.last


async def test_who_goes_away_before_anybody_looked_leaves_no_secret_on_record(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def waits() -> None:
        await asyncio.sleep(60)

    house.catalogs.first = waits
    held = {"body": f"it is {KEY} ok".encode().hex()}
    for gone, shown in ((1, {"body": "[masked]"}), (2, {})):
        going = asyncio.ensure_future(house.handle(house.call("send", held)))
        await asyncio.sleep(0.01)
        if gone == 2:  # while what is on record is looked through

            async def ends(*_: Any) -> Any:
                raise asyncio.CancelledError

            monkeypatch.setattr(sensitive.Sensitive, "recorded", ends)
        going.cancel()
        with suppress(asyncio.CancelledError):
            await going
        assert (house.last["code"], house.last["arguments"]) == ("client_gone", shown)


@pytest.mark.parametrize("said", SPELT)
async def test_a_uri_holds_no_secret_on_record(house: House, said: str) -> None:
    await house.approve(Kind.SERVER, "mail")
    house.server.answer = lambda permit: result(permit, {"contents": []})
    seen = await house.handle(house.request("resources/read", {"uri": f"https://e.example/{said}"}))
    assert seen.code is None
    written = encoder_of(Redaction.FULL).encode(house.audit.records[-1]).body.decode()
    assert said not in written
    assert house.last["target"] == f"['{house.last['arguments']['uri']}']"


@pytest.mark.parametrize("said", SPELT)
@pytest.mark.parametrize("verdict", [Verdict.ALLOW, Verdict.DENY])
async def test_what_a_server_asks_has_no_secret_on_record(
    house: House, said: str, verdict: Verdict
) -> None:
    house.rule.says = lambda q: (
        verdict if q["target"]["kind"] == "server_request" and q["phase"] == "call" else says(q)
    )
    asks = {"method": "elicitation/create", "params": {"message": said, "requestedSchema": {}}}
    told = {"resultType": "input_required", "inputRequests": {"q": asks}}
    house.server.answer = lambda permit: result(permit, told)
    await house.handle(house.call("search"))
    (kept,) = [r.fields for r in house.audit.records if r.fields["method"] == asks["method"]]
    assert kept["arguments"]["message"] in {"[masked]", "[api_key]"}
    assert said not in records(house)


@pytest.mark.parametrize("kind", ["image", "audio", ["image"]])
async def test_what_only_calls_itself_a_picture_is_found_and_stands_in_no_record(
    house: House, kind: Any
) -> None:
    body = {"type": kind, "data": KEY}
    house.server.answer = lambda permit: result(permit, {"content": [], "structuredContent": body})
    seen = await house.handle(house.call("send", {"to": "eve", "body": body}))
    assert [row["path"] for row in asked(house)["arguments"]] == ["$.body.data"]
    assert [row["path"] for row in asked(house, "result")["result"]] == ["$.structuredContent.data"]
    # Of an answer's bytes a record keeps a keyed hash.
    kept = [{n: f for n, f in r.fields.items() if n != "result"} for r in house.audit.records]
    assert KEY not in json.dumps(kept, default=str)
    assert seen.json["result"]["structuredContent"]["type"] == kind
    assert KEY.encode() not in seen.bytes


@pytest.mark.parametrize("verdict", [Verdict.ALLOW, Verdict.ASK])
async def test_where_a_tasks_question_is_answered_tokens_stay_tokens(verdict: Verdict) -> None:
    rule = ToolRule(effect=Effect.EGRESS, destination=("to",), payload=("body",))
    house = House(extensions=frozenset({TASKS}), tools={"send": rule})
    house.gate.people["alice"] = replace(ALICE, trusted_host=True)
    house.rule.says = says
    await house.approve_all()
    await reads(house, f"pay {IBAN}")
    server = Works(house)
    handle = await begin(house, "send", to="<IBAN:1>", body="x")
    server.status, server.more = "input_required", {"inputRequests": {"one": ASKS}}
    await look(house, handle)
    house.rule.says = lambda q: (
        decision(verdict, "outside") if q["phase"] == "call" and q["arguments"] else says(q)
    )
    answers = {"one": {"action": "accept", "content": {"yes": True}}}
    seen = await about(house, "tasks/update", handle, inputResponses=answers)
    asked_last = [q for q in house.rule.asked if q["phase"] == "call"][-1]
    assert asked_last["arguments"]["to"] == IBAN
    if verdict is Verdict.ASK:
        (request,) = [one.request for one in house.approvals.all(now=house.now)]
        written = {"to": "<IBAN:1>", "body": "x"}
        assert request.arguments == {"arguments": written, "inputResponses": answers}
        assert IBAN not in repr((request.places, request.evidence, request.reasons, seen.bytes))
    else:
        server.completes(text("done"))
        await look(house, handle)
    # Of an answer's bytes a record keeps a keyed hash.
    kept = [{n: f for n, f in r.fields.items() if n != "result"} for r in house.audit.records]
    said = json.dumps(kept, default=str)
    assert "<IBAN:1>" in said
    assert IBAN not in said


@pytest.fixture
async def waiting() -> tuple[House, str]:
    """Return a house with a task that was called with a token and asks something, and its handle."""
    rule = ToolRule(effect=Effect.EGRESS, destination=("to",), payload=("body",))
    house = House(extensions=frozenset({TASKS}), tools={"send": rule})
    house.gate.people["alice"] = replace(ALICE, trusted_host=True)
    house.rule.says = says
    await house.approve_all()
    await reads(house, f"pay {IBAN}")
    server = Works(house)
    handle = await begin(house, "send", to="<IBAN:1>", body="x")
    server.status, server.more = "input_required", {"inputRequests": {"one": ASKS}}
    await look(house, handle)
    return house, handle


@pytest.mark.parametrize("why", ["its list cannot be read", "it is not visible any more"])
async def test_an_answer_that_is_refused_at_once_stands_on_record_with_tokens(
    waiting: tuple[House, str], why: str
) -> None:
    house, handle = waiting
    if why == "its list cannot be read":

        async def fails() -> None:
            raise UpstreamFailed(why)

        house.catalogs.first = fails
    else:
        house.rule.digest = "sha256:another"
        house.rule.says = lambda q: Verdict.DENY if q["phase"] == "list" else says(q)
    answers = {"one": {"action": "accept", "content": {"yes": True}}}
    seen = await about(house, "tasks/update", handle, inputResponses=answers)
    assert seen.code in {"upstream_failed", "unknown_tool"}
    assert house.last["arguments"] == {"to": "<IBAN:1>", "body": "x", "inputResponses": answers}
    kept = [{n: f for n, f in r.fields.items() if n != "result"} for r in house.audit.records]
    assert IBAN not in json.dumps(kept, default=str)


async def test_a_tasks_tokens_are_put_back_once(waiting: tuple[House, str]) -> None:
    """What one stands for may look like another."""
    house, handle = waiting
    (late,) = house.late.unsettled(now=9e9)
    looks = {**late.params, "arguments": {"to": IBAN, "body": "<IBAN:1>"}}
    house.late._book.keep(replace(late, params=looks))
    answers = {"one": {"action": "accept", "content": {"yes": True}}}
    await about(house, "tasks/update", handle, inputResponses=answers)
    told = [q for q in house.rule.asked if q["phase"] == "call"][-1]["arguments"]
    assert told == {"to": IBAN, "body": "<IBAN:1>", "inputResponses": answers}
    assert house.last["arguments"] == {"to": "<IBAN:1>", "body": "x", "inputResponses": answers}


async def test_room_for_a_task_is_looked_for_as_it_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was written is kept beside what is sent, and a call that was sent is not taken back."""
    house = House(extensions=frozenset({TASKS}))
    house.gate.people["alice"] = replace(ALICE, trusted_host=True)
    house.rule.says = says
    await house.approve_all()
    await reads(house, f"pay {IBAN}")
    server = Works(house)
    await begin(house, "send", to="<IBAN:1>")
    (kept,) = (house.late.find(one) for one in house.late._book.ids())
    assert kept is not None
    for share, code in ((2 * kept.octets - 1, "rate_limited"), (2 * kept.octets, None)):
        monkeypatch.setattr(late_calls, "SHARE", share)
        sent = len(server.saw)
        seen = await house.handle(house.call("send", {"to": "<IBAN:1>"}, _meta=META))
        assert (seen.code, len(server.saw) - sent) == (code, code is None)


async def test_policy_is_told_of_each_value_whether_it_says_where_the_call_goes(
    house: House,
) -> None:
    card = "4111 1111 1111 1111"
    said = {"to": f"{card}, bob@client.example", "memo": f"bob@client.example: {card}"}
    await house.handle(house.call("send", said))
    found = {
        row["path"]: row["place"] for row in asked(house)["arguments"] if row["class"] == "card"
    }
    assert found == {"$.to": True, "$.memo": False}

"""What a run's results prove to its later calls, through the whole pipeline."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest

from gateway.domain.approvals import Span
from gateway.domain.calls import Call, Form
from gateway.domain.decisions import Verdict
from gateway.domain.flow import NOWHERE, Source
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT, Effect, ToolRule
from gateway.domain.tools import Kind, Profile
from gateway.flow import schemas
from gateway.pipeline import schemas as pipeline_schemas
from gateway.pipeline.schemas import Schemas
from tests.pipeline.house import (
    ALICE,
    TOOLS,
    TRUSTED,
    UNHINTED,
    Events,
    House,
    Seen,
    event,
    result,
    text,
    whole,
)

PEOPLE = {
    "name": "people",
    "description": "List people.",
    "inputSchema": {"type": "object"},
    "outputSchema": {
        "type": "object",
        "properties": {
            "people": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "email": {"type": "string"},
                        "page": {"type": "string", "format": "uri"},
                        "note": {"type": "string"},
                    },
                },
            }
        },
    },
}
PERSON = {"email": "kim@c.example", "page": "https://c.example/", "note": "nota@c.example"}
SEND = ToolRule(effect=Effect.EGRESS, destination=("to",))


async def built(*, trusted: bool, write: ToolRule = SEND) -> House:
    label = TRUSTED if trusted else STRICTEST_DEFAULT
    house = House(
        tools={
            "people": ToolRule(result=label),
            "send": write,
            "search": ToolRule(result=STRICTEST_DEFAULT),
        }
    )
    await house.show(PEOPLE, *TOOLS.values())
    await house.approve(Kind.TOOL, "people")
    await house.approve_all()
    return house


async def told(house: House, content: dict[str, Any], name: str = "people") -> Seen:
    house.server.answer = lambda permit: result(permit, content)
    return await house.handle(house.call(name, {}))


async def proofs(house: House, *values: str) -> list[str]:
    """Return the proofs that policy is told of for a message to `values`."""
    house.server.answer = lambda permit: result(permit, text("sent"))
    await house.handle(house.call("send", {"to": list(values)}))
    asked = [q for q in house.rule.asked if q["phase"] == "call" and q["target"]["name"] == "send"]
    return [f"{one['proof']} {one['integrity']}" for one in asked[-1]["flow"]["destinations"]]


async def test_fields_that_the_approved_schema_says_hold_identifiers_are_typed() -> None:
    for trusted in (False, True):
        house = await built(trusted=trusted)
        await told(house, {"structuredContent": {"people": [PERSON]}, "content": []})
        word = "trusted" if trusted else "untrusted"
        assert await proofs(house, *PERSON.values()) == [
            f"typed {word}",
            f"typed {word}",
            "trusted_result trusted" if trusted else "none untrusted",
        ]


@pytest.mark.parametrize(
    "content",
    [
        {"isError": True, "structuredContent": {"people": [PERSON]}, "content": []},
        {"isError": True, "content": [{"type": "text", "text": "who is kim@c.example"}]},
    ],
)
async def test_an_error_proves_nothing_even_of_a_trusted_tool(content: dict[str, Any]) -> None:
    house = await built(trusted=True)
    await told(house, content)
    assert await proofs(house, "kim@c.example") == ["none untrusted"]


async def test_what_a_call_writes_is_known_although_its_answer_never_came() -> None:
    house = await built(trusted=True)
    await told(house, text("outsiders"), "search")
    house.server.answer = lambda permit: result(permit, {"resultType": "unheard"})
    await house.handle(house.call("send", {"to": [], "body": "x@evil.com"}))
    await told(house, {"structuredContent": {"people": [{"email": "x@evil.com"}]}, "content": []})
    assert await proofs(house, "x@evil.com") == ["typed untrusted"]


async def test_what_a_call_says_before_anything_untrusted_is_read_is_the_users() -> None:
    house = await built(trusted=True)
    await proofs(house, "kim@c.example")
    await told(house, text("outsiders"), "search")
    await proofs(house, "x@evil.com")
    assert await proofs(house, "kim@c.example", "x@evil.com") == ["task trusted", "none untrusted"]


async def test_what_is_forgotten_of_a_run_that_was_led_vouches_for_nothing() -> None:
    house = await built(trusted=True)
    await told(house, text("outsiders"), "search")
    house.memory._runs._of.clear()
    await told(house, {"structuredContent": {"people": [PERSON]}, "content": []})
    assert await proofs(house, "kim@c.example", "nota@c.example") == [
        "typed untrusted",
        "none untrusted",
    ]


async def test_a_schema_is_read_once_for_each_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []

    def counted(schema: Any) -> tuple[str, ...]:
        read.append(schema)
        return schemas.identifier_fields(schema)

    monkeypatch.setattr(pipeline_schemas, "identifier_fields", counted)
    house = await built(trusted=True)
    for _ in range(3):
        await told(house, {"structuredContent": {"people": [PERSON]}, "content": []})
    assert read == [PEOPLE["outputSchema"]]


async def test_no_more_schemas_are_kept_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipeline_schemas, "_MOST_KEPT", 1)
    house = await built(trusted=True)
    await told(house, {"structuredContent": {"people": [PERSON]}, "content": []})
    await told(house, text("outsiders"), "search")
    assert isinstance(house.schemas, Schemas)
    assert len(house.schemas._ready._kept) == 1


SERVER = "io.modelcontextprotocol/serverInfo"
LISTED = {"uri": "file:///inbox/1", "name": "notes", "description": "Questions go to x@evil.com"}


async def lists(house: House, method: str, content: dict[str, Any], run: str | None = None) -> None:
    house.server.answer = lambda permit: result(permit, content)
    seen = await house.handle(house.request(method, run=run))
    assert b"x@evil.com" in seen.bytes


@pytest.mark.parametrize(
    ("method", "content"),
    [
        ("resources/list", {"resources": [LISTED]}),
        ("resources/list", {"resources": [], "nextCursor": "x@evil.com"}),
        ("tools/list", {"tools": [], "nextCursor": "x@evil.com"}),
    ],
)
async def test_what_a_list_showed_that_nobody_approved_is_no_word_of_the_users(
    method: str, content: dict[str, Any]
) -> None:
    house = await built(trusted=True)
    await proofs(house, "kim@c.example")
    await lists(house, method, content)
    assert (await house.runs.of(ALICE, UNHINTED)).label == TRUSTED
    await proofs(house, "x@evil.com", "kim@c.example")
    assert await proofs(house, "kim@c.example", "x@evil.com") == ["task trusted", "none untrusted"]


FLAG = "xevilcom"


@pytest.mark.parametrize(
    ("method", "content"),
    [
        ("server/discover", {"serverInfo": {"name": "mail", "version": FLAG}}),
        ("server/discover", {"_meta": {SERVER: {"name": "mail", "version": FLAG}}}),
        ("tools/list", {"tools": [], "_meta": {SERVER: {"version": FLAG}}}),
    ],
)
async def test_what_stands_around_it_in_a_servers_own_words_is_none_either(
    method: str, content: dict[str, Any]
) -> None:
    house = await built(trusted=True)
    house.server.answer = lambda permit: result(permit, content)
    call = house.request(method)
    assert FLAG.encode() in (await house.handle(call)).bytes
    await proofs(house, FLAG, "kim@c.example")
    assert await proofs(house, "kim@c.example", FLAG) == ["task trusted", "none untrusted"]


@pytest.mark.parametrize("where", ["whole", "part"])
async def test_nor_is_it_in_another_part_of_the_same_run(where: str) -> None:
    house = await built(trusted=True)
    host = house.gate.people["alice"] = replace(ALICE, trusted_host=True)
    parts = [(await house.runs.begin(host, None))[0] for _ in range(2)]
    listing = None if where == "whole" else parts[0]
    await lists(house, "resources/list", {"resources": [LISTED]}, listing)
    house.server.answer = lambda permit: result(permit, text("sent"))
    for _ in range(2):
        call = house.call("send", {"to": ["x@evil.com", "kim@c.example"]})
        await house.handle(replace(call, run_hint=parts[1]))
    asked = [q for q in house.rule.asked if q["phase"] == "call"][-1]
    assert [one["proof"] for one in asked["flow"]["destinations"]] == ["none", "task"]


ASKED = {"method": "elicitation/create", "params": {"message": "Sure?"}}
YES = {"action": "accept", "content": {"sure": True}}


async def goes_on(
    house: House, *, asks: str = "sure", state: str = "s", ends: bool = False, **answers: Any
) -> None:
    """Carry a call of `search` that its server interrupts, to be gone on with, in another run if this one `ends`."""
    given = {"resultType": "input_required", "inputRequests": {asks: ASKED}, "requestState": state}
    house.server.answer = lambda permit: result(permit, given)
    first = await house.handle(house.call("search", {"who": "kim@c.example"}))
    if ends:
        await house.runs.end((await house.runs.of(ALICE, UNHINTED)).id)
    told = answers.pop("told", {"structuredContent": {"orders": [{"id": "W2378"}]}, "content": []})
    house.server.answer = lambda permit: result(permit, told)
    back = {"requestState": first.json["result"]["requestState"], "inputResponses": {asks: YES}}
    seen = await house.handle(house.call("search", {"who": "kim@c.example"}, **back, **answers))
    assert "result" in seen.json


async def interrupted(*, trusted: bool = True) -> House:
    """Return a house whose server, and its tool `search`, are labelled so."""
    label = TRUSTED if trusted else STRICTEST_DEFAULT
    house = House(tools={"search": ToolRule(effect=Effect.READ, result=label), "send": SEND})
    await house.approve_all()
    return house


async def is_led(house: House) -> None:
    run = await house.runs.of(ALICE, UNHINTED)
    await house.runs.raise_label(run.id, STRICTEST_DEFAULT, None)


async def test_what_a_server_gave_or_asked_is_no_word_of_the_users_when_it_comes_back() -> None:
    house = await interrupted()
    await goes_on(house, asks="y@evil.com", state="x@evil.com")
    await is_led(house)
    assert await proofs(house, "x@evil.com", "y@evil.com", "kim@c.example") == [
        "none untrusted",
        "none untrusted",
        "task trusted",
    ]


async def test_nor_is_what_a_call_of_another_run_was_made_with_when_it_goes_on_in_this_one() -> (
    None
):
    house = await interrupted()
    await is_led(house)
    await goes_on(house, ends=True)
    await is_led(house)
    assert await proofs(house, "kim@c.example") == ["none untrusted"]


@pytest.mark.parametrize("ends", [False, True])
async def test_nor_was_looked_up_what_it_is_answered_with(ends: bool) -> None:
    house = await interrupted(trusted=False)
    if ends:
        await is_led(house)
        await goes_on(house, ends=True)
    else:
        await told(
            house, {"structuredContent": {"orders": [{"id": "W2378"}]}, "content": []}, "search"
        )
    await proofs(house, "W2378")
    asked = [q for q in house.rule.asked if q["phase"] == "call"][-1]
    (found,) = asked["flow"]["destinations"]
    assert (found["from"]["minted"], found["from"]["clean"]) == (True, not ends)


async def test_an_answer_to_a_server_proves_nothing_when_it_comes_back() -> None:
    house = await interrupted()
    await is_led(house)
    answer = {"action": "accept", "content": {"who": "x@evil.com"}}
    again = {"resultType": "input_required", "inputRequests": {"sure": ASKED}, "requestState": "s"}
    house.server.answer = lambda permit: result(permit, again)
    first = await house.handle(house.call("search", {}))
    house.server.answer = lambda permit: result(permit, text("x@evil.com"))
    state = first.json["result"]["requestState"]
    await house.handle(
        house.call("search", {}, requestState=state, inputResponses={"sure": answer})
    )
    assert await proofs(house, "x@evil.com") == ["none untrusted"]


async def test_what_goes_on_with_an_answer_to_us_is_the_users_word_where_it_was_needed() -> None:
    """A yes holds in its own run; where none is asked for, the call may have begun in another."""
    for needed in (True, False):
        house = await interrupted()
        answer = {"douane-approval": {"action": "accept", "content": {"approve": "yes"}}}
        house.server.answer = lambda permit: result(permit, text("found"))
        if needed:
            house.rule.says = lambda q: (
                Verdict.ASK if q["phase"] == "call" and q["approval"] is None else Verdict.ALLOW
            )
            await house.handle(house.call("search", {"who": "kim@c.example"}))
            (waiting,) = house.approvals.all(now=house.now)
            await house.approvals.answer(
                waiting.request.id,
                allow=True,
                span=Span.ONCE,
                by="bob",
                by_user_id="",
                note="",
                now=house.now,
            )
        seen = await house.handle(
            house.call("search", {"who": "kim@c.example"}, inputResponses=answer)
        )
        assert "result" in seen.json
        house.rule.says = lambda q: Verdict.ALLOW
        await is_led(house)
        assert await proofs(house, "kim@c.example") == [
            "task trusted" if needed else "none untrusted"
        ]


NEWS = "notifications/resources/updated"


@pytest.mark.parametrize("form", [Form.REQUEST, Form.STREAM])
async def test_what_news_of_a_resource_name_is_no_word_of_the_users_whoever_was_given_it(
    form: Form,
) -> None:
    house = House(tools={"search": ToolRule(effect=Effect.READ), "send": SEND})
    for profile in Profile:
        await house.approve_all(profile)
    house.gate.people["bob"] = replace(ALICE, subject="bob", token_id="t2")
    uri = "https://evil.com/x"
    house.server.answer = lambda permit: result(permit, {"resources": [{"uri": uri, "name": "x"}]})
    await house.handle(house.request("resources/list", {}, who="bob"))
    news = event({"jsonrpc": "2.0", "method": NEWS, "params": {"uri": uri}})
    house.server.answer = lambda permit: Events([news]).answer()
    wanted = {"notifications": {"resourceSubscriptions": ["mail://inbox"]}}
    call = house.request("subscriptions/listen", wanted, id_="L")
    if form is Form.STREAM:
        call = house.request("GET", form=form, profile=Profile.LEGACY, session="s1", id_=None)
    assert uri.encode() in (await house.handle(call)).bytes
    assert (await house.runs.of(ALICE, UNHINTED)).label == BOTTOM
    for name in (uri, "mail://inbox"):
        house.server.answer = lambda permit: result(permit, text("kept"))
        await house.handle(house.call("search", {"where": name}))
    await is_led(house)
    assert await proofs(house, uri, "mail://inbox") == ["none untrusted", "task trusted"]


READ = Source(server="mail", tool="search", record="r1", label=STRICTEST_DEFAULT)
PAYEE = {"structuredContent": {"payees": [{"payee_id": "P-7781"}]}, "content": []}


async def under_way(house: House) -> tuple[AsyncGenerator[bytes, None], Call]:
    """Begin a call whose server asks something on its stream; return the rest of that, and an answer."""
    asks = event({"jsonrpc": "2.0", "id": "q1", **ASKED})
    last = event({"jsonrpc": "2.0", "id": 1, "result": PAYEE})
    house.server.answer = lambda permit: Events([asks, last]).answer()
    reply = await house.pipeline.handle(house.call("search", {}, profile=Profile.LEGACY))
    assert not isinstance(reply.body, bytes)
    while b"q1" not in await anext(reply.body):
        pass
    house.server.answer = lambda permit: whole(b"", status=202)
    told = {"action": "accept", "content": {"who": "P-7781"}}
    answer = house.request("", told, form=Form.RESPONSE, id_="q1", profile=Profile.LEGACY)
    return reply.body, answer


@pytest.mark.parametrize(
    ("meanwhile", "looked_up"),
    [
        ("nothing", True),
        ("answers", False),
        ("writes", False),
        ("ends", False),
        ("ends, and another begins", False),
        ("roams", False),
        ("is forgotten", False),
    ],
)
async def test_nor_was_looked_up_what_a_led_run_can_have_asked_for_while_the_call_was_under_way(
    meanwhile: str, looked_up: bool
) -> None:
    house = await interrupted(trusted=False)
    await house.show({"name": "mail", "version": "1"}, kind=Kind.SERVER, profile=Profile.LEGACY)
    for profile in Profile:
        await house.approve_all(profile)
    rest, answer = await under_way(house)
    await is_led(house)
    if meanwhile == "answers":
        assert (await house.handle(answer)).reply.status == HTTPStatus.ACCEPTED
    if meanwhile == "writes":
        house.server.answer = lambda permit: result(permit, text("done"))
        await house.handle(house.call("send", {"to": "P-7781"}))
    if meanwhile == "roams":
        run = await house.runs.of(ALICE, UNHINTED)
        await house.runs.raise_label(run.id, STRICTEST_DEFAULT, None, heard=NOWHERE)
    if meanwhile.startswith("ends"):
        await house.runs.end((await house.runs.of(ALICE, UNHINTED)).id)
    if meanwhile == "ends, and another begins":
        house.server.answer = lambda permit: result(permit, text("fine"))
        await house.handle(house.call("search", {}))
    if meanwhile == "is forgotten":
        run = await house.runs.of(ALICE, UNHINTED)
        await house.runs.raise_label(run.id, STRICTEST_DEFAULT, READ)
        house.memory._runs._of.clear()
    assert b"P-7781" in b"".join([part async for part in rest])
    assert await proofs(house, "P-7781") == ["typed untrusted"]
    asked = [q for q in house.rule.asked if q["phase"] == "call"][-1]
    (found,) = asked["flow"]["destinations"]
    assert (found["from"]["minted"], found["from"]["clean"]) == (True, looked_up)

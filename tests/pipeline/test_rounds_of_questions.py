"""What a server gives and asks one principal in the middle of a call no other can bring back."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import Call
from gateway.domain.decisions import Duty, Obligation, Verdict
from gateway.domain.scripts import Script, ScriptId
from gateway.domain.tools import Kind, Profile, UpstreamId
from gateway.flow.given import Sort
from gateway.pipeline.rounds import is_its_state
from gateway.wire.jsonrpc import INVALID_PARAMS
from gateway.wire.rounds import LONGEST_STATE
from tests.pipeline.house import ALICE, MAIL, Events, House, decision, event, result, text

STATE = "order 7 of alice, agreed"
QUESTION = {"method": "elicitation/create", "params": {"message": "Send it?"}}
YES = {"sure": {"action": "accept", "content": {"ok": True}}}
BOB = replace(ALICE, subject="bob", token_id="t2")
PROFILES = pytest.mark.parametrize("profile", list(Profile))


@pytest.fixture
async def house() -> House:
    built = House()
    built.gate.people["bob"] = BOB
    for profile in Profile:
        await built.approve_all(profile)
        await built.show({"name": "search"}, kind=Kind.PROMPT, profile=profile)
        await built.approve(Kind.PROMPT, "search", profile)
    return built


async def asked(
    house: House, call: Call | None = None, *, streams: bool = False, **more: Any
) -> dict[str, Any]:
    """Return what a caller is asked in the middle of a call; `more` of the result, or less."""
    needed = {"resultType": "input_required", "inputRequests": {"sure": QUESTION}, "requestState": STATE, **more}  # fmt: skip
    needed = {name: part for name, part in needed.items() if part is not None}
    final = {"jsonrpc": "2.0", "id": 1, "result": needed}
    house.server.answer = lambda permit: (
        Events([event(final)]).answer() if streams else result(permit, needed)
    )
    seen = await house.handle(call or house.call())
    house.server.answer = lambda permit: result(permit, text("done"))
    house.server.saw.clear()
    found: dict[str, Any] = (seen.messages[-1] if streams else seen.json)["result"]
    return found


async def refused(house: House, call: Call) -> bool:
    """Whether a call is refused by the protocol, reaches no server and no policy, and is on record."""
    house.rule.asked.clear()
    seen = await house.handle(call)
    error = seen.json.get("error", {})
    assert STATE.encode() not in b"".join(entry.body for entry in house.audit.entries)
    if not error:
        return False
    assert (error["code"], house.server.saw, house.rule.asked) == (INVALID_PARAMS, [], [])
    assert house.last["code"] == "protocol_error"
    return True


@PROFILES
@pytest.mark.parametrize("streams", [False, True])
async def test_a_state_comes_home_from_whom_it_was_given_to(house, profile, streams):
    given = await asked(house, house.call(profile=profile), streams=streams)
    assert STATE not in given["requestState"]
    back = {"requestState": given["requestState"], "inputResponses": YES}
    seen = await house.handle(house.call(profile=profile, **back))
    assert seen.json["result"] == text("done")
    (permit,) = house.server.saw
    expected = {"name": "search", "arguments": {}, "requestState": STATE, "inputResponses": YES}
    assert permit.call.message.params == expected
    assert STATE.encode() in permit.call.message.body
    assert given["requestState"].encode() not in permit.call.message.body


async def test_what_is_judged_is_what_the_server_gets(house):
    given = await asked(house)
    house.rule.asked.clear()
    await house.handle(house.call(requestState=given["requestState"]))
    question = next(q for q in house.rule.asked if q["phase"] == "call")
    assert question["arguments"] == {"requestState": STATE}
    assert question["flow"]["destinations"] == []


@PROFILES
async def test_no_other_principal_brings_it_back(house, profile):
    given = await asked(house, house.call(profile=profile))
    state = given["requestState"]
    assert await refused(house, house.call(who="bob", profile=profile, requestState=state))
    both = {"requestState": state, "inputResponses": YES}
    assert await refused(house, house.call(who="bob", profile=profile, **both))
    assert not await refused(house, house.call(profile=profile, **both))


async def test_nor_does_it_go_anywhere_else(house):
    state = (await asked(house))["requestState"]
    assert await refused(house, house.call("send", requestState=state))
    prompt = {"name": "search", "requestState": state}
    assert await refused(house, house.request("prompts/get", prompt))
    elsewhere = replace(house.call(requestState=state), server=UpstreamId("web"))
    assert await refused(house, elsewhere)


async def test_nor_do_a_persons_programs_bring_back_what_the_person_was_given(house):
    house.gate.people["robot"] = replace(ALICE, script=ScriptId("s_1"))
    times = {"began": house.now, "expires_at": house.now + 60}
    script = Script(id=ScriptId("s_1"), principal=ALICE.key, sha256="ab" * 32, grants=None, most=None, parent="", **times)  # fmt: skip
    await house.scripts.begin(script)
    ours = (await asked(house))["requestState"]
    assert await refused(house, house.call(who="robot", requestState=ours))
    theirs = (await asked(house, house.call(who="robot")))["requestState"]
    assert await refused(house, house.call(requestState=theirs))
    assert not await refused(house, house.call(who="robot", requestState=theirs))


def spellings(state: str) -> list[Any]:
    """Return everything else that somebody could try instead of `state`."""
    prefix, text_, mac = state.split(".")
    return [
        STATE, "", None, 7, [state], {"": state},
        f"{state}-TAMPERED", state[:-1], state.upper(), f" {state}", f"{state}\n",
        f"{prefix}.{text_}=.{mac}", f"{prefix}.{text_}.{'0' * 64}", f"{prefix}..{mac}", mac,
        f"{prefix}.{base64.urlsafe_b64encode(b'order 8').decode()}.{mac}", f"{prefix}.\ud800.{mac}",
        "x" * (4 * LONGEST_STATE),
    ]  # fmt: skip


async def test_nothing_else_opens(house):
    state = (await asked(house))["requestState"]
    for other in spellings(state):
        assert await refused(house, house.call(requestState=other)), repr(other)[:80]


async def test_a_question_is_answered_by_whom_it_was_put_to(house):
    given = await asked(house, requestState=None)
    assert "requestState" not in given
    assert await refused(house, house.call(who="bob", inputResponses=YES))
    assert await refused(house, house.call("send", inputResponses=YES))
    assert not await refused(house, house.call(inputResponses=YES))
    await asked(house, house.call(who="bob"), requestState=None)
    assert not await refused(house, house.call(who="bob", inputResponses=YES))


async def test_a_state_of_ones_own_does_not_open_the_question_of_another(house):
    await asked(house, inputRequests={"of-alice": QUESTION})
    own = await asked(house, house.call(who="bob"))
    answers = {**YES, "of-alice": YES["sure"]}
    mixed = house.call(who="bob", requestState=own["requestState"], inputResponses=answers)
    assert await refused(house, mixed)


async def test_what_nobody_asked_is_judged_as_before(house):
    assert not await refused(house, house.call(inputResponses={"never-asked": YES["sure"]}))
    (permit,) = house.server.saw
    assert permit.call.message.params["inputResponses"] == {"never-asked": YES["sure"]}


async def test_a_state_that_is_too_long_is_no_answer(house):
    needed = {"resultType": "input_required", "requestState": "x" * LONGEST_STATE}
    house.server.answer = lambda permit: result(permit, needed)
    given = (await house.handle(house.call())).json["result"]["requestState"]
    house.server.answer = lambda permit: result(permit, text("done"))
    assert not await refused(house, house.call(requestState=given))
    longer = {**needed, "requestState": "x" * LONGEST_STATE + "x"}
    house.server.answer = lambda permit: result(permit, longer)
    assert (await house.handle(house.call())).code == "upstream_failed"
    house.server.answer = lambda permit: result(permit, {**needed, "requestState": 7})
    assert (await house.handle(house.call())).code == "upstream_failed"


async def test_it_is_sealed_whatever_else_is_done_to_the_answer(house):
    redact = Obligation(duty=Duty.REDACT, detail={"patterns": ["agreed"]})
    house.rule.says = lambda question: decision(Verdict.ALLOW, obligations=[redact])
    given = await asked(house)
    assert given["requestState"].startswith("douane-state.")
    await house.handle(house.call(requestState=given["requestState"]))
    (permit,) = house.server.saw
    assert permit.call.message.params["requestState"].startswith("order 7 of alice")


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("kind", ["complete", "input_required"])
async def test_one_that_a_duty_leaves_out_is_missed_by_nobody(house, kind, streams):
    truncate = Obligation(duty=Duty.TRUNCATE, detail={"bytes": 5})
    house.rule.says = lambda question: decision(Verdict.ALLOW, obligations=[truncate])
    said = {"resultType": kind, "inputRequests": None, **text("hello world")}
    given = await asked(house, streams=streams, **said)
    assert ("requestState" in given, given["content"][0]["text"][:5]) == (False, "hello")


async def test_it_goes_home_although_everything_was_forgotten_meanwhile(house):
    given = await asked(house)
    house.memory.given.__init__()
    house.rule.asked.clear()
    await house.handle(house.call(requestState=given["requestState"]))
    question = next(q for q in house.rule.asked if q["phase"] == "call")
    assert question["flow"]["destinations"] == []


async def test_it_is_given_to_nobody_else_by_that(house):
    given = await asked(house)
    back = {"requestState": given["requestState"], "inputResponses": YES}
    await house.handle(house.call(**back))
    given, call = house.memory.given, house.call(**back)
    assert is_its_state(given, call, ALICE, STATE)
    assert not is_its_state(given, call, BOB, STATE)
    assert not is_its_state(given, house.call("other", **back), ALICE, STATE)
    for sort in set(Sort) - {Sort.STATE}:
        assert not given.has(MAIL, STATE, to=ALICE.key, sort=sort)

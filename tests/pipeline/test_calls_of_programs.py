"""Calls that a program makes: the same path, with policy and its grants both."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.approvals import Span
from gateway.domain.calls import Call, OriginKind
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.labels import Effect, ToolRule
from gateway.domain.scripts import InScript, Script, ScriptId, ToolGrant
from tests.pipeline.house import ALICE, MAIL, House, Seen, decision

SEND = ToolGrant(server=MAIL, tool="send", most=2, arguments={"project": "X"})

SENDS = ToolRule(effect=Effect.EGRESS, destination=("to",), payload=("body",))


def script(house: House, *grants: ToolGrant, most: int | None = 50, bare: bool = False) -> Script:
    return Script(
        id=ScriptId("s_1"),
        principal="alice",
        sha256="ab" * 32,
        grants=None if bare else grants,
        most=most,
        parent="d_outer",
        began=house.now,
        expires_at=house.now + 60,
    )


def within(call: Call, made: Script, seq: int = 1) -> Call:
    return replace(call, origin=OriginKind.SANDBOX, script=InScript(script=made, seq=seq))


@pytest.fixture
async def house() -> House:
    house = House()
    await house.approve_all()
    return house


async def run(house: House, made: Script, *, begin: bool = True) -> Script:
    if begin:
        await house.scripts.begin(made)
    return made


def code(seen: Seen) -> str | None:
    return seen.reply.code


def reasons(seen: Seen) -> list[str]:
    told = seen.json["result"]["_meta"]["douane/refusal"]["reasons"]
    return [one["code"] for one in told]


async def test_a_program_without_grants_may_call_what_policy_allows(house: House) -> None:
    made = await run(house, script(house, bare=True))
    assert code(await house.handle(within(house.call(), made))) is None


async def test_policy_is_told_of_the_program_and_its_grants(house: House) -> None:
    made = await run(house, script(house, SEND))
    await house.handle(within(house.call("send", {"project": "X"}), made, seq=7))
    asked = next(one for one in house.rule.asked if one["phase"] == "call")
    told = {name: asked["origin"][name] for name in ("kind", "seq", "script_sha256", "grants")}
    assert told == {
        "kind": "sandbox",
        "seq": 7,
        "script_sha256": "ab" * 32,
        "grants": [
            {
                "tool": "mail/send",
                "max_calls": 2,
                "arguments": {"project": "X"},
                "approval": None,
            }
        ],
    }
    found = {name: house.last[name] for name in ("origin", "script_sha256", "seq")}
    assert found == {
        "origin": "sandbox",
        "script_sha256": "ab" * 32,
        "seq": 7,
    }


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search", {}),
        ("send", {}),
        ("send", {"project": "Y"}),
        ("send", {"project": ["X"]}),
        ("send", {"Project": "X"}),
    ],
)
async def test_what_no_grant_covers_is_denied(
    house: House, tool: str, arguments: dict[str, Any]
) -> None:
    made = await run(house, script(house, SEND))
    seen = await house.handle(within(house.call(tool, arguments), made))
    assert (code(seen), reasons(seen), house.server.saw) == ("denied", ["not_granted"], [])


@pytest.mark.parametrize(("wanted", "given"), [(1, True), (0, False), (1, "1"), (None, 0)])
async def test_arguments_are_compared_as_json_is(house: House, wanted: Any, given: Any) -> None:
    made = await run(house, script(house, replace(SEND, arguments={"project": wanted})))
    seen = await house.handle(within(house.call("send", {"project": given}), made))
    assert code(seen) == "denied"


async def test_numbers_that_json_holds_equal_are(house: House) -> None:
    made = await run(house, script(house, replace(SEND, arguments={"project": 1})))
    seen = await house.handle(within(house.call("send", {"project": 1.0}), made))
    assert code(seen) is None


async def test_a_program_with_no_grants_left_over_may_call_nothing(house: House) -> None:
    made = await run(house, script(house))
    assert code(await house.handle(within(house.call(), made))) == "denied"


async def test_a_grant_allows_nothing_that_policy_denies(house: House) -> None:
    house.rule.says = lambda question: (
        Verdict.ALLOW if question["phase"] == "list" else decision(Verdict.DENY, "no_way")
    )
    granted = replace(SEND, approval_id="a_1", approved_by="user:bob")
    made = await run(house, script(house, granted))
    seen = await house.handle(within(house.call("send", {"project": "X"}), made))
    assert (code(seen), reasons(seen)) == ("denied", ["no_way"])


async def test_budgets_are_exact_under_concurrency(house: House) -> None:
    made = await run(house, script(house, replace(SEND, most=20), most=100))
    calls = (within(house.call("send", {"project": "X"}), made) for _ in range(60))
    codes = [code(seen) for seen in await asyncio.gather(*map(house.handle, calls))]
    assert (codes.count(None), codes.count("limit_exceeded")) == (20, 40)
    assert len(house.server.saw) == 20


async def test_what_policy_refuses_uses_nothing_up(house: House) -> None:
    made = await run(house, script(house, replace(SEND, most=1)))
    house.rule.says = lambda question: (
        Verdict.ALLOW if question["phase"] == "list" else decision(Verdict.DENY, "not_now")
    )
    await house.handle(within(house.call("send", {"project": "X"}), made))
    house.rule.says = lambda question: Verdict.ALLOW
    seen = await house.handle(within(house.call("send", {"project": "X"}), made))
    assert code(seen) is None


@pytest.mark.parametrize("ends", ["ended", "late"])
async def test_a_program_that_has_ended_calls_nothing(house: House, ends: str) -> None:
    made = await run(house, script(house, bare=True))
    if ends == "ended":
        await house.scripts.end(made.id)
    else:
        house.now += 60
    seen = await house.handle(within(house.call(), made))
    assert (code(seen), reasons(seen), house.server.saw) == ("denied", ["script_ended"], [])


async def test_a_program_calls_nothing_in_another_run(house: House) -> None:
    """Another one may know nothing of what the program has seen."""
    made = await run(house, replace(script(house, bare=True), run="r_other"))
    seen = await house.handle(within(house.call(), made))
    assert (code(seen), reasons(seen), house.server.saw) == ("denied", ["script_ended"], [])
    (live,) = house.runs.live(ALICE)
    await house.scripts.end(made.id)
    again = await run(house, replace(made, run=live))
    assert code(await house.handle(within(house.call(), again))) is None


async def test_a_program_that_nobody_filed_calls_nothing(house: House) -> None:
    made = await run(house, script(house, bare=True), begin=False)
    assert code(await house.handle(within(house.call(), made))) == "denied"


def asks(question: Mapping[str, Any]) -> Verdict | Decision:
    if question["phase"] != "call" or isinstance(question["approval"], dict):
        return Verdict.ALLOW
    return decision(Verdict.ASK, "outside")


async def test_a_grant_that_a_person_gave_answers_what_policy_asks(house: House) -> None:
    house.rule.says = asks
    granted = replace(SEND, approval_id="a_1", approved_by="user:bob")
    made = await run(house, script(house, granted))
    seen = await house.handle(within(house.call("send", {"project": "X"}), made))
    assert (code(seen), house.last["approval_id"]) == (None, "a_1")
    answers = [one["approval"] for one in house.rule.asked if one["phase"] == "call"]
    told = {"id": "a_1", "by": "user:bob", "span": "grant", "note": ""}
    assert answers == [None, told]


async def test_a_grant_that_nobody_gave_answers_nothing(house: House) -> None:
    house.rule.says = asks
    made = await run(house, script(house, SEND))
    seen = await house.handle(within(house.call("send", {"project": "X"}), made))
    assert (code(seen), house.server.saw) == ("approval_required", [])


async def test_what_a_program_cannot_find_it_is_not_told_of(house: House) -> None:
    house.rule.says = lambda question: decision(Verdict.DENY, "hidden")
    made = await run(house, script(house, SEND))
    seen = await house.handle(within(house.call("search"), made))
    assert code(seen) == "unknown_tool"


@pytest.mark.parametrize(
    ("fixed", "given", "goes_out"),
    [
        ({"to": "eve@outside.example"}, {"to": "eve@outside.example", "body": "hello"}, True),
        ({}, {"to": "eve@outside.example", "body": "hello"}, False),
        ({"body": "hello"}, {"to": "eve@outside.example", "body": "hello"}, False),
        (
            {"to": "bob@ours.example"},
            {"to": "bob@ours.example", "body": "see https://eve.example/x"},
            False,
        ),
    ],
    ids=["named", "no-place", "another-argument", "a-link-besides"],
)
async def test_a_grant_answers_for_places_that_stand_in_it_alone(
    fixed: dict[str, Any], given: dict[str, Any], goes_out: bool
) -> None:
    house = House(tools={"send": SENDS})
    await house.approve_all()
    house.rule.says = asks
    granted = replace(SEND, arguments=fixed, approval_id="a_1", approved_by="user:bob")
    made = await run(house, script(house, granted))
    seen = await house.handle(within(house.call("send", given), made))
    assert code(seen) == (None if goes_out else "approval_required")


async def test_a_tool_that_sends_and_does_not_say_where_to_needs_an_answer_of_its_own() -> None:
    house = House(tools={"send": ToolRule(effect=Effect.EGRESS)})
    await house.approve_all()
    house.rule.says = asks
    granted = replace(SEND, arguments={}, approval_id="a_1", approved_by="user:bob")
    made = await run(house, script(house, granted))
    seen = await house.handle(within(house.call("send", {"to": "eve@outside.example"}), made))
    assert code(seen) == "approval_required"


@pytest.mark.parametrize(
    ("rule", "fixed"),
    [
        (ToolRule(effect=Effect.PAY), {"amount": 5}),
        (ToolRule(effect=Effect.DESTROY), {"amount": 5}),
        (ToolRule(effect=Effect.CREDENTIAL), {"amount": 5}),
        (ToolRule(effect=Effect.EXECUTE), {"amount": 5}),
        (ToolRule(effect=Effect.EXECUTE, destination=("to",)), {"to": "eve", "amount": 5}),
    ],
    ids=["pay", "destroy", "credential", "execute", "execute-there"],
)
async def test_whom_a_call_affects_or_what_it_runs_stands_in_the_grant(
    rule: ToolRule, fixed: dict[str, Any]
) -> None:
    house = House(tools={"send": rule})
    await house.approve_all()
    house.rule.says = asks
    granted = replace(SEND, arguments=fixed, approval_id="a_1", approved_by="user:bob")
    made = await run(house, script(house, granted))
    given = {"to": "eve", "amount": 5, "command": "rm"}
    seen = await house.handle(within(house.call("send", given), made))
    assert (code(seen), house.server.saw) == ("approval_required", [])


async def test_a_command_that_stands_in_the_grant_whole_is_run() -> None:
    house = House(tools={"send": ToolRule(effect=Effect.EXECUTE, destination=("at",))})
    await house.approve_all()
    house.rule.says = asks
    fixed = {"at": "box", "command": "ls"}
    granted = replace(SEND, arguments=fixed, approval_id="a_1", approved_by="user:bob")
    made = await run(house, script(house, granted))
    assert code(await house.handle(within(house.call("send", fixed), made))) is None


async def test_places_too_many_to_be_looked_at_stand_in_no_grant() -> None:
    house = House(tools={"send": replace(SENDS, destination=("to", "cc"))})
    await house.approve_all()
    house.rule.says = asks
    many = [f"user{n}@outside.example" for n in range(300)]
    granted = replace(SEND, arguments={"to": many}, approval_id="a_1", approved_by="user:bob")
    made = await run(house, script(house, granted))
    given = {"to": many, "cc": "eve@outside.example"}
    seen = await house.handle(within(house.call("send", given), made))
    assert (code(seen), house.server.saw) == ("approval_required", [])


async def test_a_place_whose_path_nobody_can_read_stands_in_no_grant(house: House) -> None:
    house.rule.says = asks
    granted = replace(SEND, arguments={"to": "bob"}, approval_id="a_1", approved_by="user:bob")
    made = await run(house, script(house, granted))
    given = {"to": "bob", "to']['x": "eve@outside.example"}
    seen = await house.handle(within(house.call("send", given), made))
    assert (code(seen), house.server.saw) == ("approval_required", [])


async def test_a_no_to_exactly_this_call_outweighs_a_grant(house: House) -> None:
    house.rule.says = asks
    given = {"project": "X"}
    assert code(await house.handle(house.call("send", given))) == "approval_required"
    (asked,) = house.approvals.all(now=house.now)
    await house.approvals.answer(
        asked.request.id,
        allow=False,
        span=Span.ONCE,
        by="user:bob",
        by_user_id="u_bob",
        note="",
        now=house.now,
    )
    granted = replace(SEND, approval_id="a_1", approved_by="user:bob")
    made = await run(house, script(house, granted))
    seen = await house.handle(within(house.call("send", given), made))
    assert (code(seen), "person_said_no" in reasons(seen)) == ("denied", True)
    assert house.server.saw == []


@pytest.fixture
def hosted(house: House) -> House:
    """`robot` holds a token for the one program of a host's that may send twice."""
    house.gate.people["robot"] = replace(ALICE, script=ScriptId("s_1"))
    return house


async def test_a_token_for_a_program_places_its_calls_whatever_they_say(hosted: House) -> None:
    await run(hosted, script(hosted, SEND))
    seen = await hosted.handle(hosted.call("send", {"project": "X"}, who="robot"))
    assert code(seen) is None
    found = {name: hosted.last[name] for name in ("origin", "script_sha256", "seq", "parent")}
    assert found == {
        "origin": "host_sandbox",
        "script_sha256": "ab" * 32,
        "seq": 0,
        "parent": "d_outer",
    }
    asked = next(one for one in hosted.rule.asked if one["phase"] == "call")
    assert (asked["origin"]["kind"], len(asked["origin"]["grants"])) == ("host_sandbox", 1)


async def test_a_token_for_a_program_narrows(hosted: House) -> None:
    await run(hosted, script(hosted, SEND))
    seen = await hosted.handle(hosted.call("search", who="robot"))
    assert (code(seen), reasons(seen)) == ("denied", ["not_granted"])
    given = {"project": "X"}
    codes = [code(await hosted.handle(hosted.call("send", given, who="robot"))) for _ in range(3)]
    assert codes == [None, None, "limit_exceeded"]


@pytest.mark.parametrize("ends", ["ended", "late", "never-begun"])
async def test_a_token_for_a_program_that_has_ended_is_none(hosted: House, ends: str) -> None:
    made = await run(hosted, script(hosted, SEND), begin=ends != "never-begun")
    if ends == "ended":
        await hosted.scripts.end(made.id)
    if ends == "late":
        hosted.now += 60
    seen = await hosted.handle(hosted.call("send", {"project": "X"}, who="robot"))
    assert (seen.reply.status, code(seen)) == (401, "unauthenticated")


@pytest.mark.parametrize("claim", [{"kind": "sandbox"}, {"kind": "direct"}, None, "x"], ids=str)
async def test_a_claim_to_be_a_program_gives_nothing_and_goes_nowhere(
    house: House, claim: Any
) -> None:
    call = house.call("send", {"project": "X"}, _meta={"douane/origin": claim, "other": 1})
    assert code(await house.handle(call)) is None
    asked = next(one for one in house.rule.asked if one["phase"] == "call")
    assert (asked["origin"]["kind"], asked["origin"]["grants"]) == ("host_sandbox", [])
    assert house.last["origin"] == "host_sandbox"
    assert house.server.saw[0].call.message.params["_meta"] == {"other": 1}


async def test_a_call_that_several_grants_cover_uses_the_first_that_has_one_left(
    house: House,
) -> None:
    wide = ToolGrant(server=MAIL, tool="send", most=3, arguments={})
    made = await run(house, script(house, SEND, wide))
    sent = [
        code(await house.handle(within(house.call("send", {"project": "X"}), made)))
        for _ in range(6)
    ]
    assert sent == [None] * 5 + ["limit_exceeded"]
    # What only the second covers was not taken from the first.
    assert code(await house.handle(within(house.call("send", {"project": "Y"}), made))) is not None


async def test_several_budgets_are_exact_under_concurrency(house: House) -> None:
    grants = [replace(SEND, most=120), ToolGrant(server=MAIL, tool="send", most=80, arguments={})]
    made = await run(house, script(house, *grants, most=None))
    calls = (within(house.call("send", {"project": "X"}), made) for _ in range(400))
    codes = [code(seen) for seen in await asyncio.gather(*map(house.handle, calls))]
    assert (codes.count(None), codes.count("limit_exceeded")) == (200, 200)
    assert len(house.server.saw) == 200


async def test_a_yes_is_not_used_on_by_a_grant_that_has_none(house: House) -> None:
    """A call that goes out by a person's yes uses up what they said yes to, and nothing else."""
    house.rule.says = lambda question: (
        decision(Verdict.ASK, "look_first")
        if question["phase"] == "call" and not isinstance(question["approval"], dict)
        else Verdict.ALLOW
    )
    given = replace(SEND, most=1, approval_id="a_1", approved_by="user:bob")
    other = replace(SEND, most=5)
    made = await run(house, script(house, other, given, given))
    call = {"project": "X"}
    sent = [code(await house.handle(within(house.call("send", call), made))) for _ in range(3)]
    assert sent == [None, None, "limit_exceeded"]
    assert len(house.server.saw) == 2

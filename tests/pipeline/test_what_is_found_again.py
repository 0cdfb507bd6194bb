"""What is known of calls before their arguments are is found again only while nothing of it changes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.bounded import ByIdentity
from gateway.domain.calls import Call, CallId, OriginKind
from gateway.domain.decisions import Verdict
from gateway.domain.flow import Task
from gateway.domain.labels import ToolRule
from gateway.domain.tools import Kind, Profile, Target
from tests.pipeline.house import MAIL, PRIVATE, TOOLS, UNHINTED, House

Change = Callable[[House, Call], Any]


async def _regrouped(house: House, _: Call) -> None:
    groups = house.gate.people["alice"].groups ^ {"guests"}
    house.gate.people["alice"] = replace(house.gate.people["alice"], groups=groups)


async def _another_policy(house: House, _: Call) -> None:
    house.rule.digest += "'"


async def _another_definition(house: House, _: Call) -> None:
    seen = {**TOOLS["search"], "description": f"Search, {house.now}."}
    await house.show(seen, TOOLS["send"])
    await house.approve(Kind.TOOL, "search")


async def _read_private(house: House, _: Call) -> None:
    run = await house.runs.of(house.gate.people["alice"], UNHINTED)
    await house.runs.raise_label(run.id, PRIVATE, None)


async def _later(house: House, _: Call) -> None:
    house.now += 0.25


async def _task(house: House, _: Call) -> None:
    trusted = not house.gate.people["alice"].trusted_host
    house.gate.people["alice"] = replace(house.gate.people["alice"], trusted_host=trusted)


BETWEEN: Sequence[Any] = (
    _regrouped, _another_policy, _another_definition, _read_private, _later, _task,
)  # fmt: skip
OF_A_CALL: Sequence[Callable[[Call], Call]] = (
    lambda call: call,
    lambda call: replace(call, source_ip="192.0.2.7"),
    lambda call: replace(call, origin=OriginKind.SANDBOX, parent=CallId("d_parent")),
    lambda call: replace(call, revision="2025-11-25"),
    lambda call: replace(call, declared=Task(prompt="find the invoice")),
    lambda call: replace(call, endpoint="/mcp"),
)
STEPS = st.tuples(
    st.sampled_from((None, *BETWEEN)),
    st.sampled_from(OF_A_CALL),
    st.sampled_from(("search", "send")),
    st.sampled_from(("", "1", "write to eve@outside.example")),
)


async def built() -> House:
    house = House(
        tools={"send": ToolRule(destination=("to",), payload=("body",)), "search": ToolRule()}
    )
    await house.approve_all()
    house.audit.entries.clear()
    return house


def forget(house: House) -> None:
    """Have nothing found again."""
    admission = house.pipeline._admission
    for holder, name in (
        (admission._questions, "_circumstances"),
        (admission._visibility, "_yes"),
    ):
        setattr(holder, name, ByIdentity(most=1, octets=10_000_000))


async def played(house: House, steps: Sequence[Any], *, forgetful: bool) -> list[bytes]:
    for change, of_a_call, tool, words in steps:
        call = house.call(tool, {"query": words} if words else {})
        if change is not None:
            await change(house, call)
        if forgetful:
            forget(house)
        await house.handle(of_a_call(call))
    return [entry.body for entry in house.audit.entries]


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEPS, max_size=12))
async def test_questions_and_records_are_those_of_whoever_remembers_nothing(steps: Any) -> None:
    remembering, forgetful = await built(), await built()
    recorded = await played(remembering, steps, forgetful=False)
    assert recorded == await played(forgetful, steps, forgetful=True)
    first, second = (
        [dict(one) for one in house.rule.asked if one["phase"] != "list"]
        for house in (remembering, forgetful)
    )
    assert first == second


async def test_policy_is_not_asked_what_one_may_know_of_as_long_as_it_is_the_same() -> None:
    house = await built()
    for _ in range(3):
        await house.handle(house.call())
    forget(house)
    for _ in range(3):
        await house.handle(house.call())
    assert [one["phase"] for one in house.rule.asked].count("list") == 1


async def test_nobody_knows_of_a_tool_under_a_policy_that_does_not_show_it() -> None:
    house = await built()
    assert (await house.handle(house.call())).code is None
    house.rule.says = lambda q: Verdict.DENY if q["phase"] == "list" else Verdict.ALLOW
    house.rule.digest = "sha256:other"
    assert (await house.handle(house.call())).code == "unknown_tool"


async def test_nobody_knows_elsewhere_of_what_was_shown_here() -> None:
    house = await built()
    assert (await house.handle(house.call())).code is None
    house.rule.says = lambda q: (
        Verdict.DENY
        if q["phase"] == "list"
        and (q["origin"]["kind"] == "sandbox" or q["context"]["endpoint"] == "/mcp")
        else Verdict.ALLOW
    )
    sandboxed = replace(house.call(), origin=OriginKind.SANDBOX, parent=CallId("d_parent"))
    assert (await house.handle(sandboxed)).code == "unknown_tool"
    assert (await house.handle(replace(house.call(), endpoint="/mcp"))).code == "unknown_tool"


async def test_what_is_kept_of_a_question_holds_no_argument() -> None:
    house = await built()
    await house.handle(house.call("search", {"query": "4711-of-the-caller"}))
    alice = house.gate.people["alice"]
    pin = house.pins.find(Target(server=MAIL, kind=Kind.TOOL, name="search"), Profile.MODERN)
    found = house.pipeline._admission._questions._circumstances.get(alice, pin)
    assert found is not None
    assert b"4711" not in orjson.dumps(found[1].sections)


async def test_a_word_of_a_policy_that_may_not_have_said_it_is_not_kept() -> None:
    house = await built()

    def swapped(question: Any) -> Verdict:
        house.rule.digest = "sha256:other"
        return Verdict.ALLOW

    house.rule.says = swapped
    await house.handle(house.call())
    house.rule.digest = "sha256:policy"
    house.rule.says = lambda q: Verdict.DENY if q["phase"] == "list" else Verdict.ALLOW
    assert (await house.handle(house.call())).code == "unknown_tool"

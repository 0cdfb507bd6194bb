"""What is known of calls before their arguments are is found again only while nothing of it changes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.bounded import ByIdentity
from gateway.domain.calls import Call, CallId, OriginKind
from gateway.domain.decisions import Verdict
from gateway.domain.flow import Task
from gateway.domain.labels import ToolRule
from gateway.domain.scripts import InScript, Script, ScriptId
from gateway.domain.tools import Kind, Profile, Target
from tests.pipeline.house import ALICE, MAIL, PRIVATE, TOOLS, UNHINTED, House, decision, result

Change = Callable[[House, Call], Any]


async def _regrouped(house: House, _: Call) -> None:
    for name, principal in house.gate.people.items():
        groups = principal.groups ^ {"guests"}
        house.gate.people[name] = replace(principal, groups=groups)


async def _another_policy(house: House, _: Call) -> None:
    house.rule.digest += "'"


async def _another_definition(house: House, _: Call) -> None:
    seen = {**TOOLS["search"], "description": f"Search, {house.now}."}
    await house.show(seen, TOOLS["send"])
    await house.approve(Kind.TOOL, "search")


async def _read_private(house: House, _: Call) -> None:
    run = await house.runs.of(ALICE, UNHINTED)
    await house.runs.raise_label(run.id, PRIVATE, None)


async def _later(house: House, _: Call) -> None:
    house.now += 0.25


async def _pin(house: House, **changed: Any) -> None:
    target = Target(server=MAIL, kind=Kind.TOOL, name="search")
    pin = house.pins.find(target, Profile.MODERN)
    assert pin is not None
    expected = str(pin.observed.digest)
    await house.pins.approve(
        target, Profile.MODERN, expected=expected, by="bob", note="", **changed
    )


async def _revoked(house: House, _: Call) -> None:
    await house.pins.revoke(
        Target(server=MAIL, kind=Kind.TOOL, name="search"), Profile.MODERN, by="bob", note=""
    )


async def _approved_for_a_while(house: House, _: Call) -> None:
    await _pin(house, expires_at=house.now + 1)


async def _approved(house: House, _: Call) -> None:
    await _pin(house)


async def _much_later(house: House, _: Call) -> None:
    house.now += 2


async def _drifted(house: House, _: Call) -> None:
    await house.show({**TOOLS["search"], "description": f"Now {house.now}."}, TOOLS["send"])


async def _drifts_meanwhile(house: House, call: Call) -> None:
    async def first() -> None:
        house.catalogs.first = None
        await _drifted(house, call)

    house.catalogs.first = first


async def _policy_hides(house: House, _: Call) -> None:
    house.rule.says = lambda q: (
        Verdict.DENY if q["phase"] == "list" and q["target"]["name"] == "search" else Verdict.ALLOW
    )
    house.rule.digest += "h"


async def _policy_denies(house: House, _: Call) -> None:
    house.rule.says = lambda q: Verdict.DENY if q["phase"] == "call" else Verdict.ALLOW
    house.rule.digest += "d"


async def _policy_allows(house: House, _: Call) -> None:
    house.rule.says = lambda _: Verdict.ALLOW
    house.rule.digest += "a"


async def _policy_is_swapped_meanwhile(house: House, call: Call) -> None:
    async def first() -> None:
        house.catalogs.first = None
        await _policy_hides(house, call)

    house.catalogs.first = first


async def _stopped_or_not(house: House, _: Call) -> None:
    house.stopped = not house.stopped


async def _known_no_more_or_again(house: House, _: Call) -> None:
    known = house.gate.people
    if known:
        known.clear()
    else:
        known["alice"] = ALICE


async def _signed_in_anew(house: House, _: Call) -> None:
    for name, principal in house.gate.people.items():
        house.gate.people[name] = replace(principal, token_id=f"t{house.now}")


async def _run_ended(house: House, _: Call) -> None:
    for state in house.runs.all():
        await house.runs.end(state.run.id)


async def _task(house: House, _: Call) -> None:
    for name, principal in house.gate.people.items():
        house.gate.people[name] = replace(principal, trusted_host=not principal.trusted_host)


BETWEEN: Sequence[Any] = (
    _regrouped, _another_policy, _another_definition, _read_private, _later, _task,
    _revoked, _approved, _approved_for_a_while, _much_later, _drifted, _drifts_meanwhile,
    _policy_hides, _policy_denies, _policy_allows, _policy_is_swapped_meanwhile,
    _stopped_or_not, _known_no_more_or_again, _signed_in_anew, _run_ended,
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
    admission._questions._circumstances = ByIdentity(most=1, octets=10_000_000)
    admission._prepared._kept.clear()
    house.schemas._ready = ByIdentity(most=1, octets=10_000_000)


async def played(house: House, steps: Sequence[Any], *, forgetful: bool) -> list[bytes]:
    """Return what was given out and what was recorded, call by call, and what each run carries."""
    given: list[bytes] = []
    for change, of_a_call, tool, words in steps:
        call = house.call(tool, {"query": words} if words else {})
        if change is not None:
            await change(house, call)
        if forgetful:
            forget(house)
        given.append((await house.handle(of_a_call(call))).bytes)
        labels = [state.run.label.words for state in house.runs.all()]
        given.append(orjson.dumps([labels, len(house.server.saw)]))
    return given + [entry.body for entry in house.audit.entries]


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(steps=st.lists(STEPS, max_size=14))
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


async def test_the_word_of_another_servers_policy_is_not_kept() -> None:
    house = await built()
    theirs = replace(decision(Verdict.ALLOW), policy_digest="sha256:theirs")
    house.rule.says = lambda q: theirs if q["phase"] == "list" else Verdict.ALLOW
    assert (await house.handle(house.call())).code is None
    house.epoch.turn()
    house.rule.says = lambda q: Verdict.DENY if q["phase"] == "list" else Verdict.ALLOW
    assert (await house.handle(house.call())).code == "unknown_tool"


async def test_nothing_is_called_by_an_approval_that_was_withdrawn() -> None:
    house = await built()
    assert (await house.handle(house.call())).code is None
    await _revoked(house, house.call())
    assert (await house.handle(house.call())).code == "pin_revoked"
    assert len(house.server.saw) == 1


async def test_nothing_is_called_by_an_approval_that_has_run_out() -> None:
    house = await built()
    await _approved_for_a_while(house, house.call())
    assert (await house.handle(house.call())).code is None
    house.now += 2
    assert (await house.handle(house.call())).code == "pin_pending"


async def test_what_changes_while_a_list_is_read_has_changed_for_the_call_that_waits() -> None:
    house = await built()
    assert (await house.handle(house.call())).code is None
    await _drifts_meanwhile(house, house.call())
    house.rule.asked.clear()
    assert (await house.handle(house.call())).code == "pin_drift"
    assert [question["phase"] for question in house.rule.asked] == ["call"]  # of no other one
    assert len(house.server.saw) == 1
    assert house.kinds().count("intent") == 1


async def test_what_stands_for_a_resource_is_looked_up_for_each() -> None:
    """Its name is its reader's own word, as much after it was read as before."""
    house = await built()
    await house.approve_all()
    asked = house.request("resources/read", {"uri": "mail://made-up-by-alice"})
    house.server.answer = lambda permit: result(permit, {"contents": []})
    for _ in range(2):
        assert (await house.handle(asked)).code is None
        assert house.last["target"] == "['mail://made-up-by-alice']"
    assert len(house.pipeline._admission._prepared._kept) == 0


def _hides_from(of: str, question: Any) -> Verdict:
    asks = question["origin"]["script_sha256"] or "none"
    return Verdict.DENY if question["phase"] == "list" and asks == of else Verdict.ALLOW


async def test_what_one_program_may_know_of_no_other_one_knows_by_that() -> None:
    house = await built()
    plain = replace(house.call(), origin=OriginKind.SANDBOX, parent=CallId("d_outer"))
    calls = {"none": plain}
    for sha256 in ("ab" * 32, "cd" * 32):
        made = Script(
            id=ScriptId(sha256[:4]),
            principal="alice",
            sha256=sha256,
            grants=None,
            most=50,
            parent="d_outer",
            began=house.now,
            expires_at=house.now + 60,
        )
        await house.scripts.begin(made)
        calls[sha256] = replace(plain, script=InScript(script=made, seq=1))
    for hidden_from in calls:
        house.rule.says = partial(_hides_from, hidden_from)
        house.rule.digest = f"sha256:{hidden_from}"
        for _ in range(2):
            for of, call in calls.items():
                known = (await house.handle(call)).code
                assert known == ("unknown_tool" if of == hidden_from else None)


async def test_a_family_of_revisions_has_its_own_definitions() -> None:
    house = await built()
    assert (await house.handle(house.call())).code is None
    assert (await house.handle(house.call(profile=Profile.LEGACY))).code == "unknown_tool"


async def test_a_call_of_which_nothing_changed_is_looked_up_once() -> None:
    house = await built()
    prepared = house.pipeline._admission._prepared
    for _ in range(3):
        await house.handle(house.call())
    first = [one for _, one in map(prepared._kept.get, tuple(prepared._kept))]  # type: ignore[misc]
    await house.handle(house.call())
    assert first == [one for _, one in map(prepared._kept.get, tuple(prepared._kept))]  # type: ignore[misc]
    assert [one.epoch for one in first] == [house.epoch.now]


async def test_what_was_looked_up_before_a_change_is_not_kept_for_after_it() -> None:
    house = await built()

    def hides(question: Any) -> Verdict:
        return Verdict.DENY if question["phase"] == "list" else Verdict.ALLOW

    def swapped(_: Any) -> Verdict:
        house.rule.says, house.rule.digest = hides, "sha256:other"
        return Verdict.ALLOW

    house.rule.says = swapped
    assert (await house.handle(house.call())).code is None
    assert (await house.handle(house.call())).code == "unknown_tool"

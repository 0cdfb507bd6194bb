"""A person's answer that stands lets out exactly what it is for, and a stranger's calls nowhere."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.approvals import Approval, ApprovalId, Span
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.document import Digest
from gateway.domain.labels import Confidentiality, Effect, Integrity, Label, ToolRule
from gateway.domain.standing import LONGEST_PLACES, StandingAnswer
from gateway.domain.tools import Kind, Profile, Target
from gateway.errors import PolicyUnavailable
from tests.pipeline.house import ALICE, MAIL, House, decision

EMMA = replace(ALICE, subject="emma", user_id="u_emma")
BOB = replace(ALICE, subject="bob", user_id="u_bob")
OTHER_AGENT = replace(EMMA, client_id="other", client_name="Other")
TO_EVE = {"to": ["eve@outside.example"], "body": "hello"}
SENDS = ToolRule(destination=("to", "cc"), payload=("body",), effect=Effect.EGRESS)
WEB = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.PUBLIC)
PUBLIC = Label(integrity=Integrity.TRUSTED, confidentiality=Confidentiality.PUBLIC)
TOOLS = {"send": SENDS, "post": SENDS, "pay": replace(SENDS, effect=Effect.PAY)}


def asks(question: Mapping[str, Any]) -> Verdict | Decision:
    """Say what the shipped policy says of destinations, in short."""
    if question["phase"] != "call" or isinstance(question["approval"], dict):
        return Verdict.ALLOW
    unproven = [one for one in question["flow"]["destinations"] if one["by"] != "standing"]
    return decision(Verdict.ASK, "unproven_destination") if unproven else Verdict.ALLOW


@pytest.fixture
async def house() -> House:
    house = House(tools=TOOLS, default=PUBLIC)
    house.gate.people |= {"emma": EMMA, "bob": BOB, "other": OTHER_AGENT}
    house.rule.says = asks
    for profile in Profile:
        await house.approve_all(profile)
    await house.show(*(definition(name) for name in TOOLS))
    for name in TOOLS:
        await house.approve(Kind.TOOL, name)
    return house


def definition(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}", "inputSchema": {"type": "object"}}


async def sent(
    house: House,
    arguments: Mapping[str, Any] = TO_EVE,
    *,
    tool: str = "send",
    who: str = "emma",
    **how: Any,
) -> bool:
    seen = await house.handle(house.call(tool, arguments, who=who, **how))
    assert seen.code in {"", None, "approval_required"}, seen.code
    return seen.code != "approval_required"


def newest(house: House) -> Approval:
    return max(house.approvals.all(now=house.now), key=lambda one: int(one.request.id[2:]))


async def stands(house: House, **changes: Any) -> StandingAnswer:
    """Have the call be asked about, and a person say that it may always be made."""
    assert not await sent(house)
    request = newest(house).request
    assert request.may_stand
    await house.runs.raise_label(request.run, WEB, None)  # what it carries proves nothing by itself
    made = StandingAnswer(
        id=request.id,
        principal=request.principal,
        subject=request.subject,
        user_id=request.user_id,
        client_id=request.client_id,
        client_name=request.client_name,
        target=request.target,
        pin_digest=request.pin_digest,
        confidentiality=request.label.confidentiality,
        places=frozenset(request.places),
        by="user:ada",
        by_user_id="u_ada",
        note="fine",
        given_at=house.now,
        expires_at=house.now + 1000,
    )
    await house.answers.give(replace(made, **changes))
    return made


async def test_what_it_is_for_goes_out_again_and_again_whatever_it_says(house: House) -> None:
    answer = await stands(house)
    assert await sent(house)
    assert await sent(house, {**TO_EVE, "body": "and again"})
    assert await sent(house, {**TO_EVE, "to": "eve@outside.example"})
    intent = next(r for r in reversed(house.audit.records) if r.kind == "intent")
    (place,) = intent.fields["destinations"]
    assert (place["by"], place["answer"]) == ("standing", answer.id)
    assert intent.fields["approval_id"] == answer.id
    assert not await sent(house, {"to": ["mallory@outside.example"]})
    assert house.last["approval_id"] != answer.id


async def test_a_plain_yes_is_still_good_for_one_call(house: House) -> None:
    assert not await sent(house)
    asked = newest(house).request.id
    given: dict[str, Any] = {"by": "user:ada", "by_user_id": "u_ada", "note": "", "now": house.now}
    await house.approvals.answer(asked, allow=True, span=Span.ONCE, **given)
    assert await sent(house)
    assert not await sent(house)


@pytest.mark.parametrize(
    "how",
    [
        {"who": "bob"},
        {"who": "other"},
        {"tool": "post"},
        {"arguments": {"to": ["eve@outside.example", "mallory@outside.example"]}},
        {"arguments": {"to": ["mallory@outside.example"]}},
        {"arguments": {"to": [], "cc": "eve@outside.example"}},
        {"arguments": {**TO_EVE, "cc": "mallory@outside.example"}},
        {"arguments": {**TO_EVE, "bcc": "mallory@outside.example"}},
        {"arguments": {"to": [*TO_EVE["to"], *map(str, range(300))]}},
        {"arguments": {"to": ["EVE@outside.example "]}},
        {"arguments": {"to": []}},
    ],
)
async def test_it_is_for_nobody_and_for_nothing_else(house: House, how: dict[str, Any]) -> None:
    await stands(house)
    arguments = how.pop("arguments", TO_EVE)
    before = len(house.server.saw)
    if arguments != {"to": []}:
        assert not await sent(house, arguments, **how)
        assert len(house.server.saw) == before
    else:
        seen = await house.handle(house.call("send", arguments, who="emma"))
        assert not [
            r for r in house.audit.records[-1].fields.get("destinations", ()) if "answer" in r
        ]
        assert seen is not None


async def test_it_counts_for_the_tool_it_is_for_and_for_no_other(house: House) -> None:
    answer = await stands(house)
    assert not await sent(house, tool="post")
    digest = newest(house).request.pin_digest  # a namesake may well be defined alike
    await house.answers.give(replace(answer, pin_digest=digest))
    assert not await sent(house, tool="post")


async def test_two_answers_do_not_make_a_third(house: House) -> None:
    await stands(house)
    other = frozenset({("$.to", "bob@outside.example")})
    await stands_also(house, id=ApprovalId("a_other"), places=other)
    assert await sent(house, {"to": ["bob@outside.example"]})
    assert not await sent(house, {"to": ["bob@outside.example", "eve@outside.example"]})


async def stands_also(house: House, **changes: Any) -> None:
    (first,) = house.answers.all()
    await house.answers.give(replace(first, **changes))


async def test_its_time_ends_it(house: House) -> None:
    await stands(house)
    house.now += 999
    assert await sent(house)
    house.now += 1
    assert not await sent(house)


async def test_a_person_ends_it(house: House) -> None:
    answer = await stands(house)
    assert await house.answers.end(answer.id, "enough")
    assert not await sent(house)


async def test_another_definition_ends_it(house: House) -> None:
    await stands(house, pin_digest=Digest.of(b"what it was before"))
    assert not await sent(house)


async def test_an_approval_that_is_given_anew_ends_it_however_soon(house: House) -> None:
    await stands(house)
    house.now += 1
    target = Target(server=MAIL, kind=Kind.TOOL, name="send")
    await house.pins.revoke(target, Profile.MODERN, by="ada", note="no trust")
    await house.approve(Kind.TOOL, "send")
    assert not await sent(house)
    assert newest(house).request.may_stand


@pytest.mark.parametrize("level", [Confidentiality.PRIVATE, Confidentiality.SECRET])
async def test_a_run_that_has_read_worse_is_another_question(
    house: House, level: Confidentiality
) -> None:
    await stands(house, confidentiality=Confidentiality(level - 1))
    run = newest(house).request.run
    label = Label(integrity=Integrity.UNTRUSTED, confidentiality=level)
    await house.runs.raise_label(run, label, None)
    assert not await sent(house)


async def test_it_is_offered_for_no_effect_that_is_asked_about_each_time(house: House) -> None:
    assert not await sent(house, tool="pay")
    assert (newest(house).request.may_stand, newest(house).request.places) == (False, ())


async def test_it_counts_for_no_other_effect_even_if_it_is_there(house: House) -> None:
    await stands(house)
    assert not await sent(house, tool="pay")
    paid = newest(house).request
    target = Target(server=MAIL, kind=Kind.TOOL, name="pay")
    await stands_also(house, id=ApprovalId("a_p"), target=target, pin_digest=paid.pin_digest)
    assert not await sent(house, tool="pay")


@pytest.mark.parametrize("besides", [Verdict.ASK, Verdict.DENY, PolicyUnavailable("down")])
async def test_it_is_offered_only_where_nothing_else_stands_against_the_call(
    house: House, besides: Verdict | PolicyUnavailable
) -> None:
    def says(question: Mapping[str, Any]) -> Verdict | Decision:
        said = asks(question)
        if said is Verdict.ALLOW and question["phase"] == "call":
            if isinstance(besides, Exception):
                raise besides
            return decision(besides, "besides")
        return said

    house.rule.says = says
    assert not await sent(house)
    assert newest(house).request.may_stand is False


async def test_it_is_offered_only_where_people_can_see_all_of_it(house: House) -> None:
    for to in (["x" * (LONGEST_PLACES + 1)], list(map(str, range(300)))):
        assert not await sent(house, {"to": to})
        assert newest(house).request.may_stand is False


async def test_a_run_with_a_secret_is_not_offered_one(house: House) -> None:
    assert not await sent(house)
    label = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.SECRET)
    await house.runs.raise_label(newest(house).request.run, label, None)
    assert not await sent(house)
    assert newest(house).request.may_stand is False


async def test_the_question_tells_whose_yes_let_it_go_there_before(house: House) -> None:
    for number in range(3):
        assert not await sent(house, {**TO_EVE, "body": str(number)})
        given: dict[str, Any] = {
            "by": "user:ada",
            "by_user_id": "u_ada",
            "note": "",
            "now": house.now,
        }
        await house.approvals.answer(
            newest(house).request.id, allow=number < 2, span=Span.ONCE, **given
        )
    assert not await sent(house)
    told = 'Before, a person let this agent send to "eve@outside.example" with this tool 2 times, last user:ada on '
    assert [one for one in newest(house).request.evidence if one.startswith(told)]
    others: list[dict[str, Any]] = [{"tool": "post"}, {"who": "other"}, {"who": "bob"}]
    for how in others:
        assert not await sent(house, **how)
        assert not [one for one in newest(house).request.evidence if "Before" in one]


@pytest.mark.parametrize(
    "how", ["it is withdrawn", "its time is over", "the tool is approved anew"]
)
async def test_one_that_ends_while_its_call_is_decided_lets_nothing_out(
    house: House, how: str
) -> None:
    answer = await stands(house)
    put, ends = house.ledger.put, iter([True])

    async def ending(*given: Any, **_: Any) -> Any:
        if next(ends, False):
            if how == "it is withdrawn":
                await house.answers.end(answer.id, "a person ended it")
            elif how == "its time is over":
                house.now = answer.expires_at
            else:
                house.now += 1
                await house.pins.revoke(answer.target, Profile.MODERN, by="bob", note="")
                await house.approve(Kind.TOOL, answer.target.name)
        return await put(*given)

    house.ledger.put = ending  # type: ignore[method-assign]
    sent_before = len(house.server.saw)
    assert not await sent(house)
    assert len(house.server.saw) == sent_before

"""A plane's question walks stages 2 to 8, its report 10 to 12, and between them its run owes the worst."""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.audit import AuditRecord, LogEntry, RecordKind
from gateway.domain.decisions import Decision, Duty, Obligation, Verdict
from gateway.domain.labels import Confidentiality, Integrity, Label, ToolRule
from gateway.domain.planes import REPLACE_RESULT, Plane, Reports
from gateway.domain.quotas import Count, Per, Quota
from gateway.domain.tools import Kind
from gateway.errors import AuditUnavailable, Fault, PolicyUnavailable
from gateway.pipeline.debts import Debts
from gateway.pipeline.plane_records import Asking
from gateway.pipeline.quotas import Quotas
from gateway.wire.authzen import Answer, Entity, Evaluation, Reported, Search
from tests.pipeline.house import (
    ALICE,
    MAIL,
    TOOLS,
    TRUSTED,
    UNHINTED,
    House,
    decision,
    result,
    text,
)

WORST = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.PRIVATE)
EDGE = Plane(
    name="edge",
    key_digest=b"",
    servers={"mail": MAIL},
    issuers=(ALICE.issuer,),
    scopes=ALICE.scopes,
    types={},
)
MINUTE = 60.0


async def opened_house() -> House:
    """Return a house in which everything is approved and allowed."""
    house = House(tools={"search": ToolRule(result=TRUSTED), "send": ToolRule(result=TRUSTED)})
    await house.approve_all()
    ids = itertools.count()
    house.rule.says = lambda _: replace(decision(Verdict.ALLOW), id=f"d_{next(ids)}")
    return house


house = pytest.fixture(opened_house)


def question(
    tool: str = "search", *, reported: Reported | None = None, agent: str = ALICE.client_id
) -> Evaluation:
    return Evaluation(
        subject=Entity(type="identity", id=ALICE.subject, properties={}),
        action="tools/call",
        action_properties={},
        resource=Entity(type="tool", id=tool, properties={}),
        arguments={"q": "x"},
        agent=agent,
        reported=reported,
    )


async def ask(house: House, tool: str = "search", *, plane: Plane = EDGE) -> Answer:
    asking = Asking(plane=plane, source_ip="192.0.2.1", request_id="q")
    return await house.decisions.answer(asking, question(tool))


async def allowed(house: House, tool: str = "search", *, plane: Plane = EDGE) -> str:
    answer = await ask(house, tool, plane=plane)
    assert answer.decision is True
    return str(answer.context["decision_id"])


async def report(
    house: House,
    decision_id: str,
    content: Mapping[str, Any],
    *,
    plane: Plane = EDGE,
    member: str = "result",
) -> Answer:
    told = Reported(decision=decision_id, member=member, content=content)
    asking = Asking(plane=plane, source_ip="192.0.2.1", request_id="q")
    return await house.decisions.answer(asking, question(reported=told))


async def counted(house: House) -> Label:
    """Return what the run of Alice's client counts as, wherever it calls next."""
    return house.debts.counted(await house.runs.of(ALICE, UNHINTED)).label


def codes(answer: Answer) -> set[str]:
    return {one["code"] for one in answer.context["reasons"]}


async def test_no_yes_without_a_durable_intent(house: House) -> None:
    house.audit.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await ask(house)
    assert house.owed.kept == {}
    assert await counted(house) == (await house.runs.of(ALICE, UNHINTED)).label


async def test_the_intent_says_what_is_owed_by_it_and_until_when(house: House) -> None:
    decision_id = await allowed(house)
    intent = house.audit.records[-1]
    assert (intent.kind, intent.fields["decision_id"]) == ("intent", decision_id)
    assert intent.fields["owes"] == {**WORST.words, "until": house.now + EDGE.report_within_s}
    await report(house, decision_id, text("fine"))
    assert "owes" not in house.audit.records[-1].fields


async def test_the_debt_is_there_when_the_yes_is_given(house: House) -> None:
    decision_id = await allowed(house)
    (debt,) = house.owed.kept.values()
    assert (debt.decision, debt.source.label) == (decision_id, WORST)
    (*_, source) = house.debts.counted(await house.runs.of(ALICE, UNHINTED)).sources
    assert source.record == debt.source.record
    intent = next(one for one in house.audit.records if one.id == source.record)
    assert (intent.kind, intent.fields["decision_id"]) == ("intent", decision_id)


async def test_a_policy_without_an_answer_is_no_answer(house: House) -> None:
    def fails(_: object) -> Decision:
        raise PolicyUnavailable("no policy")

    house.rule.says = fails
    with pytest.raises(PolicyUnavailable):
        await ask(house)
    assert house.audit.records[-1].fields["code"] == "policy_unavailable"


async def test_a_bug_is_on_record_and_no_decision(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house.debts, "require_room", lambda *_: 1 / 0)
    with pytest.raises(Fault):
        await ask(house)
    assert house.audit.records[-1].fields["verdict"] == "error"


async def test_calls_in_the_path_count_what_is_owed(house: House) -> None:
    await allowed(house)
    house.server.answer = lambda permit: result(permit, text("fine"))
    await house.handle(house.call("send"))
    intent = next(
        one
        for one in house.audit.records
        if one.kind == "intent" and one.fields["target"] == "send"
    )
    assert intent.fields["label_before"] == WORST.words
    assert {one["tool"] for one in intent.fields["sources"]} == {"search"}


async def test_questions_at_the_same_time_all_owe(house: House) -> None:
    answers = await asyncio.gather(*(ask(house, tool) for tool in ("search", "send", "search")))
    assert all(answer.decision for answer in answers)
    assert len(house.owed.kept) == 3
    assert await counted(house) == WORST


async def test_a_report_puts_what_came_in_the_place_of_the_worst(house: House) -> None:
    decision_id = await allowed(house)
    assert await counted(house) == WORST
    assert (await report(house, decision_id, text("fine"))).decision is True
    assert house.owed.kept == {}
    assert await counted(house) == TRUSTED
    outcome = house.audit.records[-1]
    assert (outcome.kind, outcome.fields["decision_id"]) == ("outcome", decision_id)


async def test_a_report_that_cannot_be_recorded_stays_owed(house: House) -> None:
    decision_id = await allowed(house)
    house.audit.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await report(house, decision_id, text("fine"))
    assert await counted(house) == WORST
    house.audit.failure = ""
    assert (await report(house, decision_id, text("fine"))).decision is True


async def test_a_result_that_policy_refuses_is_not_given_out(house: House) -> None:
    decision_id = await allowed(house)
    house.rule.says = lambda _: Verdict.DENY
    assert (await report(house, decision_id, text("fine"))).decision is False
    assert await counted(house) == TRUSTED


async def test_what_cannot_be_read_counts_as_the_worst(house: House) -> None:
    decision_id = await allowed(house)
    refused = await report(house, decision_id, {**text("x"), "resultType": "unheard"})
    assert codes(refused) >= {"not_complete"}
    assert await counted(house) == WORST


async def test_what_is_spelled_twice_counts_as_the_worst(house: House) -> None:
    twice = await allowed(house)
    refused = await report(house, twice, {"content": [], "Content": []})
    assert refused.decision is False
    assert await counted(house) == WORST


async def test_nobody_reports_for_another_plane(house: House) -> None:
    decision_id = await allowed(house)
    other = replace(EDGE, name="other")
    assert codes(await report(house, decision_id, text("x"), plane=other)) >= {"plane_bypassed"}
    assert (await report(house, decision_id, text("x"))).decision is True


async def test_two_reports_at_once_are_one(house: House) -> None:
    decision_id = await allowed(house)
    both = await asyncio.gather(*(report(house, decision_id, text("x")) for _ in range(2)))
    assert sorted(answer.decision for answer in both) == [False, True]


async def test_a_report_of_what_was_refused_is_an_alarm_and_raises(house: House) -> None:
    house.rule.says = lambda q: Verdict.DENY if q["phase"] == "call" else Verdict.ALLOW
    refused = await ask(house)
    reported = await report(house, str(refused.context["decision_id"]), text("done"))
    assert codes(reported) >= {"plane_bypassed"}
    run = await house.runs.of(ALICE, UNHINTED)
    assert run.label == WORST
    assert run.has_read  # so that nothing is said beside its calls, and no echo of it proves


async def test_what_a_client_read_where_it_is_not_registered_raises_it_too(house: House) -> None:
    house.plane_gate.unregistered = {MAIL}
    refused = await ask(house)
    assert codes(refused) == {"unauthenticated"}
    assert not (await found(house))[0]
    reported = await report(house, str(refused.context["decision_id"]), text("done"))
    assert codes(reported) >= {"plane_bypassed"}
    assert (await house.runs.of(ALICE, UNHINTED)).label == WORST


async def test_what_nobody_reports_in_time_is_raised_for_good(house: House) -> None:
    decision_id = await allowed(house)
    await house.debts.settle()
    assert (await house.runs.of(ALICE, UNHINTED)).label != WORST
    house.now += EDGE.report_within_s
    assert codes(await report(house, decision_id, text("x"))) >= {"reported_before"}
    await house.debts.settle()
    assert (await house.runs.of(ALICE, UNHINTED)).label == WORST
    assert house.owed.kept == {}
    assert house.audit.records[-1].fields["code"] == "unreported"
    assert codes(await report(house, decision_id, text("x"))) >= {"reported_before"}


async def test_what_a_restart_finds_is_raised_for_good(house: House) -> None:
    await allowed(house)
    again = Debts(house.owed, runs=house.runs, audit=house.audit, clock=house.clock)
    assert again.are_open
    assert again.counted(await house.runs.of(ALICE, UNHINTED)).label == WORST
    await again.settle()
    assert (await house.runs.of(ALICE, UNHINTED)).label == WORST
    assert again.counted(await house.runs.of(ALICE, UNHINTED)).sources[-1].tool == "search"
    assert house.owed.kept == {}


async def test_a_plane_that_reports_nothing_raises_before_its_yes(house: House) -> None:
    await allowed(house, plane=replace(EDGE, reports=Reports.NONE))
    assert (await house.runs.of(ALICE, UNHINTED)).label == WORST
    assert house.owed.kept == {}


@pytest.mark.parametrize("reports", Reports)
async def test_what_a_plane_was_allowed_has_used_its_quota(house: House, reports: Reports) -> None:
    once = Quota(name="calls", count=Count.CALLS, most=1, per=Per.DAY)
    house.quotas = Quotas([once], prices={}, clock=house.clock)
    house.pipeline = house._wired()
    plane = replace(EDGE, reports=reports)
    await allowed(house, plane=plane)
    house.now += MINUTE * 3
    await house.debts.settle()
    assert "rate_limited" in codes(await ask(house, plane=plane))


def truncating(_: object) -> Decision:
    obligation = Obligation(duty=Duty.TRUNCATE, detail={"bytes": 1})
    return replace(decision(Verdict.ALLOW), id="d_short", obligations=(obligation,))


async def test_a_duty_that_no_plane_meets_is_a_no(house: House) -> None:
    house.rule.says = truncating
    assert codes(await ask(house)) >= {"duty_unsupported"}
    assert house.owed.kept == {}
    promising = replace(EDGE, duties=frozenset({REPLACE_RESULT}))
    decision_id = await allowed(house, plane=promising)
    given = await report(house, decision_id, text("a long result"), plane=promising)
    (duty,) = given.context["obligations"]
    assert duty["properties"]["result"]["content"][0]["text"] == "a"


async def test_a_question_that_meets_less_is_promised_less_and_never_more(house: House) -> None:
    house.rule.says = truncating
    promising = replace(EDGE, duties=frozenset({REPLACE_RESULT}))
    met = "urn:douane:duty:replace_result"
    for plane, supported, decision_ in (
        (promising, [met, "step-up"], True),
        (promising, ["step-up"], False),
        (promising, [], False),
        (EDGE, [met], False),
    ):
        asking = Asking(plane=plane, source_ip="192.0.2.1", request_id="q")
        asked = replace(question(), supported=frozenset(supported))
        assert (await house.decisions.answer(asking, asked)).decision is decision_


async def test_a_scope_that_is_lacking_is_told_as_an_obligation(house: House) -> None:
    step_up = Obligation(duty=Duty.REQUIRE_STEP_UP, detail={"scopes": ["tools:purge"]})
    house.rule.says = lambda _: decision(Verdict.ALLOW, obligations=[step_up])
    answer = await ask(house)
    assert answer.context["reason"] == "insufficient_scope"
    (told,) = answer.context["obligations"]
    assert told["type"] == "urn:douane:duty:require_step_up"
    assert "tools:purge" in told["properties"]["scopes"]


@pytest.mark.parametrize("reports", Reports)
async def test_a_definition_that_changes_meanwhile_is_no_yes_and_no_debt(
    house: House, monkeypatch: pytest.MonkeyPatch, reports: Reports
) -> None:
    appends = house.audit.append

    async def meanwhile(record: AuditRecord) -> LogEntry:
        entry = await appends(record)
        if record.kind is RecordKind.INTENT:
            await house.show({"name": "search", "description": "Another.", "inputSchema": {}})
        return entry

    monkeypatch.setattr(house.audit, "append", meanwhile)
    answer = await ask(house, plane=replace(EDGE, reports=reports))
    assert answer.context["reason"] == "pin_drift"
    assert house.owed.kept == {}
    assert not house.debts.are_open
    named = answer.context["decision_id"]
    of_it = [one for one in house.audit.records if one.fields.get("decision_id") == named]
    assert [one.kind for one in of_it] == ["intent", "outcome"]
    assert (await house.runs.of(ALICE, UNHINTED)).label != WORST


async def test_values_do_not_stand_for_tokens_at_a_plane(house: House) -> None:
    allows = house.rule.says
    tokens = Obligation(duty=Duty.TOKENIZE, detail={"classes": ["iban"]})

    def says(asked: Mapping[str, Any]) -> Decision | Verdict:
        if asked["phase"] == "result" and asked["dlp"]["result"]:
            return decision(Verdict.ALLOW, obligations=[tokens])
        return allows(asked)

    house.rule.says = says
    house.server.answer = lambda permit: result(permit, text("GB82WEST12345698765432"))
    seen = await house.handle(house.call("search"))
    token = seen.json["result"]["content"][0]["text"]
    asking = Asking(plane=EDGE, source_ip="192.0.2.1", request_id="q")
    asked = replace(question("send"), arguments={"to": token})
    assert codes(await house.decisions.answer(asking, asked)) >= {"tokens_stand_for_values"}


async def test_a_list_is_whole_or_a_no(house: House) -> None:
    async def listed() -> bool:
        asked = replace(
            question(),
            action="tools/list",
            resource=Entity(type="mcp_server", id="mail", properties={}),
        )
        asking = Asking(plane=EDGE, source_ip="192.0.2.1", request_id="q")
        return (await house.decisions.answer(asking, asked)).decision

    assert await listed() is True
    assert house.catalogs.asked[-1][2] is Kind.TOOL
    hides = house.rule.says
    house.rule.digest = "sha256:another"
    house.rule.says = lambda q: Verdict.DENY if q["target"]["name"] == "send" else hides(q)
    assert await listed() is False
    house.rule.digest, house.rule.says = "sha256:policy", hides
    await house.show({"name": "new", "description": "New.", "inputSchema": {"type": "object"}})
    assert await listed() is False


async def found(
    house: House, *, type_: str = "tool", id_: str = "*", for_actions: bool = False, **page: Any
) -> tuple[list[str], str, int]:
    """Return what a search finds, where its next page begins, and how much there is."""
    asked = replace(question(), resource=Entity(type=type_, id=id_, properties={}))
    asking = Asking(plane=EDGE, source_ip="192.0.2.1", request_id="q")
    search = Search(asked=asked, limit=page.get("limit", 100), after=page.get("token", ""))
    results, after, total = await house.decisions.search(asking, search, for_actions=for_actions)
    return [one["name" if for_actions else "id"] for one in results], after, total


async def test_a_search_finds_what_a_list_would_show(house: House) -> None:
    assert await found(house) == (["search", "send"], "", 2)
    assert house.audit.records[-1].kind == "list"
    await house.show(
        *TOOLS.values(), {"name": "new", "description": "New.", "inputSchema": {"type": "object"}}
    )
    assert (await found(house))[0] == ["search", "send"]
    allows = house.rule.says
    house.rule.digest = "sha256:another"
    house.rule.says = lambda q: Verdict.DENY if q["target"]["name"] == "send" else allows(q)
    assert await found(house) == (["search"], "", 1)


async def test_a_search_goes_on_where_its_page_ended(house: House) -> None:
    assert await found(house, limit=1) == (["search"], "search", 2)
    assert await found(house, limit=1, token="search") == (["send"], "", 2)


async def test_what_is_unknown_is_found_nowhere(house: House) -> None:
    assert await found(house, type_="planet") == ([], "", 0)
    assert await found(house, type_="prompt") == ([], "", 0)


async def test_actions_are_those_of_what_can_be_seen(house: House) -> None:
    assert (await found(house, id_="send", for_actions=True))[0] == ["tools/call"]
    assert (await found(house, id_="unheard", for_actions=True))[0] == []


async def test_what_cannot_be_recorded_is_not_found(house: House) -> None:
    house.audit.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await found(house)


async def test_however_much_is_owed_a_run_lists_each_tool_once(house: House) -> None:
    for tool in ("search", "send", "search", "search"):
        await allowed(house, tool)
    run = house.debts.counted(await house.runs.of(ALICE, UNHINTED))
    assert [source.tool for source in run.sources] == ["search", "send"]

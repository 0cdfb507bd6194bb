"""What a session of a host's owes counts wherever its client's whole run is judged, from its yes on."""

import itertools
from dataclasses import replace

import pytest

from gateway.domain.decisions import Verdict
from gateway.domain.flow import Run, RunHandle, RunHint
from gateway.domain.labels import Label, ToolRule
from gateway.pipeline.debts import Debts
from gateway.pipeline.plane_records import Asking
from tests.pipeline.house import ALICE, TRUSTED, UNHINTED, House, decision, result, text
from tests.pipeline.test_questions_of_planes import EDGE, WORST, allowed, question, report

HOST = replace(ALICE, trusted_host=True)
SESSION = RunHandle("session")
OTHER = RunHandle("other")


@pytest.fixture
async def house() -> House:
    house = House(tools={"search": ToolRule(result=TRUSTED), "send": ToolRule(result=TRUSTED)})
    house.plane_gate.whom = HOST
    await house.approve_all()
    ids = itertools.count()
    house.rule.says = lambda _: replace(decision(Verdict.ALLOW), id=f"d_{next(ids)}")
    for handle in (SESSION, OTHER):
        await house.runs.begin(HOST, None, handle)
    return house


async def owed_by(house: House, session: RunHandle) -> str:
    """Have a call of a session allowed, and return its decision."""
    asking = Asking(plane=EDGE, source_ip="192.0.2.1", request_id="q")
    answer = await house.decisions.answer(asking, replace(question(), run=session))
    assert answer.decision is True
    return str(answer.context["decision_id"])


async def run_of(house: House, hint: RunHint = UNHINTED) -> Run:
    run: Run = await house.runs.of(HOST, hint)
    return run


async def counted(house: House, hint: RunHint = UNHINTED) -> Label:
    return house.debts.counted(await run_of(house, hint)).label


async def test_what_a_session_owes_counts_in_its_own_run_and_in_the_whole_one(house: House) -> None:
    await owed_by(house, SESSION)
    assert await counted(house, RunHint(handle=SESSION)) == WORST
    assert await counted(house) == WORST
    assert (await run_of(house)).label != WORST


async def test_a_call_in_the_path_counts_what_a_session_owes(house: House) -> None:
    await owed_by(house, SESSION)
    house.server.answer = lambda permit: result(permit, text("fine"))
    await house.handle(house.call("send"))
    (intent,) = [
        one
        for one in house.audit.records
        if one.kind == "intent" and one.fields["target"] == "send"
    ]
    assert intent.fields["label_before"] == WORST.words
    assert {one["tool"] for one in intent.fields["sources"]} == {"search"}


async def test_a_question_outside_of_it_counts_what_a_session_owes(house: House) -> None:
    await owed_by(house, SESSION)
    await allowed(house, "send")
    intent = [one for one in house.audit.records if one.kind == "intent"][-1]
    assert intent.fields["label_before"] == WORST.words


async def test_what_one_session_owes_is_not_owed_by_another(house: House) -> None:
    await owed_by(house, SESSION)
    assert await counted(house, RunHint(handle=OTHER)) != WORST


async def test_what_the_whole_run_owes_is_not_owed_by_a_session(house: House) -> None:
    await allowed(house)
    assert await counted(house) == WORST
    assert await counted(house, RunHint(handle=SESSION)) != WORST


async def test_a_report_of_a_session_frees_both_runs(house: House) -> None:
    named = await owed_by(house, SESSION)
    assert (await report(house, named, text("fine"))).decision is True
    assert await counted(house) == TRUSTED
    assert await counted(house, RunHint(handle=SESSION)) == TRUSTED


async def test_a_run_that_ends_takes_along_nothing_that_is_owed(house: House) -> None:
    for owes in (owed_by(house, SESSION), allowed(house)):
        await owes
        before = await run_of(house)
        await house.runs.end(before.id)
        assert (await run_of(house)).id != before.id
        assert await counted(house) == WORST


async def test_what_a_restart_finds_of_a_session_counts_in_the_whole_run(house: House) -> None:
    await owed_by(house, SESSION)
    again = Debts(house.owed, runs=house.runs, audit=house.audit, clock=house.clock)
    assert again.counted(await run_of(house)).label == WORST
    await again.settle()
    assert not again.are_open
    assert (await run_of(house)).label == WORST


async def test_of_what_is_alike_each_is_owed_by_itself(house: House) -> None:
    first, second = await owed_by(house, SESSION), await owed_by(house, SESSION)
    await report(house, first, text("fine"))
    assert await counted(house) == WORST
    await report(house, second, text("fine"))
    assert await counted(house) == TRUSTED
    assert not house.debts.are_open


async def proven(house: House, value: str) -> bool:
    memory = house.memory.of(await run_of(house), ALICE.person)
    return memory.proof_of(value, "mail") is not None


async def test_only_what_was_reported_proves_anything(house: House) -> None:
    named = await allowed(house)
    assert not await proven(house, "bob@example.com")
    house.now += EDGE.report_within_s
    await house.debts.settle()
    assert (await report(house, named, text("bob@example.com"))).decision is False
    assert not await proven(house, "bob@example.com")
    await house.runs.end((await run_of(house)).id)
    await report(house, await allowed(house), text("bob@example.com"))
    assert await proven(house, "bob@example.com")


async def test_what_a_run_counts_as_is_found_anew_once_it_owes_something_else(house: House) -> None:
    first = await allowed(house)
    run = await run_of(house)
    worst = house.debts.counted(run)
    second = await allowed(house)
    assert house.debts.counted(run) is worst  # more of a kind says nothing else
    await report(house, first, text("fine"))
    rest = house.debts.counted(run)
    assert (rest.label, [one.record for one in rest.sources]) != (
        worst.label,
        [one.record for one in worst.sources],
    )
    assert house.debts.counted(replace(run, roamed=True)).roamed is True
    await report(house, second, text("fine"))
    assert house.debts.counted(run) is run

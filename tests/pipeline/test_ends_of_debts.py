"""What is owed where nobody is there any more ends: as its worst, for good, and on record."""

import asyncio
import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.decisions import Verdict
from gateway.domain.identity import Absence, Principal
from gateway.domain.labels import ToolRule
from gateway.errors import AuditUnavailable
from gateway.pipeline import debts
from tests.pipeline.house import ALICE, TRUSTED, UNHINTED, House, decision, text
from tests.pipeline.test_questions_of_planes import EDGE, WORST, allowed, codes, report


@pytest.fixture
async def house() -> House:
    house = House(tools={"search": ToolRule(result=TRUSTED), "send": ToolRule(result=TRUSTED)})
    await house.approve_all()
    ids = itertools.count()
    house.rule.says = lambda _: replace(decision(Verdict.ALLOW), id=f"d_{next(ids)}")
    return house


GONE = Absence(who="the plane was removed", until=math.inf)


def of_plane(name: str) -> Callable[[str, Principal], Absence]:
    return lambda plane, _: GONE if plane == name else Absence()


async def test_what_a_removed_plane_owes_is_raised_for_good_and_on_record(house: House) -> None:
    named = await allowed(house)
    await house.debts.end_without(of_plane("edge"))
    assert (await house.runs.of(ALICE, UNHINTED)).label == WORST
    assert house.owed.kept == {}
    assert not house.debts.are_open
    outcome = house.audit.records[-1]
    assert (outcome.kind, outcome.fields["decision_id"]) == ("outcome", named)
    assert outcome.fields["code"] == "unreported"
    assert "the plane was removed" in outcome.fields["reasons"][-1]["message"]
    assert codes(await report(house, named, text("late"))) >= {"reported_before"}


async def test_what_anybody_else_owes_stays(house: House) -> None:
    named, other = await allowed(house), replace(EDGE, name="other")
    await allowed(house, plane=other)
    await house.debts.end_without(of_plane("other"))
    assert [one.decision for one in house.owed.kept.values()] == [named]
    assert (await report(house, named, text("fine"))).decision is True


async def test_what_was_owed_before_somebody_was_away_ends_also_when_they_are_there_again(
    house: House,
) -> None:
    named = await allowed(house)
    (owed,) = house.debts._open.values()
    back = replace(GONE, until=owed.at)
    await house.debts.end_without(lambda *_: back)
    assert [one.decision for one in house.owed.kept.values()] == [named]
    back = replace(GONE, until=owed.at + 1)
    await house.debts.end_without(lambda *_: back)
    assert house.owed.kept == {}


async def test_who_made_the_call_is_told_apart(house: House) -> None:
    await allowed(house)
    asked: list[Principal] = []

    def absence(_: str, principal: Principal) -> Absence:
        asked.append(principal)
        return Absence()

    await allowed(house, "send")
    await house.debts.end_without(absence)
    assert [(one.subject, one.client_id) for one in asked] == [(ALICE.subject, ALICE.client_id)]
    assert len(house.owed.kept) == 2


async def test_an_end_that_cannot_be_recorded_stays_owed(house: House) -> None:
    named = await allowed(house)
    house.audit.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await house.debts.end_without(of_plane("edge"))
    assert house.debts.counted(await house.runs.of(ALICE, UNHINTED)).label == WORST
    house.audit.failure = ""
    await house.debts.end_without(of_plane("edge"))
    assert house.owed.kept == {}
    assert house.audit.records[-1].fields["decision_id"] == named


class Held:
    """Holds the end of a debt, as it is put on record, until it is let go."""

    def __init__(self, house: House, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._named, self._appends = named, house.audit.append
        self.came, self.free = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(house.audit, "append", self._append)

    async def _append(self, record: AuditRecord) -> LogEntry:
        if (record.fields.get("code"), record.fields["decision_id"]) == ("unreported", self._named):
            self.came.set()
            async with asyncio.timeout(60):
                await self.free.wait()
        return await self._appends(record)


def kinds(house: House, named: str) -> list[str]:
    return [one.kind for one in house.audit.records if one.fields.get("decision_id") == named]


async def test_a_report_that_comes_while_its_debt_ends_is_too_late(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = await allowed(house)
    held = Held(house, named, monkeypatch)
    ending = asyncio.create_task(house.debts.end_without(of_plane("edge")))
    await held.came.wait()
    assert codes(await report(house, named, text("late"))) >= {"reported_before"}
    held.free.set()
    await ending
    assert kinds(house, named) == ["intent", "outcome"]


async def test_what_is_reported_while_another_debt_ends_has_ended_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, named = await allowed(house), await allowed(house)
    held = Held(house, first, monkeypatch)
    ending = asyncio.create_task(house.debts.end_without(of_plane("edge")))
    await held.came.wait()
    assert (await report(house, named, text("fine"))).decision is True
    held.free.set()
    await ending
    assert kinds(house, named) == ["intent", "outcome"]


@pytest.mark.parametrize("is_late_first", [False, True])
async def test_what_is_late_and_nobodys_ends_once(
    house: House, monkeypatch: pytest.MonkeyPatch, *, is_late_first: bool
) -> None:
    first, named = await allowed(house), await allowed(house)
    held = Held(house, first, monkeypatch)
    house.now += EDGE.report_within_s
    ends = [lambda: house.debts.end_without(of_plane("edge")), house.debts.settle]
    one, other = ends[::-1] if is_late_first else ends
    ending = asyncio.create_task(one())
    await held.came.wait()
    await other()
    held.free.set()
    await ending
    assert kinds(house, named) == ["intent", "outcome"]
    assert house.debts.held == {}


async def test_of_two_who_had_one_name_only_who_was_removed_has_it_ended(house: House) -> None:
    """Whoever came by the name since is somebody else."""
    gone, other = await allowed(house), await allowed(house)
    owed = house.debts._open[gone]
    was = replace(owed.permit, principal=replace(owed.permit.principal, user_id="u_gone"))
    house.debts._open[gone] = replace(owed, permit=was)
    await house.debts.end_without(
        lambda _, principal: GONE if principal.user_id == "u_gone" else Absence()
    )
    assert list(house.debts._open) == [other]


async def test_what_is_late_and_could_not_be_recorded_is_looked_at_again(house: House) -> None:
    named = await allowed(house)
    house.now += EDGE.report_within_s
    house.audit.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await house.debts.settle()
    assert house.debts.are_open
    house.audit.failure = ""
    await house.debts.settle()
    assert house.owed.kept == {}
    assert house.audit.records[-1].fields["decision_id"] == named


async def test_of_several_planes_what_is_due_first_ends_first(house: House) -> None:
    hurried = replace(EDGE, name="hurried", report_within_s=EDGE.report_within_s / 2)
    for _ in range(3):
        await allowed(house)
    named = await allowed(house, plane=hurried)
    house.now += hurried.report_within_s
    await house.debts.settle()
    assert house.audit.records[-1].fields["decision_id"] == named
    assert len(house.owed.kept) == len(house.debts._due) == 3


async def test_what_was_reported_is_not_kept_until_it_were_due(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debts, "_PAID", 2)
    for _ in range(9):
        assert (await report(house, await allowed(house), text("fine"))).decision
    assert len(house.debts._due) <= 3


async def test_whoever_waits_for_debts_waits_until_there_is_one(house: House) -> None:
    waiting = asyncio.create_task(house.debts.until_open())
    await asyncio.sleep(0)
    assert not waiting.done()
    named = await allowed(house)
    async with asyncio.timeout(60):
        await waiting
        await house.debts.until_open()
    await report(house, named, text("fine"))
    waiting = asyncio.create_task(house.debts.until_open())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()

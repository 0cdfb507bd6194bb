"""Questions end with whoever asked them, on record, and so do answers that nobody has used."""

import asyncio
from typing import Any

import pytest

from gateway.admin.departures import Departures
from gateway.domain.approvals import ApprovalId, ApprovalRequest, ApprovalState, Span
from gateway.domain.tools import Kind, Target, UpstreamId
from gateway.errors import AuditUnavailable
from tests.admin.test_approval_desk import ADA, Desk
from tests.admin.world import new_journal

GONE = "the client was removed"


def departures(desk: Desk, *gone: str) -> Departures:
    """Return what ends the questions of the clients that are `gone`."""

    def lacking(request: ApprovalRequest) -> str:
        return GONE if request.client_id in gone else ""

    return Departures(
        desk.store,
        new_journal(desk.log),
        claims=desk.claims,
        lacking=lacking,
        clock=lambda: desk.now,
    )


async def asked(**changes: Any) -> Desk:
    desk = await Desk().ask("a", client_id="gone", **changes)
    return await desk.ask("b", client_id="there")


async def allow(desk: Desk, span: Span) -> None:
    await desk.store.answer(
        ApprovalId("a"),
        allow=True,
        span=span,
        by=ADA.name,
        by_user_id=ADA.user_id,
        note="",
        now=desk.now,
    )


async def test_a_question_of_a_removed_client_waits_no_more_and_that_is_on_record() -> None:
    desk = await asked(plane="edge")
    await departures(desk, "gone").settle()
    assert (desk.state("a"), desk.state("b")) == (ApprovalState.WITHDRAWN, ApprovalState.WAITING)
    (record,) = desk.log.records
    told = {"method": "approvals.withdraw", "code": "withdrawn", "approval_id": "a"}
    assert {**record.fields, **told, "plane": "edge"} == record.fields
    assert GONE in [one["message"] for one in record.fields["reasons"]]


@pytest.mark.parametrize("span", [Span.ONCE, Span.RUN])
async def test_a_yes_of_a_removed_client_counts_no_more_and_that_is_on_record(span: Span) -> None:
    desk = await asked()
    await allow(desk, span)
    await departures(desk, "gone").settle()
    assert desk.state("a") is ApprovalState.EXPIRED
    assert await desk.store.use(ApprovalId("a"), now=desk.now) is False
    (record,) = desk.log.records
    assert (record.fields["method"], record.fields["code"]) == ("approvals.end", "ended")
    await departures(desk, "gone").settle()
    assert len(desk.log.records) == 1


async def test_what_stands_ends_by_itself_and_a_no_stays() -> None:
    desk = await asked()
    await allow(desk, Span.STANDING)
    await departures(desk, "gone").settle()
    assert desk.state("a") is ApprovalState.ALLOWED
    denied = await asked()
    await denied.desk.deny(ADA, approval="a")
    told = len(denied.log.records)
    await departures(denied, "gone").settle()
    assert denied.state("a") is ApprovalState.DENIED
    assert len(denied.log.records) == told


async def test_nothing_ends_that_cannot_be_recorded() -> None:
    desk = await asked()
    desk.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await departures(desk, "gone").settle()
    assert desk.state("a") is ApprovalState.WAITING


async def test_a_resource_is_named_as_what_the_call_says() -> None:
    at = Target(server=UpstreamId("mail"), kind=Kind.RESOURCE, name="mail://private")
    desk = await asked(target=at)
    await departures(desk, "gone").settle()
    assert desk.log.records[0].fields["target"] == "['mail://private']"


async def test_of_two_that_find_the_same_one_ends_it_and_records_that() -> None:
    desk = await asked()
    await asyncio.gather(*(departures(desk, "gone").settle() for _ in range(2)))
    assert desk.state("a") is ApprovalState.WITHDRAWN
    assert [one.fields["code"] for one in desk.log.records] == ["withdrawn"]


async def test_what_could_not_be_recorded_is_ended_by_the_next_look() -> None:
    desk = await asked()
    desk.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await departures(desk, "gone").settle()
    desk.log.failure = ""
    await departures(desk, "gone").settle()
    assert desk.state("a") is ApprovalState.WITHDRAWN

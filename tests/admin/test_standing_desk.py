"""Who may have an answer stand, who may end it, and what the log knows of either."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.admin.person import How, Person, Role
from gateway.domain.approvals import ApprovalId, ApprovalState, Span
from gateway.domain.decisions import Reason
from gateway.domain.document import Digest
from gateway.domain.labels import STRICTEST_DEFAULT, Confidentiality, Label
from gateway.errors import AuditUnavailable, BadCommand, Denied, Forbidden, NotFound
from tests.admin.test_approval_desk import ADA, EMMA, MIGHTY_EMMA, Desk, person, question
from tests.admin.world import NOW

PLACES = (("$.to", "eve@outside.example"),)
STANDS: dict[str, Any] = {"places": PLACES, "may_stand": True}


async def asked(*names: str, **changes: Any) -> Desk:
    return await Desk().ask(*names, **{**STANDS, **changes})


async def stood(desk: Desk, who: Any = ADA, name: str = "a", **more: Any) -> Any:
    return await desk.desk.allow(who, approval=name, standing=True, **more)


async def test_an_answer_stands_for_what_was_asked_and_is_on_record() -> None:
    desk = await asked()
    row = await stood(desk, note="always fine")
    assert (row["state"], row["span"], row["void"]) == ("allowed", "standing", None)
    assert row["stands_until"] == "2027-01-15T08:16:40.000Z"
    (answer,) = desk.answers.all()
    asked_of = question(**STANDS)
    assert (answer.id, answer.principal, answer.target) == (
        "a",
        asked_of.principal,
        asked_of.target,
    )
    assert (answer.user_id, answer.client_id, answer.pin_digest) == (
        "u_emma",
        "c_1",
        Digest.of(b"pin"),
    )
    assert (answer.places, answer.confidentiality) == (frozenset(PLACES), Confidentiality.PRIVATE)
    assert (answer.by, answer.by_user_id, answer.note) == ("user:ada", "u_ada", "always fine")
    assert (answer.given_at, answer.expires_at) == (NOW, NOW + 1000)
    (record,) = desk.log.records
    assert (record.kind, record.fields["method"], record.fields["code"]) == (
        "approval",
        "approvals.allow",
        "allowed",
    )
    told = {one["code"]: one["message"] for one in record.fields["reasons"]}
    assert told["span"].startswith("for good: ")
    assert told["note"] == "always fine"


async def test_what_cannot_be_recorded_does_not_stand() -> None:
    desk = await asked()
    desk.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await stood(desk)
    assert (desk.answers.all(), desk.state()) == ([], ApprovalState.WAITING)


async def test_no_call_goes_out_by_the_question_itself() -> None:
    desk = await asked()
    await stood(desk)
    request = question()
    assert desk.store.find(request.fingerprint, request.scope, now=NOW) is None
    assert await desk.store.use(ApprovalId("a"), now=NOW) is False


async def test_where_it_cannot_stand_nobody_can_say_so() -> None:
    desk = await asked(may_stand=False)
    with pytest.raises(Denied, match="look each time"):
        await stood(desk)
    assert (desk.answers.all(), desk.state()) == ([], ApprovalState.WAITING)
    with pytest.raises(BadCommand):
        await stood(await asked(), for_run=True)


async def test_a_no_and_a_question_that_has_lapsed_do_not_come_to_stand() -> None:
    desk = await asked("a", "b")
    await desk.desk.deny(ADA, approval="a")
    desk.lapsed = "its run has ended"
    for name in ("a", "b"):
        with pytest.raises(Denied):
            await stood(desk, name=name)
    assert desk.answers.all() == []


async def test_what_was_said_yes_to_may_come_to_stand_later_and_once() -> None:
    desk = await asked()
    await desk.desk.allow(ADA, approval="a")
    await desk.store.use(ApprovalId("a"), now=NOW)
    desk.now += 70
    desk.lapsed = "its run has ended"
    row = await stood(desk)
    assert (row["state"], row["span"], row["stands_until"] is None) == ("used", "once", False)
    with pytest.raises(Denied, match="stands already"):
        await stood(desk)


async def test_a_yes_to_another_definition_does_not_come_to_stand_later() -> None:
    desk = await asked()
    await desk.desk.allow(ADA, approval="a")
    desk.approved = False
    with pytest.raises(Denied, match="defined otherwise"):
        await stood(desk)
    assert desk.answers.all() == []


async def test_none_stands_for_who_may_make_no_calls() -> None:
    desk = await asked()
    desk.barred = ["the person was disabled"]
    with pytest.raises(Denied, match=r"the person was disabled; let them in again"):
        await stood(desk)
    assert (desk.answers.all(), desk.state(), desk.log.records) == ([], ApprovalState.WAITING, [])
    assert (await stood(desk))["stands_until"] is not None


async def test_none_stands_for_who_was_barred_while_it_was_given() -> None:
    desk = await asked()
    desk.barred = ["", "the person was disabled"]
    assert (await stood(desk))["void"] == "the answer stands no more"
    assert desk.answers.all() == []
    assert [why for _, why in await desk.answers.ended()] == ["the person was disabled"]


async def test_whom_policy_no_longer_lets_answer_does_not_make_anothers_yes_stand() -> None:
    desk = await asked(self_approval=True)
    await desk.desk.allow(ADA, approval="a")
    desk.policy.says = False
    with pytest.raises(Forbidden, match="somebody else's answer"):
        await stood(desk, EMMA)
    assert desk.answers.all() == []


async def test_what_was_approved_anew_is_not_told_to_stand() -> None:
    desk = await asked()
    await stood(desk)
    assert [row["id"] for row in await desk.standing.list(ADA)] == ["a"]
    desk.approved = False
    assert await desk.standing.list(ADA) == []
    assert desk.standing.until(ApprovalId("a")) is None


async def test_only_who_may_answer_may_have_it_stand() -> None:
    for who in (MIGHTY_EMMA, EMMA):
        with pytest.raises(Forbidden):
            await stood(await asked(), who)
    with pytest.raises(NotFound):
        await stood(await asked(), person("bob", Role.USER))
    desk = await asked(self_approval=True)
    await stood(desk, EMMA)
    assert [one.by for one in desk.answers.all()] == ["user:emma"]


async def test_of_a_run_with_a_secret_none_stands_for_one() -> None:
    secret = Label(integrity=STRICTEST_DEFAULT.integrity, confidentiality=Confidentiality.SECRET)
    desk = await asked(label=secret)
    await stood(desk)
    assert [one.confidentiality for one in desk.answers.all()] == [Confidentiality.PRIVATE]


async def test_what_stands_is_listed_for_whoever_may_see_it() -> None:
    desk = await asked()
    await stood(desk, note="fine")
    (row,) = await desk.standing.list(ADA)
    assert row == {
        "id": "a",
        "server": "mail",
        "name": "send",
        "subject": "emma",
        "client_id": "c_1",
        "client": "Agent",
        "destinations": [{"path": "$.to", "value": "eve@outside.example"}],
        "confidentiality": "private",
        "by": "user:ada",
        "given_at": "2027-01-15T08:00:00.000Z",
        "expires_at": "2027-01-15T08:16:40.000Z",
        "note": "fine",
    }
    assert await desk.standing.list(EMMA) == [row]
    assert await desk.standing.list(person("bob", Role.USER)) == []
    desk.now += 1000
    assert await desk.standing.list(ADA) == []
    assert [one["void"] for one in await desk.desk.list(ADA, all=True)] == [
        "the answer stands no more"
    ]


async def test_approvers_and_whose_calls_they_are_end_it_on_record() -> None:
    for who in (ADA, EMMA):
        desk = await asked()
        await stood(desk)
        await desk.standing.end(who, approval="a", note="enough")
        assert (desk.answers.all(), await desk.answers.ended()) == ([], [])
        record = desk.log.records[-1]
        assert (record.fields["method"], record.fields["code"]) == ("approvals.end", "ended")
        assert (record.fields["principal"], record.fields["approval_id"]) == (who.name, "a")
        with pytest.raises(NotFound):
            await desk.standing.end(who, approval="a")


async def test_nobody_else_ends_it() -> None:
    desk = await asked()
    await stood(desk)
    with pytest.raises(NotFound):
        await desk.standing.end(person("bob", Role.USER), approval="a")
    with pytest.raises(Forbidden):
        await desk.standing.end(person("otto", Role.AUDITOR), approval="a")
    program = person("", Role.ADMIN, how=How.TOKEN)
    with pytest.raises(Forbidden):
        await desk.standing.end(
            type(program)(name="client:x", roles=program.roles, how=How.TOKEN), approval="a"
        )
    assert len(desk.answers.all()) == 1


@pytest.mark.parametrize(
    ("after_s", "approved", "because"),
    [
        (1000, True, "its time was over"),
        (0, False, "the tool's definition is not the one it was for, or was approved anew"),
    ],
)
async def test_what_ends_by_itself_is_on_record_once(
    after_s: float, *, approved: bool, because: str
) -> None:
    desk = await asked()
    await stood(desk)
    assert await desk.standing.settle() == 0
    desk.now, desk.approved = desk.now + after_s, approved
    assert (await desk.standing.settle(), await desk.standing.settle()) == (1, 0)
    assert desk.answers.all() == []
    record = desk.log.records[-1]
    assert (record.kind, record.fields["code"], record.fields["approval_id"]) == (
        "approval",
        "ended",
        "a",
    )
    assert {"code": "because", "message": because} in record.fields["reasons"]


async def test_what_ended_is_told_again_until_it_is_recorded() -> None:
    desk = await asked()
    await stood(desk)
    await desk.answers.end(ApprovalId("a"), "the grant was revoked")
    desk.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await desk.standing.settle()
    desk.log.failure = ""
    assert await desk.standing.settle() == 1


async def test_of_two_that_find_the_same_end_one_records_it() -> None:
    desk = await asked()
    await stood(desk)
    desk.now += 1000
    told = len(desk.log.records)
    assert sorted(await asyncio.gather(*(desk.standing.settle() for _ in range(2)))) == [0, 1]
    assert len(desk.log.records) == told + 1


async def test_what_a_person_ends_has_not_ended_by_itself_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = await asked()
    await stood(desk)
    forget = desk.answers.forget

    async def looked_at_before(ids: Sequence[ApprovalId]) -> None:
        assert await desk.standing.settle() == 0
        await forget(ids)

    monkeypatch.setattr(desk.answers, "forget", looked_at_before)
    await desk.standing.end(ADA, approval="a")
    monkeypatch.undo()
    assert await desk.standing.settle() == 0
    ends = [one.fields["method"] for one in desk.log.records if one.fields["code"] == "ended"]
    assert ends == ["approvals.end"]


async def test_what_another_gateway_is_recording_does_not_come_to_stand_again_meanwhile() -> None:
    desk = await asked()
    await stood(desk)
    (answer,) = desk.answers.all()
    await desk.answers.end(answer.id, "the grant was revoked")
    async with desk.claims.taken(f"the end of the answer a of {answer.given_at}"):
        with pytest.raises(Denied, match="just ended"):
            await desk.standing.give(answer)
    await desk.standing.give(answer)
    assert desk.answers.all() == [answer]


async def test_what_ended_may_come_to_stand_again() -> None:
    desk = await asked()
    await desk.desk.allow(ADA, approval="a")
    await stood(desk)
    await desk.answers.end(ApprovalId("a"), "the grant was revoked")
    await stood(desk)
    assert len(desk.answers.all()) == 1
    assert [one.fields["code"] for one in desk.log.records] == [
        "allowed",
        "allowed",
        "allowed",
        "ended",
    ]


async def said_yes(times: int, **changes: Any) -> Desk:
    desk = Desk()
    for number in range(times):
        name = f"a{number}"
        await desk.ask(name, **{**STANDS, "fingerprint": Digest.of(name.encode()), **changes})
        await desk.desk.allow(ADA, approval=name)
        desk.now += 1
    return desk


async def test_the_third_same_yes_is_suggested_to_stand() -> None:
    assert await (await said_yes(2)).desk.suggest(ADA) == []
    desk = await said_yes(3)
    (row,) = await desk.desk.suggest(ADA)
    assert (row["id"], row["times"], row["by"]) == ("a2", 3, "user:ada")
    assert row["destinations"] == [{"path": "$.to", "value": "eve@outside.example"}]
    assert await desk.desk.suggest(person("bob", Role.USER)) == []
    await stood(desk, name="a2")
    assert await desk.desk.suggest(ADA) == []


async def test_where_yeses_went_is_suggested_to_whoever_may_have_one_stand() -> None:
    desk = await said_yes(3, self_approval=True)
    told = {
        who.name: [row["destinations"][0]["value"] for row in await desk.desk.suggest(who)]
        for who in (ADA, EMMA, person("otto", Role.AUDITOR))
    }
    place = "eve@outside.example"
    assert told == {"user:ada": [place], "user:emma": [place], "user:otto": [None]}
    desk.policy.says = False
    assert [row["destinations"][0]["value"] for row in await desk.desk.suggest(EMMA)] == [None]


@pytest.mark.parametrize(
    "changes",
    [
        {"places": (("$.to", "bob@outside.example"),)},
        {"principal": "another|emma|c_2"},
        {"pin_digest": Digest.of(b"another")},
        {"reasons": (Reason(code="other", message=""),)},
        {"may_stand": False},
        {"places": ()},
    ],
)
async def test_another_yes_is_not_the_same(changes: dict[str, Any]) -> None:
    desk = await said_yes(2)
    await desk.ask("b", **{**STANDS, "fingerprint": Digest.of(b"b"), **changes})
    await desk.desk.allow(ADA, approval="b")
    assert await desk.desk.suggest(ADA) == []


async def test_a_no_is_no_yes() -> None:
    desk = await said_yes(2)
    await desk.ask("b", **STANDS, fingerprint=Digest.of(b"b"))
    await desk.desk.deny(ADA, approval="b")
    assert await desk.desk.suggest(ADA) == []


async def test_a_person_is_told_how_often_they_have_said_so() -> None:
    desk = await said_yes(2)
    assert desk.standing.times(question(**STANDS), "u_ada") == 2
    assert desk.standing.times(question(**STANDS), "u_bob") == 0
    assert desk.standing.times(question(**{**STANDS, "places": ()}), "u_ada") == 0
    assert desk.standing.times(question(**STANDS, principal="x"), "u_ada") == 0


async def test_the_span_is_kept_with_the_answer() -> None:
    desk = await asked()
    await stood(desk)
    found = desk.store.get(ApprovalId("a"), now=NOW + 10_000)
    assert found is not None
    assert (found.state, found.span) == (ApprovalState.ALLOWED, Span.STANDING)


async def test_who_was_not_there_since_it_was_given_has_it_no_more_and_that_is_on_record() -> None:
    desk = await asked()
    await stood(desk)
    desk.absent = "the client is another one by now"
    assert (await desk.standing.list(ADA), desk.standing.until(ApprovalId("a"))) == ([], None)
    assert await desk.standing.settle() == 1
    assert desk.answers.all() == []
    told = {one["code"]: one["message"] for one in desk.log.records[-1].fields["reasons"]}
    assert told["because"] == desk.absent


OTTO = person("otto", Role.AUDITOR)
"""Sees every answer, and may end none."""


async def test_to_what_places_it_is_is_told_on_record_to_whoever_may_end_it() -> None:
    for who in (ADA, EMMA):
        desk = await asked()
        await stood(desk)
        desk.log.records.clear()
        (row,) = await desk.standing.list(who)
        assert row["destinations"] == [{"path": "$.to", "value": "eve@outside.example"}]
        (record,) = desk.log.records
        assert (record.fields["method"], record.fields["code"], record.fields["principal"]) == (
            "approvals.standing",
            "read",
            who.name,
        )
        assert "eve@" not in str(record.fields)


async def test_nobody_else_is_told_to_what_places_it_is() -> None:
    program = Person(name="client:x", roles=frozenset({Role.ADMIN}), how=How.TOKEN)
    desk = await asked()
    await stood(desk)
    desk.log.records.clear()
    for shown in (
        await desk.standing.list(OTTO),
        await desk.standing.list(program),
        await desk.standing.list(ADA, places=False),
        [await desk.standing.end(ADA, approval="a")],
    ):
        assert [row["destinations"] for row in shown] == [[{"path": "$.to", "value": None}]]
    assert [record.fields["code"] for record in desk.log.records] == ["ended"]


async def test_nothing_of_it_is_told_that_cannot_be_on_record() -> None:
    desk = await asked()
    await stood(desk)
    desk.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await desk.standing.list(ADA)
    assert len(await desk.standing.list(OTTO)) == 1


async def test_that_one_could_stand_is_told_with_its_places_on_record() -> None:
    desk = await asked("a", "b", "c")
    for name in "abc":
        await desk.desk.allow(ADA, approval=name)
    desk.log.records.clear()
    (row,) = await desk.desk.suggest(ADA)
    assert row["destinations"] == [{"path": "$.to", "value": "eve@outside.example"}]
    assert [one.fields["code"] for one in desk.log.records] == ["read"]
    (row,) = await desk.desk.suggest(OTTO)
    assert row["destinations"] == [{"path": "$.to", "value": None}]
    assert len(desk.log.records) == 1

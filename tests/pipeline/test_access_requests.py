"""Planes submit what was refused, and a person is asked: one more door to the questions that there are."""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest

from gateway.domain.approvals import (
    Approval,
    ApprovalId,
    ApprovalRequest,
    ApprovalRules,
    ApprovalState,
    Span,
)
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.document import Digest
from gateway.domain.identity import Credential, Principal
from gateway.domain.labels import Confidentiality, Integrity, Label, ToolRule
from gateway.domain.planes import Plane
from gateway.domain.quotas import Count, Per, Quota
from gateway.errors import AccessRequestRefused, AuditUnavailable, RateLimited
from gateway.pipeline.plane_records import Asking
from gateway.pipeline.quotas import Quotas
from gateway.wire.access_requests import Status, Task, read_submission
from gateway.wire.authzen import Answer, read_evaluation
from tests.pipeline.house import (
    ALICE,
    MAIL,
    TRUSTED,
    UNHINTED,
    House,
    SaidByPlanes,
    decision,
    noting_whose,
)
from tests.storage.memory_people import MemoryApprovalStore

EDGE = Plane(
    name="edge",
    key_digest=b"",
    servers={"mail": MAIL},
    issuers=(ALICE.issuer,),
    scopes=ALICE.scopes,
    types={},
    access_requests=True,
)
OTHER = replace(EDGE, name="other")
PLAIN = replace(EDGE, name="plain", access_requests=False)
MINUTE = 60.0
_PRIVATE = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.PRIVATE)


class Known(SaidByPlanes):
    """Knows whose call it is, here."""

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        said = await super().authenticate(credential, endpoint)
        return replace(said, user_id=f"u_{said.subject}")


@pytest.fixture
async def house() -> House:
    """Policy wants a person to be asked about `send`, and lets whatever else out."""
    house = House(tools={"search": ToolRule(result=TRUSTED), "send": ToolRule(result=TRUSTED)})
    house.submitting |= {"edge", "other"}
    await house.approve_all()
    ids = itertools.count()

    def says(question: Mapping[str, Any]) -> Decision:
        ask = question["target"]["name"] == "send" and question.get("approval") is None
        made = decision(Verdict.ASK, "egress") if ask else decision(Verdict.ALLOW)
        return replace(made, id=f"d_{next(ids)}")

    house.rule.says = says
    return house


def question(
    tool: str = "send",
    *,
    to: str = "bob@mail.example",
    subject: str = ALICE.subject,
    **context: Any,
) -> dict[str, Any]:
    return {
        "subject": {"type": "identity", "id": subject},
        "action": {"name": "tools/call"},
        "resource": {"type": "tool", "id": tool},
        "context": {"agent": ALICE.client_id, "arguments": {"to": to}, **context},
    }


def asking(plane: Plane = EDGE) -> Asking:
    return Asking(plane=plane, source_ip="192.0.2.1", request_id="q")


async def ask(house: House, asked: Mapping[str, Any], plane: Plane = EDGE) -> Answer:
    read = read_evaluation(orjson.dumps(asked), 64)
    return await house.decisions.answer(asking(plane), read)


async def again(house: House, task: Task, plane: Plane = EDGE, **changes: Any) -> Answer:
    return await ask(house, question(approval={"id": task.id}, **changes), plane)


def submission(asked: Mapping[str, Any], refused: Answer, **more: Any) -> dict[str, Any]:
    told = refused.context["access_request"]
    denial = {
        "evaluation_id": refused.context["evaluation_id"],
        "binding_token": told["binding_token"],
        "expires_at": told["expires_at"],
        "reason": refused.context["reason"],
    }
    return {**asked, "denial": denial, **more}


async def submit(
    house: House, content: Mapping[str, Any], *, key: str = "", plane: Plane = EDGE
) -> Task:
    read = read_submission(orjson.dumps(content), 64)
    return await house.requests.submit(asking(plane), read, key)


async def requested(house: House, **changes: Any) -> Task:
    asked = question(**changes)
    return await submit(house, submission(asked, await ask(house, asked)))


async def answer(
    house: House, task: Task, *, allow: bool = True, span: Span = Span.ONCE
) -> ApprovalId:
    (id_,) = (
        one.request.id
        for one in house.approvals.all(now=house.now)
        if task.id.startswith(one.request.id)
    )
    await house.approvals.answer(
        id_, allow=allow, span=span, by="carol", by_user_id="u_carol", note="", now=house.now
    )
    return id_


async def problem(house: House, content: Mapping[str, Any], **more: Any) -> str:
    with pytest.raises(AccessRequestRefused) as refused:
        await submit(house, content, **more)
    assert house.audit.records[-1].fields["code"] == "access_request_refused"
    return refused.value.problem


async def raised(house: House) -> None:
    await house.runs.raise_label((await house.runs.of(ALICE, UNHINTED)).id, _PRIVATE, None)


def waiting(house: House) -> int:
    return house.approvals.counts(now=house.now)[ApprovalState.WAITING]


async def test_a_refusal_asks_nobody_before_it_is_submitted(house: House) -> None:
    refused = await ask(house, question())
    assert refused.decision is False
    assert refused.context["reason"] == "egress"
    assert "approval_url" not in refused.context
    assert waiting(house) == 0
    task = await submit(house, submission(question(), refused))
    assert (task.status, waiting(house)) == (Status.PENDING, 1)
    asked, outcome = house.audit.records[-2:]
    assert (asked.kind, asked.fields["method"]) == ("approval", "approvals.ask")
    assert (outcome.fields["verdict"], outcome.fields["plane"]) == ("ask", "edge")
    (filed,) = house.approvals.all(now=house.now)
    assert filed.request.decision_id == refused.context["evaluation_id"]


whose = pytest.fixture(noting_whose)


async def test_a_large_submission_takes_no_turn_of_its_planes_address(
    house: House, whose: set[str]
) -> None:
    await requested(house, to=f"{'b' * 20_000}@mail.example")
    assert whose == {ALICE.person, f"plane:edge|{ALICE.issuer}|{ALICE.subject}"}


async def test_the_refusal_of_a_plane_that_submits_nothing_asks_as_ever(house: House) -> None:
    refused = await ask(house, question(), PLAIN)
    assert "access_request" not in refused.context
    assert refused.context["approval_id"]
    assert waiting(house) == 1


async def test_with_a_yes_the_same_question_is_allowed_once(house: House) -> None:
    task = await requested(house)
    await answer(house, task)
    told = await house.requests.look(asking(), task.id)
    assert told.status is Status.APPROVED
    allowed = await again(house, task)
    assert allowed.decision is True
    assert allowed.context["approval"]["id"] == task.id
    assert allowed.context["approval"]["approved_until"]
    assert (await house.requests.look(asking(), task.id)).status is Status.APPROVED
    used = await again(house, task)
    assert (used.decision, used.context["reason"]) == (False, "approval_expired")
    assert used.context["next_action"] == "request"
    assert used.context["access_request"]["binding_token"]


async def test_a_yes_for_the_run_is_for_this_plane_and_no_other_call(house: House) -> None:
    await raised(house)  # to all that one more result could make of it
    task = await requested(house)
    await answer(house, task, span=Span.RUN)
    assert (await again(house, task)).decision is True
    assert (await again(house, task)).decision is True
    assert (await ask(house, question(), OTHER)).decision is False
    assert (await ask(house, question(), PLAIN)).decision is False


@pytest.mark.parametrize("span", [Span.ONCE, Span.RUN])
async def test_a_yes_is_for_no_other_arguments(house: House, span: Span) -> None:
    task = await requested(house)
    await answer(house, task, span=span)
    refused = await again(house, task, to="eve@outside.example")
    assert (refused.decision, refused.context["reason"]) == (False, "out_of_scope")
    assert refused.context["next_action"] == "request"


async def test_the_yes_of_somebody_else_is_none(house: House) -> None:
    task = await requested(house)
    await answer(house, task)
    for changed, plane in (({}, OTHER), ({"subject": "mallory"}, EDGE)):
        refused = await again(house, task, plane, **changed)
        assert (refused.decision, refused.context["reason"]) == (False, "approval_unverifiable")
        assert refused.context["next_action"] == "none"
    for made_up in ("", "x", f"{task.id}0", task.id.split(".")[0]):
        named = question(to="eve@outside.example", approval={"id": made_up or "."})
        assert (await ask(house, named)).context["reason"] == "approval_unverifiable"


async def test_what_policy_denies_no_yes_allows(house: House) -> None:
    task = await requested(house)
    await answer(house, task)
    house.rule.says = lambda _: decision(Verdict.DENY, "closed")
    refused = await again(house, task)
    assert (refused.decision, refused.context["reason"]) == (False, "policy_denied")
    assert refused.context["next_action"] == "none"
    assert "access_request" not in refused.context
    assert "closed" in {one["code"] for one in refused.context["reasons"]}


async def test_a_question_that_waits_is_worth_another_look(house: House) -> None:
    task = await requested(house)
    refused = await again(house, task)
    assert (refused.context["reason"], refused.context["next_action"]) == ("grant_pending", "retry")
    assert refused.context["retry_after"] > 0


async def test_a_limit_is_worth_another_try(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await requested(house)
    await answer(house, task)

    def full(*_: object) -> None:
        raise RateLimited("slow down", wait_s=9)

    monkeypatch.setattr(house.limits, "take", full)
    refused = await again(house, task)
    assert (refused.context["next_action"], refused.context["retry_after"]) == ("retry", 9)


async def test_a_no_is_a_no(house: House) -> None:
    task = await requested(house)
    await answer(house, task, allow=False)
    assert (await house.requests.look(asking(), task.id)).status is Status.DENIED
    refused = await again(house, task)
    assert (refused.decision, refused.context["next_action"]) == (False, "none")


async def test_a_yes_ends_with_what_it_was_given_for(house: House) -> None:
    task = await requested(house)
    await answer(house, task)
    await raised(house)
    refused = await again(house, task)
    assert (refused.decision, refused.context["reason"]) == (False, "approval_expired")


@pytest.mark.parametrize(
    ("state", "after_s", "status"),
    [
        ("waiting", 0.0, Status.PENDING),
        ("waiting", 3601.0, Status.EXPIRED),
        ("allowed", 0.0, Status.APPROVED),
        ("allowed", 3601.0, None),
        ("denied", 0.0, Status.DENIED),
        ("denied", 3601.0, None),
        ("used", 0.0, Status.APPROVED),
        ("used", 7201.0, Status.APPROVED),
        ("cancelled", 0.0, Status.CANCELLED),
        ("cancelled", 7201.0, Status.CANCELLED),
    ],
)
async def test_what_a_task_is(
    house: House, state: str, after_s: float, status: Status | None
) -> None:
    task = await requested(house)
    if state in {"allowed", "denied", "used"}:
        await answer(house, task, allow=state != "denied")
    if state == "used":
        assert (await again(house, task)).decision is True
    if state == "cancelled":
        await house.requests.cancel(asking(), task.id)
    house.now += after_s
    if status is None:
        with pytest.raises(AccessRequestRefused) as expired:
            (await house.requests.look(asking(), task.id))
        assert expired.value.problem == "task_expired"
    else:
        assert (await house.requests.look(asking(), task.id)).status is status
    if status is not Status.PENDING:
        with pytest.raises(AccessRequestRefused) as ended:
            await house.requests.cancel(asking(), task.id)
        assert ended.value.problem == "invalid_task_state"


async def test_a_request_that_is_not_ones_own_is_none_and_on_record(house: House) -> None:
    task = await requested(house)
    for tried in (house.requests.look, house.requests.cancel):
        with pytest.raises(AccessRequestRefused, match="no such request"):
            await tried(asking(OTHER), task.id)
        record = house.audit.records[-1].fields
        assert (record["plane"], record["code"]) == (OTHER.name, "access_request_refused")
    assert waiting(house) == 1


async def test_a_request_is_taken_back_on_record_and_can_be_made_anew(house: House) -> None:
    task = await requested(house)
    house.audit.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await house.requests.cancel(asking(), task.id)
    house.audit.failure = ""
    assert waiting(house) == 1
    ended = await house.requests.cancel(asking(), task.id)
    assert (ended.status, waiting(house)) == (Status.CANCELLED, 0)
    record = house.audit.records[-1].fields
    assert (record["method"], record["code"]) == ("approvals.withdraw", "withdrawn")
    house.now += MINUTE
    anew = await requested(house)
    assert anew.id != task.id


async def test_the_same_submission_is_the_same_task(house: House) -> None:
    asked = question()
    content = submission(asked, await ask(house, asked))
    first = await submit(house, content, key="k")
    assert await submit(house, content, key="k") == first
    assert await submit(house, content) == first
    await answer(house, first)
    assert (await again(house, first)).decision is True
    house.now += MINUTE
    for key in ("k", ""):  # a refusal comes back when its question has long been answered
        assert (await submit(house, content, key=key)).id == first.id
    assert len(house.approvals.all(now=house.now)) == 1
    other = question(to="eve@outside.example")
    changed = submission(other, await ask(house, other))
    assert await problem(house, changed, key="k") == "duplicate_request"
    assert (await submit(house, changed)).id != first.id


async def test_a_refusal_beside_the_one_that_was_answered_asks_nobody_again(house: House) -> None:
    asked = question()
    first, second = await ask(house, asked), await ask(house, asked)
    house.now += 1
    task = await submit(house, submission(asked, first))
    await answer(house, task)
    assert (await again(house, task)).decision is True
    assert (await submit(house, submission(asked, second))).id == task.id
    house.now += 1
    third = await ask(house, asked)
    assert (await submit(house, submission(asked, third))).id != task.id


async def test_what_is_submitted_is_what_was_refused(house: House) -> None:
    asked = question()
    content = submission(asked, await ask(house, asked))
    for changed in (
        {"context": question(to="eve@outside.example")["context"]},
        {"context": {**asked["context"], "agent": "another"}},
        {"context": {**asked["context"], "task": {"text": "mail it"}}},
        {"subject": {"type": "identity", "id": "mallory"}},
        {"subject": {**asked["subject"], "properties": {"groups": ["admins"]}}},
        {"resource": {"type": "tool", "id": "search"}},
        {"denial": {**content["denial"], "binding_token": "x"}},
        {"denial": {**content["denial"], "evaluation_id": "d_another"}},
    ):
        assert await problem(house, {**content, **changed}) == "invalid_denial_binding"
    decided = len(house.rule.asked)
    assert await problem(house, content, plane=OTHER) == "invalid_denial_binding"
    assert len(house.rule.asked) == decided
    assert waiting(house) == 0
    justified = {**asked["context"], "business_justification": "for the renewal"}
    assert (await submit(house, {**content, "context": justified})).status is Status.PENDING


async def test_a_refusal_is_submitted_in_time_or_not_at_all(house: House) -> None:
    asked = question()
    refused = await ask(house, asked)
    content = submission(asked, refused)
    later = {**content["denial"], "expires_at": "2031-01-01T00:00:00Z"}
    house.now += 601
    assert await problem(house, content) == "expired_denial"
    assert await problem(house, {**content, "denial": later}) == "expired_denial"
    assert waiting(house) == 0


async def test_a_question_that_is_another_by_now_is_not_filed(house: House) -> None:
    asked = question()
    content = submission(asked, await ask(house, asked))
    await raised(house)
    assert await problem(house, content) == "invalid_denial_binding"
    assert waiting(house) == 0


@pytest.mark.parametrize("verdict", [Verdict.ALLOW, Verdict.DENY])
async def test_what_is_no_question_any_more_is_not_filed(house: House, verdict: Verdict) -> None:
    once = Quota(name="calls", count=Count.CALLS, most=1, per=Per.DAY)
    house.quotas = Quotas([once], prices={}, clock=house.clock)
    house.pipeline = house._wired()
    asked = question()
    content = submission(asked, await ask(house, asked))
    house.rule.says = lambda _: decision(verdict, "closed")
    assert await problem(house, content) == "not_requestable"
    assert waiting(house) == 0
    if verdict is Verdict.ALLOW:  # which took nothing of what there is
        assert (await ask(house, question())).decision is True


async def test_a_plane_that_may_not_submit_submits_nothing(house: House) -> None:
    asked = question()
    content = submission(asked, await ask(house, asked))
    assert await problem(house, content, plane=PLAIN) == "not_requestable"
    moved = replace(EDGE, servers={})
    assert await problem(house, content, plane=moved) == "not_requestable"


async def test_too_many_questions_are_told_as_such(house: House) -> None:
    house.approvals = MemoryApprovalStore(ApprovalRules(most_waiting=1))
    house.pipeline = house._wired()
    await requested(house)
    asked = question(to="eve@outside.example")
    content = submission(asked, await ask(house, asked))
    with pytest.raises(RateLimited):
        await submit(house, content)
    assert house.audit.records[-1].fields["code"] == "rate_limited"
    assert waiting(house) == 1


async def test_what_a_plane_wishes_for_widens_nothing(house: House) -> None:
    asked = question()
    wishes = {"requested_until": "2099-01-01T00:00:00Z", "emergency": True}
    content = submission(asked, await ask(house, asked), requested_access=wishes)
    task = await submit(house, content)
    assert task.status is Status.PENDING
    await answer(house, task)
    assert (await house.requests.look(asking(), task.id)).expires_at == house.now + 3600
    assert (await again(house, task)).decision is True
    assert (await again(house, task)).decision is False


async def test_only_whoever_may_answer_themselves_is_led_to_a_page(house: House) -> None:
    assert (await requested(house)).ticket == ""
    house.rule.themselves = lambda _: True
    house.plane_gate = Known()
    house.pipeline = house._wired()
    task = await requested(house, to="eve@outside.example")
    assert task.ticket.startswith("https://gateway.example/approve/")


async def test_one_submission_under_a_key_is_under_way_at_a_time(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = question(), question(to="eve@outside.example")
    bodies = [submission(asked, await ask(house, asked)) for asked in (one, two)]
    files = house.approvals.file

    async def slowly(request: ApprovalRequest) -> Approval:
        await asyncio.sleep(0)
        return await files(request)

    monkeypatch.setattr(house.approvals, "file", slowly)
    told = await asyncio.gather(
        *(submit(house, body, key="k") for body in bodies), return_exceptions=True
    )
    assert [isinstance(each, Task) for each in told] == [True, False]
    assert waiting(house) == 1


async def test_a_name_of_a_question_is_one_planes(house: House) -> None:
    task = await requested(house)
    (filed,) = house.approvals.all(now=house.now)
    moved = replace(filed.request, id=ApprovalId("b"), plane="other", fingerprint=Digest.of(b"x"))
    await house.approvals.file(moved)
    made_up = task.id.replace(filed.request.id, "b")
    for plane in (EDGE, OTHER):
        with pytest.raises(AccessRequestRefused):
            (await house.requests.look(asking(plane), made_up))
    theirs = house.submissions.handle(moved)
    assert (await house.requests.look(asking(OTHER), theirs)).status is Status.PENDING
    assert (
        theirs.partition(".")[2]
        != house.submissions.handle(replace(moved, plane="edge")).partition(".")[2]
    )

"""What a task may take: of everybody's room, of names, and of a question that was not answered."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.approvals import ApprovalState, Span
from gateway.domain.calls import Permit, RawAnswer
from gateway.domain.decisions import Verdict
from gateway.domain.late import LONGEST_NAME, MOST_ASKED
from gateway.errors import CredentialRequired, UpstreamFailed
from gateway.storage.late_calls import SHARE
from gateway.wire.extensions import TASKS
from tests.pipeline.house import ALICE, TOOLS, House, decision
from tests.pipeline.late_house import ASKS, META, Works, about, begin, look

ANSWERS: dict[str, Any] = {"one": {"action": "accept", "content": {"yes": True}}}


@pytest.fixture
async def house() -> House:
    house = House(extensions=frozenset({TASKS}))
    await house.approve_all()
    return house


@pytest.fixture
def server(house: House) -> Works:
    return Works(house)


async def test_who_holds_their_share_is_refused_before_anything_is_sent(
    house: House, server: Works
) -> None:
    handle = await begin(house)
    (late,) = house.late.unsettled(now=9e9)
    house.late._book._held[late.person].octets = SHARE
    sent = len(server.saw)
    seen = await house.handle(house.call(_meta=META))
    assert (seen.code, len(server.saw)) == ("rate_limited", sent)
    assert "called with too much" in seen.json["result"]["content"][0]["text"]
    assert house.last["code"] == "rate_limited"
    assert handle


async def test_a_question_with_too_long_a_name_is_left_out_and_that_is_on_record(
    house: House, server: Works
) -> None:
    handle = await begin(house)
    fits, too_long = "n" * LONGEST_NAME, "n" * (LONGEST_NAME + 1)
    server.status, server.more = "input_required", {"inputRequests": {fits: ASKS, too_long: ASKS}}
    assert list((await look(house, handle))["inputRequests"]) == [fits]
    assert "limit_exceeded" in str(house.last["reasons"])
    (late,) = house.late.unsettled(now=9e9)
    assert late.progress.asked == (fits,)


async def test_that_a_server_asks_too_much_is_on_record(house: House, server: Works) -> None:
    handle = await begin(house)
    server.status = "input_required"
    server.more = {"inputRequests": {f"q{n}": ASKS for n in range(MOST_ASKED + 1)}}
    assert len((await look(house, handle))["inputRequests"]) == MOST_ASKED
    assert "asks too much" in str(house.last["reasons"])


async def asked(house: House, server: Works) -> str:
    handle = await begin(house)
    server.status, server.more = "input_required", {"inputRequests": {"one": ASKS}}
    await look(house, handle)
    return handle


async def test_a_question_stays_open_if_the_intent_of_its_answer_is_not_durable(
    house: House, server: Works
) -> None:
    handle = await asked(house, server)
    sent = len(server.saw)
    house.audit.failure = "disk full"
    seen = await about(house, "tasks/update", handle, inputResponses=ANSWERS)
    assert (seen.code, len(server.saw)) == ("audit_unavailable", sent)
    house.audit.failure = ""
    assert (await about(house, "tasks/update", handle, inputResponses=ANSWERS)).code is None
    assert server.saw[-1][1]["inputResponses"] == ANSWERS


async def test_a_look_goes_out_with_its_owners_credential_or_not_at_all(
    house: House, server: Works
) -> None:
    handle = await begin(house)

    def refuses(permit: Permit) -> RawAnswer:
        raise CredentialRequired("connect it first", url="https://x.example")

    house.now += 5
    house.server.answer = refuses
    seen = await about(house, "tasks/get", handle)
    assert seen.json["error"]["data"]["url"] == "https://x.example"
    house.server.answer = server.answer
    assert (await look(house, handle))["status"] == "working"
    assert {permit.principal.key for permit in house.server.saw} == {ALICE.key}


async def test_a_question_stays_open_if_its_answer_was_not_sent_after_all(
    house: House, server: Works
) -> None:
    handle = await asked(house, server)

    def refuses(permit: Permit) -> RawAnswer:
        raise CredentialRequired("no credential")

    house.server.answer = refuses
    seen = await about(house, "tasks/update", handle, inputResponses=ANSWERS)
    assert seen.code == "credential_required"
    house.server.answer = server.answer
    assert (await about(house, "tasks/update", handle, inputResponses=ANSWERS)).code is None
    assert server.saw[-1][1]["inputResponses"] == ANSWERS


async def test_a_question_stays_open_if_its_tool_is_another_when_its_answer_would_go_out(
    house: House, server: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await asked(house, server)
    change = house.late.change

    async def drifts(*given: Any) -> Any:
        found = await change(*given)
        await house.show({**TOOLS["search"], "description": "Search, and more."}, TOOLS["send"])
        return found

    monkeypatch.setattr(house.late, "change", drifts)
    sent = len(server.saw)
    seen = await about(house, "tasks/update", handle, inputResponses=ANSWERS)
    assert (seen.code, len(server.saw)) == ("pin_drift", sent)
    (late,) = house.late.unsettled(now=9e9)
    assert late.progress.answered == ()


async def test_an_answer_that_may_have_arrived_is_given_once(house: House, server: Works) -> None:
    handle = await asked(house, server)

    def breaks(permit: Permit) -> RawAnswer:
        raise UpstreamFailed("the connection broke")

    house.server.answer = breaks
    seen = await about(house, "tasks/update", handle, inputResponses=ANSWERS)
    assert seen.code == "upstream_failed"
    house.server.answer = server.answer
    sent = len(server.saw)
    await about(house, "tasks/update", handle, inputResponses=ANSWERS)
    assert len(server.saw) == sent


async def test_an_answer_that_a_person_is_asked_about_goes_out_by_their_yes_once(
    house: House, server: Works
) -> None:
    house.gate.people["alice"] = replace(ALICE, user_id="u_alice")
    handle = await asked(house, server)
    house.rule.says = lambda question: (
        decision(Verdict.ASK, "outside")
        if question["phase"] == "call" and not question.get("approval")
        else Verdict.ALLOW
    )
    sent = len(server.saw)
    seen = await about(house, "tasks/update", handle, inputResponses=ANSWERS)
    assert (seen.code, len(server.saw)) == ("approval_required", sent)
    (found,) = house.approvals.all(now=house.now)
    assert (found.request.target.name, found.request.arguments) == (
        "search",
        {"arguments": {}, "inputResponses": ANSWERS},
    )
    await house.approvals.answer(
        found.request.id,
        allow=True,
        span=Span.ONCE,
        by="user:ada",
        by_user_id="u_ada",
        note="",
        now=house.now,
    )
    assert (await about(house, "tasks/update", handle, inputResponses=ANSWERS)).code is None
    assert server.saw[-1][1]["inputResponses"] == ANSWERS
    assert [one.state for one in house.approvals.all(now=house.now)] == [ApprovalState.USED]

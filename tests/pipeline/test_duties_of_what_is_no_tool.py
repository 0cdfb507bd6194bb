"""Duties of decisions about what is no tool: resources, whose names callers choose, and answers."""

import json

import pytest

from gateway.domain.calls import Form
from gateway.domain.decisions import Duty, Obligation, Verdict
from gateway.domain.flow import Run
from gateway.domain.labels import Confidentiality
from gateway.domain.tools import Profile
from tests.pipeline.house import (
    ALICE,
    UNHINTED,
    Events,
    House,
    decision,
    event,
    result,
    text,
    whole,
)

ONCE = Obligation(duty=Duty.RATE_LIMIT, detail={"calls_per_minute": 1})
SECRET = Obligation(duty=Duty.LABEL, detail={"confidentiality": "secret"})


@pytest.fixture
async def house() -> House:
    house = House()
    await house.approve_all()
    await house.approve_all(Profile.LEGACY)
    return house


@pytest.mark.parametrize("phase", ["call", "result"])
async def test_all_resources_of_a_server_have_one_rate(house: House, phase: str) -> None:
    house.rule.says = lambda question: (
        decision(Verdict.ALLOW, obligations=[ONCE]) if question["phase"] == phase else Verdict.ALLOW
    )
    house.server.answer = lambda permit: result(permit, {"contents": [{"uri": "a", "text": "b"}]})
    asked = [house.request("resources/read", {"uri": f"mail://box?{n}"}) for n in range(3)]
    codes = [(await house.handle(one)).code for one in asked]
    assert codes == [None, "rate_limited", "rate_limited"]


async def test_rates_of_made_up_names_push_nobody_elses_out(house: House) -> None:
    house.rule.says = lambda question: decision(Verdict.ALLOW, obligations=[ONCE])
    before = len(house.limits._buckets)
    for n in range(5):
        await house.handle(house.request("resources/read", {"uri": f"mail://box?{n}"}))
    assert len(house.limits._buckets) - before <= 3


async def asked_and_answered(house: House, id_: str) -> int:
    """Let the server ask something, and answer it; return the answer's status."""
    question = {
        "jsonrpc": "2.0",
        "id": id_,
        "method": "elicitation/create",
        "params": {"message": "?"},
    }
    last = {"jsonrpc": "2.0", "id": 1, "result": text("done")}
    house.server.answer = lambda permit: Events([event(question), event(last)]).answer()
    params = {"name": "search", "arguments": {}}
    await house.handle(house.request("tools/call", params, profile=Profile.LEGACY, session="s1"))
    house.server.answer = lambda permit: whole(b"", status=202)
    said = {"result": {"action": "accept", "content": {"a": "b"}}}
    call = house.request(
        "", said, form=Form.RESPONSE, profile=Profile.LEGACY, session="s1", id_=id_
    )
    return (await house.handle(call)).reply.status


def asks_of_answers(house: House, duty: Obligation) -> None:
    house.rule.says = lambda question: (
        decision(Verdict.ALLOW, obligations=[duty])
        if "result" in question.get("arguments", {})
        else Verdict.ALLOW
    )


async def test_answers_to_a_server_have_the_rate_that_policy_says(house: House) -> None:
    asks_of_answers(house, ONCE)
    assert [await asked_and_answered(house, id_) for id_ in ("q1", "q2")] == [202, 429]
    assert json.loads(house.server.saw[-1].call.message.body)["id"] == 1


async def test_an_answer_raises_its_run_to_what_policy_says(house: House) -> None:
    asks_of_answers(house, SECRET)
    assert await asked_and_answered(house, "q1") == 202
    run: Run = await house.runs.of(ALICE, UNHINTED)
    assert run.label.confidentiality is Confidentiality.SECRET
    assert house.last["label_after"]["confidentiality"] == "secret"


@pytest.mark.parametrize(("links", "code"), [(100, None), (101, "upstream_failed")])
async def test_an_error_sends_its_user_to_so_many_places_and_no_more(
    house: House, links: int, code: str | None
) -> None:
    asked = [{"mode": "url", "url": f"https://a.example/{n}", "message": "?"} for n in range(links)]
    error = {"code": -32042, "message": "first", "data": {"elicitations": asked}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode()
    house.server.answer = lambda permit: whole(body)
    seen = await house.handle(house.call())
    assert seen.code == code
    assert len(house.audit.records) < 2 * links if code is None else 20

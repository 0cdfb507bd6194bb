"""Obligations: met on everything that carries an upstream's content, and never beyond."""

import json
from typing import Any

import pytest

from gateway.domain.decisions import Duty, Obligation, Verdict
from gateway.domain.labels import BOTTOM, Label
from gateway.domain.tools import Profile
from gateway.errors import Denied
from gateway.pipeline.filter import Carrier, meet
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


def duty(name: Duty, **detail: Any) -> Obligation:
    return Obligation(duty=name, detail=detail)


def blocks(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words} for words in texts]


NUMBER = duty(Duty.REDACT, patterns=[r"\d{3}-\d{2}-\d{4}"])


@pytest.mark.parametrize(
    ("obligation", "before", "after"),
    [
        (
            duty(Duty.REDACT, paths=["$.structuredContent.people[*].ssn"]),
            {
                "structuredContent": {"people": [{"ssn": "078-05-1120"}, {"ssn": "219-09-9999"}]},
                "content": [{"type": "text", "text": "078-05-1120 and 219-09-9999"}],
            },
            {
                "structuredContent": {"people": [{"ssn": "[redacted]"}, {"ssn": "[redacted]"}]},
                "content": [{"type": "text", "text": "[redacted] and [redacted]"}],
            },
        ),
        (
            duty(Duty.REDACT, paths=["$.structuredContent.card"]),
            {"structuredContent": {"card": {"number": 4111111111111111, "cvc": "12"}}, "x": "12"},
            {"structuredContent": {"card": "[redacted]"}, "x": "12"},
        ),
        (
            duty(Duty.REDACT, paths=["$.structuredContent.account"]),
            {"structuredContent": {"account": 12345678}, "content": [{"text": "no. 12345678"}]},
            {
                "structuredContent": {"account": "[redacted]"},
                "content": [{"text": "no. [redacted]"}],
            },
        ),
        (
            NUMBER,
            {"content": [{"text": "it is 078-05-1120."}], "_meta": {"a": ["078-05-1120"]}},
            {"content": [{"text": "it is [redacted]."}], "_meta": {"a": ["[redacted]"]}},
        ),
        (
            duty(Duty.REDACT, patterns=["AKIA[0-9A-Z]{16}"]),
            {"content": blocks("key AKIAIOSFOD", "NN7EXAMPLE rest")},
            {"content": blocks("key [redacted]", "[redacted] rest")},
        ),
        (
            duty(Duty.REDACT, paths=["$.structuredContent.ssn"]),
            {
                "structuredContent": {"ssn": "078-05-1120"},
                "content": blocks("ssn 078-", "05-", "", "1120 rest", "next"),
            },
            {
                "structuredContent": {"ssn": "[redacted]"},
                "content": blocks("ssn [redacted]", "[redacted]", "", "[redacted] rest", "next"),
            },
        ),
        (
            # One pattern's match within the other's: both are gone.
            duty(Duty.REDACT, patterns=[r"1\d{10}9", "56"]),
            {"content": blocks("no. 12345", "6789019 ok")},
            {"content": blocks("no. [redacted]", "[redacted] ok")},
        ),
        (
            # Disguised, it ends where nobody can tell.
            NUMBER,
            {"content": blocks("its 078-05-", "\uff11\uff11\uff12\uff10 rest")},
            {"content": blocks("[redacted]", "[redacted]")},
        ),
        (
            NUMBER,
            {"content": blocks("its 078-05-%3", "1120 rest")},
            {"content": blocks("[redacted]", "[redacted]")},
        ),
        (
            # In one text, the others pass.
            NUMBER,
            {"content": blocks("its 078-05-%31120", "rest")},
            {"content": blocks("[redacted]", "rest")},
        ),
        (
            duty(Duty.DROP_STRUCTURED),
            {"structuredContent": {"a": 1}, "content": []},
            {"content": []},
        ),
    ],
)
def test_what_is_to_be_hidden_is_hidden_wherever_it_stands(obligation, before, after):
    original = json.dumps(before)
    assert meet([obligation], before) == after
    assert json.dumps(before) == original


def test_what_nothing_can_mask_is_withheld():
    for name in (Duty.MASK, Duty.TOKENIZE, Duty.DROP):
        with pytest.raises(Denied):
            meet([duty(name, classes=["card"])], {"content": []})


def test_names_that_become_one_stay_many_and_short():
    names = {f"u{i}@x.example": i for i in range(2_000)}
    taken = {f"[redacted] {i}": -i for i in range(2, 9)}
    for said in (names | taken, taken | names):
        kept = meet([duty(Duty.REDACT, patterns=[r"u[0-9]+@x\.example"])], said)
        assert sorted(kept.values()) == sorted(said.values())
        assert max(map(len, kept)) < 20


@pytest.mark.parametrize(
    ("limit", "before", "after"),
    [
        (5, blocks("hello"), blocks("hello")),
        (4, blocks("hello", "world"), blocks("hell")),
        (7, blocks("hello", "world"), blocks("hello", "wo")),
        (2, blocks("aé"), blocks("a")),
        (9, [{"type": "image", "data": "AAAA"}, *blocks("hi")], blocks("hi")),
    ],
)
def test_text_is_cut_by_bytes_and_what_cannot_be_cut_is_left_out(limit, before, after):
    answer = {"content": before, "structuredContent": {"a": 1}, "contents": [1], "messages": [1]}
    assert meet([duty(Duty.TRUNCATE, bytes=limit)], answer) == {"content": after}


LONG = "x" * 65
NUMBERS = "7" * 65


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"resultType": LONG, "isError": True, "ttlMs": 5}, {"isError": True, "ttlMs": 5}),
        ({"level": {"a": "b"}, "code": ["b"], "resultType": "complete"}, {"resultType": "complete"}),
        ({"ttlMs": int(NUMBERS), "code": -int(NUMBERS), "total": int(NUMBERS[:64])}, {"total": int(NUMBERS[:64])}),
        ({"progress": 1e-300, "requestId": None}, {"progress": 1e-300, "requestId": None}),
        ({"contents": [{"uri": LONG, "text": "a"}]}, {}),
        ({"contents": [{"uri": "u:a", "text": "hello"}]}, {"contents": [{"uri": "u:a", "text": "he"}]}),
        ({"content": [{"type": LONG, "text": ""}]}, {"content": []}),
        ({"content": [{"type": "text", "mimeType": {"a": "b"}, "text": "a"}]}, {"content": []}),
        ({"content": [{"type": "text", "total": 5, "text": "a"}]}, {"content": blocks("a")}),
        ({"messages": [{"role": LONG, "content": {"type": "text", "text": "a"}}]}, {}),
        (
            {"completion": {"total": {"a": "b"}, "hasMore": LONG, "values": ["a"]}},
            {"completion": {"values": ["a"]}},
        ),
        (
            {"completion": {"total": int(NUMBERS), "hasMore": None, "values": ["a"]}},
            {"completion": {"values": ["a"]}},
        ),
        (
            {"completion": {"total": 1, "hasMore": False, "values": ["a"]}},
            {"completion": {"total": 1, "hasMore": False, "values": ["a"]}},
        ),
    ],
)  # fmt: skip
def test_nothing_beside_a_text_carries_what_is_cut_off(before, after):
    assert meet([duty(Duty.TRUNCATE, bytes=5)], before) == after


ASKED = {"q": {"method": "roots/list"}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"structuredContent": {"a": [65] * 99}, "inputRequests": {}, "isError": True}, {"isError": True}),
        ({"inputRequests": ASKED, "structuredContent": {"a": 1}}, {"inputRequests": ASKED}),
        ({"inputRequests": ASKED, "a": [65] * 99}, None),
        ({"inputRequests": ASKED, "a": {f"send_it_to_{at}": at for at in range(9)}}, None),
    ],
)  # fmt: skip
def test_only_a_short_question_passes_as_it_is(before, after):
    if after is None:
        with pytest.raises(Denied):
            meet([duty(Duty.TRUNCATE, bytes=60)], before)
    else:
        assert meet([duty(Duty.TRUNCATE, bytes=60)], before) == after


@pytest.mark.parametrize("data", [[65] * 99, {f"send_it_to_{at}": at for at in range(9)}])
def test_numbers_and_names_in_a_notification_count_as_they_are_written(data):
    told = {"level": "info", "data": data}
    assert meet([duty(Duty.TRUNCATE, bytes=60)], told, Carrier.NOTIFICATION) == {"level": "info"}
    assert meet([duty(Duty.TRUNCATE, bytes=900)], told, Carrier.NOTIFICATION) == told


def test_obligations_are_met_one_after_the_other():
    answer = {"content": blocks("078-05-1120 is it"), "structuredContent": {}}
    met = meet([NUMBER, duty(Duty.TRUNCATE, bytes=10)], answer)
    assert met == {"content": blocks("[redacted]")}


def test_what_is_met_elsewhere_changes_nothing_here():
    answer = {"content": blocks("hello")}
    rest = [
        duty(Duty.RATE_LIMIT, calls_per_minute=1),
        duty(Duty.REQUIRE_STEP_UP, scopes=["a"]),
        duty(Duty.LABEL, integrity="untrusted"),
    ]
    assert meet(rest, answer) is answer


# Through the pipeline.


@pytest.fixture
async def house() -> House:
    built = House()
    await built.approve_all()
    await built.approve_all(Profile.LEGACY)
    return built


def asks(house: House, phase: str, *obligations: Obligation) -> None:
    house.rule.says = lambda q: (
        decision(Verdict.ALLOW, obligations=obligations) if q["phase"] == phase else Verdict.ALLOW
    )


@pytest.mark.parametrize("phase", ["call", "result"])
async def test_what_either_decision_asks_for_is_met_on_the_result(house, phase):
    asks(house, phase, NUMBER)
    house.server.answer = lambda permit: result(permit, text("it is 078-05-1120"))
    seen = await house.handle(house.call())
    assert seen.json["result"] == text("it is [redacted]")


async def test_an_error_of_the_upstreams_is_redacted_too(house):
    asks(house, "call", NUMBER)
    error = {"code": -32000, "message": "no record of 078-05-1120", "data": ["078-05-1120"]}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode()
    house.server.answer = lambda permit: whole(body)
    seen = await house.handle(house.call())
    assert seen.json["error"] == {
        "code": -32000,
        "message": "no record of [redacted]",
        "data": ["[redacted]"],
    }


async def test_an_error_that_answers_nothing_in_particular_is_redacted_too(house):
    asks(house, "call", NUMBER)
    error = {"code": -32700, "message": "cannot read 078-05-1120"}
    body = json.dumps({"jsonrpc": "2.0", "error": error}).encode()
    house.server.answer = lambda permit: whole(body, status=400)
    assert b"078-05" not in (await house.handle(house.call())).bytes


async def test_a_notification_on_the_way_is_redacted_too(house):
    asks(house, "call", NUMBER)
    told = {"progress": 1, "message": "at 078-05-1120"}
    progress = event({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
    final = event({"jsonrpc": "2.0", "id": 1, "result": text("done")})
    house.server.answer = lambda permit: Events([progress, final]).answer()
    first, last = (await house.handle(house.call())).messages
    assert first["params"] == {"progress": 1, "message": "at [redacted]"}
    assert last["result"] == text("done")


async def test_what_goes_on_from_one_notification_to_the_next_is_redacted_there(house):
    asks(house, "call", NUMBER)
    said = ["at 078-0", "5-11", "20, done", "next"]
    told = [
        event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        for params in ({"progress": at, "message": each} for at, each in enumerate(said))
    ]
    final = event({"jsonrpc": "2.0", "id": 1, "result": text("done")})
    house.server.answer = lambda permit: Events([*told, final]).answer()
    seen = (await house.handle(house.call())).messages[:-1]
    assert [one["params"]["message"] for one in seen] == [
        "at 078-0",
        "5-11",
        "[redacted], done",
        "next",
    ]


@pytest.mark.parametrize("phase", ["call", "result"])
async def test_a_label_that_policy_asks_for_is_joined_into_the_run(house, phase):
    asks(house, phase, duty(Duty.LABEL, confidentiality="secret"))
    params = {"name": "search", "arguments": {}}
    call = house.request("tools/call", params, profile=Profile.LEGACY, session="s1")
    await house.handle(call)
    run = await house.runs.of(ALICE, UNHINTED)
    assert run.label.words == {"integrity": "trusted", "confidentiality": "secret"}
    assert house.last["label_after"] == run.label.words


async def test_a_label_that_policy_asks_for_can_only_raise(house):
    asks(house, "result", duty(Duty.LABEL, integrity="trusted", confidentiality="public"))
    before = (await house.runs.of(ALICE, UNHINTED)).label
    await house.handle(house.call())
    after: Label = (await house.runs.of(ALICE, UNHINTED)).label
    assert after == before.join(after) != BOTTOM


async def test_a_result_that_policy_asks_about_is_withheld(house):
    house.rule.says = lambda q: Verdict.ASK if q["phase"] == "result" else Verdict.ALLOW
    seen = await house.handle(house.call())
    assert (seen.code, b"hello" in seen.bytes) == ("approval_required", False)

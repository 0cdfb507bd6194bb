"""While everything is stopped nothing goes out and nothing is given out, by any door."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.domain.audit import RecordKind
from gateway.domain.calls import Call, Form, Permit, RawAnswer, ServerEvent
from gateway.domain.tools import Profile
from gateway.flow.provenance import Provenance
from gateway.pipeline.release import Release
from gateway.policy.stopping import Stoppable
from tests.pipeline.house import TOOLS, Events, House, event, result, text

DOORS: dict[str, Callable[[House], Call]] = {
    "a call": lambda house: house.call(),
    "a call of an old revision": lambda house: house.call(profile=Profile.LEGACY),
    "a tool that is not there": lambda house: house.call("nothing"),
    "a list": lambda house: house.request("tools/list"),
    "a prompt": lambda house: house.request("prompts/get", {"name": "x"}),
    "a resource": lambda house: house.request("resources/read", {"uri": "file:///x"}),
    "a handshake": lambda house: house.request("initialize", profile=Profile.LEGACY),
    "a ping": lambda house: house.request("ping", profile=Profile.LEGACY),
    "a notification": lambda house: house.request(
        "notifications/initialized", form=Form.NOTIFICATION, id_=None, profile=Profile.LEGACY
    ),
    "a stream": lambda house: house.request(
        "", form=Form.STREAM, id_=None, profile=Profile.LEGACY, session="up"
    ),
    "an answer": lambda house: house.request(
        "", form=Form.RESPONSE, id_=7, profile=Profile.LEGACY, session="up"
    ),
    "a request to ourselves": lambda house: house.request("douane/run/begin", {"task": {}}),
}


def lists(permit: Permit) -> RawAnswer:
    return result(permit, {"tools": list(TOOLS.values())})


@pytest.fixture
async def house() -> House:
    built = House()
    await built.approve_all()
    await built.approve_all(Profile.LEGACY)
    return built


@pytest.mark.parametrize("door", DOORS)
async def test_nothing_is_carried_while_everything_is_stopped(house: House, door: str) -> None:
    house.stopped = True
    seen = await house.handle(DOORS[door](house))
    assert seen.code == "policy_stopped"
    assert house.server.saw == []
    assert house.kinds() == ["outcome"]
    assert (house.last["verdict"], house.last["code"]) == ("deny", "policy_stopped")
    assert house.last["principal"]


async def test_a_model_is_told_that_an_operator_did_it(house: House) -> None:
    house.stopped = True
    (content,) = (await house.handle(house.call())).json["result"]["content"]
    assert content["text"].startswith("an operator has stopped all calls.")


async def test_a_stranger_learns_nothing_of_a_stop(house: House) -> None:
    house.stopped = True
    assert (await house.handle(house.call(who=None))).code == "unauthenticated"


async def test_it_goes_on_as_before_once_it_is_lifted(house: House) -> None:
    before = (await house.handle(house.call())).bytes
    house.stopped = True
    assert (await house.handle(house.call())).code == "policy_stopped"
    house.stopped = False
    assert (await house.handle(house.call())).bytes == before


async def test_what_a_server_answers_after_a_stop_is_withheld(house: House) -> None:
    def answer(permit: Permit) -> RawAnswer:
        house.stopped = True
        return result(permit, text("the secret"))

    house.server.answer = answer
    seen = await house.handle(house.call())
    assert seen.code == "policy_stopped"
    assert b"the secret" not in seen.bytes
    assert house.kinds() == ["intent", "outcome"]
    assert "result" not in {asked["phase"] for asked in house.rule.asked}


async def test_what_a_server_lists_after_a_stop_is_withheld(house: House) -> None:
    house.server.answer = lists
    assert (await house.handle(house.request("tools/list"))).code is None

    def answer(permit: Permit) -> RawAnswer:
        house.stopped = True
        return lists(permit)

    house.server.answer = answer
    asked = len(house.rule.asked)
    seen = await house.handle(house.request("tools/list"))
    assert seen.code == "policy_stopped"
    assert len(house.rule.asked) == asked


async def test_what_a_stream_says_after_a_stop_is_withheld(house: House) -> None:
    def answer(permit: Permit) -> RawAnswer:
        house.stopped = True
        progress = {"progressToken": "p", "progress": 1, "message": "the secret"}
        said = {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
        last = {"jsonrpc": "2.0", "id": 1, "result": text("the secret")}
        return Events([event(said), event(last)]).answer()

    house.server.answer = answer
    seen = await house.handle(house.call())
    assert b"the secret" not in seen.bytes
    assert house.last["code"] == "policy_stopped"


async def test_what_a_stop_overtakes_while_it_is_decided_is_refused(house: House) -> None:
    said = house.rule.says

    def says(question: Any) -> Any:
        house.stopped = question["phase"] == "call"
        return said(question)

    house.rule.says = says
    assert (await house.handle(house.call())).code == "policy_stopped"
    assert house.server.saw == []


async def test_what_a_stop_overtakes_while_its_intent_is_written_is_not_sent(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = house.audit.append

    async def stopping(record: Any) -> Any:
        entry = await append(record)
        house.stopped = True
        return entry

    monkeypatch.setattr(house.audit, "append", stopping)
    assert (await house.handle(house.call())).code == "policy_stopped"
    assert house.server.saw == []
    assert house.kinds() == ["intent", "outcome"]


async def test_what_a_stop_overtakes_while_it_is_written_anew_is_not_sent(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    asides = house.conversations.asides
    going = asides.going

    async def stopping(permit: Permit) -> Permit:
        # A large message waits here for its turn beside the event loop.
        told = await going(permit)
        house.stopped = True
        return told

    monkeypatch.setattr(asides, "going", stopping)
    assert (await house.handle(house.call())).code == "policy_stopped"
    assert house.server.saw == []
    assert house.kinds() == ["intent", "outcome"]


SECRET = {"jsonrpc": "2.0", "id": 1, "result": text("the secret")}
NOTICE = {
    "jsonrpc": "2.0",
    "method": "notifications/message",
    "params": {"level": "info", "data": "the secret"},
}
LAST: dict[str, Callable[[Permit], RawAnswer]] = {
    "whole": lambda permit: result(permit, text("the secret")),
    "streamed": lambda permit: Events([event(SECRET)]).answer(),
}


@pytest.mark.parametrize("how", LAST)
async def test_what_a_stop_overtakes_while_its_outcome_is_written_is_withheld(
    house: House, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    append = house.audit.append

    async def stopping(record: Any) -> Any:
        entry = await append(record)
        house.stopped = record.kind is RecordKind.OUTCOME
        return entry

    house.server.answer = LAST[how]
    monkeypatch.setattr(house.audit, "append", stopping)
    seen = await house.handle(house.call())
    assert b"the secret" not in seen.bytes
    assert b"policy_stopped" in seen.bytes
    assert house.kinds() == ["intent", "outcome", "outcome"]
    assert house.last["code"] == "policy_stopped"


@pytest.mark.parametrize("how", LAST)
async def test_what_a_stop_overtakes_once_it_is_judged_is_recorded_as_withheld(
    house: House, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    remember = Provenance.remember

    def stopping(*args: Any, **more: Any) -> None:
        remember(*args, **more)
        house.stopped = True

    house.server.answer = LAST[how]
    monkeypatch.setattr(Provenance, "remember", stopping)
    assert b"the secret" not in (await house.handle(house.call())).bytes
    assert house.kinds() == ["intent", "outcome"]
    assert house.last["code"] == "policy_stopped"


async def test_what_a_stop_overtakes_beside_an_answer_is_withheld(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    notification = Release.notification

    async def stopping(*args: Any, **beside: Any) -> bytes:
        told = await notification(*args, **beside)
        house.stopped = True
        return told

    house.server.answer = lambda permit: Events([event(NOTICE), event(SECRET)]).answer()
    monkeypatch.setattr(Release, "notification", stopping)
    seen = await house.handle(house.call())
    assert b"the secret" not in seen.bytes
    assert house.last["code"] == "policy_stopped"


async def test_a_stream_that_is_open_ends_with_a_stop_and_says_nothing_more(house: House) -> None:
    comment = ServerEvent(raw=b"id: 7\n\n", data=None)
    call = DOORS["a stream"](house)
    house.server.answer = lambda permit: Events([comment, comment]).answer()
    reply = await house.pipeline.handle(call)
    assert not isinstance(reply.body, bytes)
    parts = []
    async for part in reply.body:
        parts.append(part)
        house.stopped = bool(part)
    assert [part for part in parts if part] == [b"id: 7\ndata:\n\n"]
    assert house.last["code"] == "policy_stopped"


async def test_a_late_answer_is_withheld_that_a_stop_overtakes(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.server.answer = lambda permit: Events([]).answer()
    await house.handle(
        house.request("tools/call", {"name": "search"}, profile=Profile.LEGACY, session="up")
    )
    append = house.audit.append

    async def stopping(record: Any) -> Any:
        entry = await append(record)
        house.stopped |= record.fields["method"] == "tools/call"
        return entry

    house.server.answer = lambda permit: Events([event(SECRET)]).answer()
    monkeypatch.setattr(house.audit, "append", stopping)
    seen = await house.handle(DOORS["a stream"](house))
    assert b"the secret" not in seen.bytes
    assert house.stopped


async def test_no_answer_of_before_is_remembered_for_a_stop_or_after_it(house: House) -> None:
    house.server.answer = lists
    await house.handle(house.request("tools/list"))
    asked = len(house.rule.asked)
    house.stopped = True
    assert (await house.handle(house.request("tools/list"))).code == "policy_stopped"
    house.stopped = False
    seen = await house.handle(house.request("tools/list"))
    assert seen.code is None
    assert len(house.rule.asked) == asked
    assert json.loads(seen.bytes)["result"]


async def test_what_was_remembered_is_anothers_during_a_stop(house: House) -> None:
    policy = Stoppable(house.rule, require_none=house.require_going, holds=lambda: house.stopped)
    going = policy.digest
    house.stopped = True
    assert policy.digest != going
    house.stopped = False
    assert policy.digest == going

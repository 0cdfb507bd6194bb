"""Streams that stay open: what is said on them is judged by what the run has read by then."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import Form, Permit, RawAnswer, ServerEvent
from gateway.domain.tools import Profile
from gateway.errors import AuditUnavailable
from tests.pipeline.house import ALICE, PRIVATE, UNHINTED, Events, House, event

WORDS = {"integrity": "untrusted", "confidentiality": "private"}
ASKS = {"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {"messages": []}}
TELLS = {
    "jsonrpc": "2.0",
    "method": "notifications/message",
    "params": {"level": "info", "data": "x"},
}


@pytest.fixture
async def house() -> House:
    house = House()
    await house.approve_all(Profile.LEGACY)
    return house


def reading(house: House, said: dict[str, Any]) -> Any:
    """Return a server that says something on a stream after the run has read what is private."""

    async def events() -> AsyncIterator[ServerEvent]:
        run = await house.runs.of(ALICE, UNHINTED)
        await house.runs.raise_label(run.id, PRIVATE, None)
        yield event(said)

    def answer(permit: Permit) -> RawAnswer:
        return replace(Events([]).answer(), body=events())

    return answer


@pytest.mark.parametrize("said", [ASKS, TELLS], ids=["question", "notification"])
@pytest.mark.parametrize("streams", [True, False], ids=["stream", "call"])
async def test_it_is_judged_by_what_was_read_since_the_stream_began(
    house: House, said: dict[str, Any], streams: bool
) -> None:
    house.server.answer = reading(house, said)
    call = house.request(
        "GET" if streams else "tools/call",
        {} if streams else {"name": "search", "arguments": {}},
        profile=Profile.LEGACY,
        session="s1",
        form=Form.STREAM if streams else Form.REQUEST,
        id_=None if streams else 1,
    )
    before = len(house.rule.asked)
    seen = await house.handle(call)
    assert len(seen.parts) == 1
    about = [
        q
        for q in house.rule.asked[before:]
        if q["phase"] == "result" or q["method"] == said["method"]
    ]
    assert about
    assert [question["flow"]["label"] for question in about] == [WORDS] * len(about)


async def test_one_that_is_not_passed_on_is_closed(house: House) -> None:
    async def unwritten(*_: Any, **__: Any) -> Any:
        raise AuditUnavailable("no")

    events = Events([event(TELLS)])
    house.server.answer = lambda permit: events.answer()
    house.runs.raise_label = unwritten
    call = house.call(profile=Profile.LEGACY)
    assert (await house.handle(call)).code == "audit_unavailable"
    assert events.closed


async def test_one_that_comes_with_a_session_that_is_none_is_closed(house: House) -> None:
    events = Events([event(TELLS)])
    house.server.answer = lambda permit: replace(events.answer(), session="not an id")
    assert (await house.handle(house.call(profile=Profile.LEGACY))).code == "upstream_failed"
    assert events.closed

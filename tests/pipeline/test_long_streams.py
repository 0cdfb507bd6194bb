"""Streams that stay open: what is said on them is judged by what the run has read by then."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.audit import RecordKind
from gateway.domain.calls import Form, Permit, RawAnswer, ServerEvent
from gateway.domain.decisions import Verdict
from gateway.domain.labels import ToolRule
from gateway.domain.tools import Profile
from gateway.errors import AuditUnavailable
from tests.pipeline.house import ALICE, PRIVATE, UNHINTED, Events, House, event, text

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


@pytest.mark.parametrize("said", [ASKS, TELLS], ids=["question", "notification"])
async def test_what_comes_after_its_run_has_ended_counts_in_the_one_there_is_then(
    said: dict[str, Any],
) -> None:
    house = House(tools={"search": ToolRule(result=PRIVATE)})
    await house.approve_all(Profile.LEGACY)

    async def events() -> AsyncIterator[ServerEvent]:
        for run in house.runs.all():
            await house.runs.end(run.run.id)
        yield event(said)

    house.server.answer = lambda permit: replace(Events([]).answer(), body=events())
    seen = await house.handle(house.call(profile=Profile.LEGACY, session="s1"))
    assert len(seen.parts) == 1
    assert (await house.runs.of(ALICE, UNHINTED)).label == PRIVATE


async def test_whoever_goes_while_the_end_is_recorded_ends_it_once(house: House) -> None:
    answer = event({"jsonrpc": "2.0", "id": 1, "result": text("hello")})
    house.server.answer = lambda permit: Events([answer]).answer()
    params = {"name": "search", "arguments": {}}
    call = house.request("tools/call", params, profile=Profile.LEGACY, session="s1")
    reply = await house.pipeline.handle(call)
    assert not isinstance(reply.body, bytes)
    await cancelled_at_the_end(house, anext_of(reply.body))
    assert house.kinds() == ["intent", "outcome"]
    assert (house.last["verdict"], "code" in house.last) == ("allow", False)
    get = house.request("GET", form=Form.STREAM, id_=None, profile=Profile.LEGACY, session="s1")
    (told,) = (await house.handle(get)).messages  # whoever comes back is told
    assert told["result"] == text("hello")


async def anext_of(parts: Any) -> None:
    async for _ in parts:
        pass


async def cancelled_at_the_end(house: House, waits: Any) -> None:
    """Cancel whoever waits once the record of an end was handed to the log."""
    appended = house.audit.append
    task = asyncio.ensure_future(waits)

    async def append(record: Any) -> Any:
        if record.kind is RecordKind.OUTCOME:
            asyncio.get_running_loop().call_soon(task.cancel)
        return await appended(record)

    house.audit.append = append  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)


@pytest.mark.parametrize("is_refused", [False, True])
async def test_whoever_goes_while_an_answer_is_recorded_leaves_one_end(is_refused: bool) -> None:
    house = House()
    await house.approve_all()
    if is_refused:
        house.rule.says = lambda question: Verdict.DENY
    await cancelled_at_the_end(house, house.pipeline.handle(house.call()))
    assert house.kinds() == (["outcome"] if is_refused else ["intent", "outcome"])
    assert house.last["verdict"] == ("deny" if is_refused else "allow")

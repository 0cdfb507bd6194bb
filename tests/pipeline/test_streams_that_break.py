"""A connection to a server that breaks in the middle of an answer: what is lost can be asked for again."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import Form, ServerEvent
from gateway.domain.tools import Profile
from gateway.errors import GatewayError, UpstreamBroke, UpstreamFailed
from tests.pipeline.house import Events, House, event, text

LEGACY: dict[str, Any] = {"profile": Profile.LEGACY, "session": "s1"}
PRIMED = ServerEvent(raw=b"id: e-1\ndata:\n\n", data=None)
BROKE = UpstreamBroke("The upstream server gave no usable answer.")


@pytest.fixture
async def house() -> House:
    made = House()
    await made.approve_all(Profile.LEGACY)
    return made


async def seen_of(house: House, *events: ServerEvent | GatewayError, **more: Any) -> Any:
    house.server.answer = lambda permit: Events(events).answer()
    more = {"params": {"name": "search", "arguments": {}}, **LEGACY, **more}
    return await house.handle(house.request("tools/call", **more))


async def test_the_answer_comes_on_the_stream_that_asks_for_the_rest(house: House) -> None:
    seen = await seen_of(house, PRIMED, BROKE)
    assert seen.parts == (PRIMED.raw,)
    assert house.last["code"] == "outcome_unknown"
    late = event({"jsonrpc": "2.0", "id": 1, "result": text("late")})
    house.server.answer = lambda permit: Events([late]).answer()
    get = house.request("GET", form=Form.STREAM, id_=None, **LEGACY)
    asked = replace(get, headers=(*get.headers, ("last-event-id", "e-1")))
    (answered,) = (await house.handle(asked)).messages
    assert answered["result"] == text("late")


@pytest.mark.parametrize(
    ("events", "more"),
    [
        ([BROKE], {}),
        ([PRIMED, BROKE], {"session": None}),
        ([PRIMED, UpstreamFailed("it fell silent")], {}),
    ],
    ids=["nothing-to-come-back-with", "no-session", "given-up"],
)
async def test_where_nothing_can_be_asked_for_again_the_call_is_refused(
    house: House, events: list[Any], more: dict[str, Any]
) -> None:
    seen = await seen_of(house, *events, **more)
    assert seen.messages[-1]["result"]["_meta"]["douane/refusal"]["code"] == "upstream_failed"
    assert house.last["code"] == "upstream_failed"

"""A request that its client cancels before anything of it was sent is not sent."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import Call, Form
from gateway.domain.tools import Profile
from tests.pipeline.house import ALICE, House, Seen, result, text

SESSION: dict[str, Any] = {"profile": Profile.LEGACY, "session": "s1"}


class Waiting:
    """A call that is not decided on yet."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def first(self) -> None:
        self.begun.set()
        async with asyncio.timeout(60):
            await self.go_on.wait()

    async def called(self, arrived: int, **more: Any) -> asyncio.Task[Seen]:
        """Return it, once it waits."""
        self.house.catalogs.first = self.first
        task = asyncio.create_task(self.house.handle(self.request(arrived, **more)))
        await self.begun.wait()
        self.house.catalogs.first = None
        return task

    def request(self, arrived: int, **more: Any) -> Call:
        said = {"id_": 7, **SESSION, **more}
        call = self.house.request("tools/call", {"name": "search", "arguments": {}}, **said)
        return replace(call, arrived=arrived)

    async def cancel(self, arrived: int, named: object = 7, **more: Any) -> None:
        said = {"id_": None, "form": Form.NOTIFICATION, **SESSION, **more}
        call = self.house.request("notifications/cancelled", {"requestId": named}, **said)
        await self.house.handle(replace(call, arrived=arrived))

    async def ended(self, task: "asyncio.Task[Seen]") -> Seen:
        self.go_on.set()
        return await task


@pytest.fixture
async def waiting() -> Waiting:
    house = House()
    await house.approve_all(Profile.LEGACY)
    house.gate.people["bob"] = replace(ALICE, subject="bob")
    house.gate.people["other"] = replace(ALICE, client_id="other")
    house.server.answer = lambda permit: result(permit, text("found"))
    return Waiting(house)


def sent(waiting: Waiting) -> list[str]:
    return [one.call.message.method for one in waiting.house.server.saw]


async def test_what_is_cancelled_while_it_is_decided_on_is_not_sent(waiting: Waiting) -> None:
    task = await waiting.called(1)
    await waiting.cancel(2)
    assert (await waiting.ended(task)).code == "upstream_failed"
    assert sent(waiting) == ["notifications/cancelled"]
    assert waiting.house.last["code"] == "upstream_failed"


async def test_what_is_cancelled_while_it_is_read_is_not_sent(waiting: Waiting) -> None:
    """A large request is read beside the loop, and what came after it may be read before."""
    await waiting.cancel(2)
    assert (await waiting.house.handle(waiting.request(1))).code == "upstream_failed"
    assert sent(waiting) == ["notifications/cancelled"]


@pytest.mark.parametrize(
    "more",
    [
        {"named": "7"},
        {"named": 8},
        {"named": [7]},
        {"named": None},
        {"session": "s2"},
        {"who": "bob"},
        {"who": "other"},
    ],
)
async def test_nobody_else_cancels_it(waiting: Waiting, more: dict[str, Any]) -> None:
    task = await waiting.called(1)
    await waiting.cancel(2, **more)
    assert (await waiting.ended(task)).code is None


async def test_a_cancellation_that_came_before_is_of_another_request(waiting: Waiting) -> None:
    await waiting.cancel(1)
    await waiting.cancel(3, named=8)
    assert (await waiting.house.handle(waiting.request(2))).code is None


async def test_a_cancellation_that_did_not_come_in_here_takes_no_other_one_back(
    waiting: Waiting,
) -> None:
    """Such as a plane's, which names any person and client."""
    task = await waiting.called(1)
    await waiting.cancel(2)
    await waiting.cancel(0)
    assert (await waiting.ended(task)).code == "upstream_failed"


async def test_what_did_not_come_in_nobody_has_cancelled(waiting: Waiting) -> None:
    await waiting.cancel(1)
    assert (await waiting.house.handle(waiting.request(0))).code is None

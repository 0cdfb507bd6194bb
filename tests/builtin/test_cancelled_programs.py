"""A client that waits no more for a program: what it says ends that call, and nobody else's."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest

from gateway.domain.calls import Form
from gateway.domain.programs import Program, ProgramResult
from gateway.domain.tools import Profile
from gateway.ports.sandbox import Broker, Engine
from tests.builtin.front import Site
from tests.pipeline.house import ALICE, Seen

SESSION: dict[str, Any] = {"profile": Profile.LEGACY, "session": "e.1"}


class Endless:
    """An engine whose programs end when they are cancelled."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = False

    async def run(self, program: Program, broker: Broker, **_: Any) -> ProgramResult:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            # Whoever cancels waits for this: what a program does is settled before its call ends.
            await asyncio.sleep(0)
            self.ended = True
        raise NotImplementedError


@pytest.fixture
def engine() -> Endless:
    return Endless()


@pytest.fixture
async def site(engine: Endless) -> AsyncIterator[Site]:
    made = await Site(engine=cast("Engine", engine)).furnish()
    made.house.gate.people["alice"] = replace(ALICE, scopes=ALICE.scopes | {"code:run"})
    made.house.gate.people["mallory"] = replace(ALICE, subject="mallory")
    yield made
    await made.aclose()


def begun(site: Site, **more: Any) -> "asyncio.Task[Seen]":
    params = {"name": "run_code", "arguments": {"code": "1"}}
    return asyncio.create_task(site.ask("tools/call", params, id_=7, **{**SESSION, **more}))


async def cancel(site: Site, request: object = 7, **more: Any) -> None:
    said = {"id_": None, "form": Form.NOTIFICATION, **SESSION, **more}
    call = site.call("notifications/cancelled", {"requestId": request}, **said)
    await Seen.of(await site.aggregate.handle(call))


async def test_its_client_cancels_a_program_that_runs_in_a_session(
    site: Site, engine: Endless
) -> None:
    waiting = begun(site)
    await engine.begun.wait()
    await cancel(site)
    assert (await waiting).code == "upstream_failed"
    assert engine.ended
    assert site.house.last["code"] == "upstream_failed"


@pytest.mark.parametrize(
    "more",
    [{"session": "e.2"}, {"who": "mallory"}, {"request": "7"}, {"request": 8}, {"request": None}],
    ids=["session", "principal", "text", "number", "none"],
)
async def test_nobody_else_cancels_it(site: Site, engine: Endless, more: dict[str, Any]) -> None:
    waiting = begun(site)
    await engine.begun.wait()
    await cancel(site, **more)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await cancel(site)
    await waiting


async def test_who_goes_away_leaves_no_program_behind(site: Site, engine: Endless) -> None:
    waiting = begun(site)
    await engine.begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert engine.ended
    assert site.house.last["code"] == "client_gone"

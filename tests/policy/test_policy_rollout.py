"""Calls while a policy server, or one of several, gets another policy: decided by one that is there."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from gateway.domain.labels import Effect, ToolRule
from gateway.domain.tools import Profile
from gateway.policy.rest import RestEngine
from gateway.policy.settings import OpaServer
from tests.pipeline.house import House

Revision = Callable[[], str]
"""Which policy answers the next question."""


@asynccontextmanager
async def asked(revision: Revision, *, allows: Callable[[str], bool]) -> AsyncIterator[House]:
    """A gateway that asks a server whose answers are by this revision."""

    async def handler(request: web.Request) -> web.Response:
        asked, by = (await request.json())["input"], revision()
        bundles = {"douane": {"revision": by}}
        is_allowed = asked.get("phase") != "call" or allows(by)
        reasons = [] if is_allowed else [{"code": "no", "message": "no"}]
        said = {"verdict": "allow" if is_allowed else "deny", "reasons": reasons}
        return web.json_response({"result": said, "provenance": {"bundles": bundles}})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    house = House(tools={"send": ToolRule(effect=Effect.EGRESS)})
    await house.approve_all(Profile.MODERN)
    server = OpaServer(url=f"http://127.0.0.1:{runner.addresses[0][1]}")
    engine: Any = await RestEngine.connect(server, deadline=60.0, renamed=house.epoch.turn)
    house.rule = engine
    house.pipeline = house._wired()
    try:
        yield house
    finally:
        await engine.close()
        await runner.cleanup()


async def codes(house: House, calls: int) -> Counter[str | None]:
    found = await asyncio.gather(*(house.handle(house.call("send")) for _ in range(calls)))
    return Counter(one.code for one in found)


def decided_by(house: House) -> set[Any]:
    return {one.fields["policy_digest"] for one in house.audit.records if one.kind == "intent"}


async def test_calls_at_once_are_decided_by_whichever_of_two_servers_answers() -> None:
    turns = iter(range(1_000_000))
    async with asked(lambda: f"r{next(turns) % 2}", allows=lambda _: True) as house:
        assert sum([await codes(house, 20) for _ in range(5)], Counter[str | None]()) == {None: 100}
        assert decided_by(house) == {"revision:douane=r0", "revision:douane=r1"}
        assert len(house.server.saw) == 100


async def test_of_calls_at_once_none_is_recorded_on_a_policy_that_was_replaced() -> None:
    now = "r0"
    async with asked(lambda: now, allows=lambda by: by == "r0") as house:
        put, known = house.ledger.put, asyncio.Event()

        async def switching(*given: Any, **_: Any) -> Any:
            nonlocal now
            if now == "r0":
                now = "r1"
                await house.rule.evaluate({})
                known.set()
            await known.wait()
            return await put(*given)

        house.ledger.put = switching  # type: ignore[method-assign]
        assert await codes(house, 20) == {"denied": 20}
        assert house.server.saw == []

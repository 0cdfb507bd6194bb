"""Clients that listen for tasks, and time that passes when a test says so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from gateway.domain.calls import Reply
from gateway.pipeline.late_watch import WatchedTasks
from gateway.wire.jsontext import WireLimits
from tests.builtin.listening import Listener
from tests.pipeline.house import MAIL, House

TOLD = "notifications/tasks"


class Reader(Listener):
    """One of which a test knows how much it has heard."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply)
        self.more = asyncio.Event()

    async def read(self) -> None:
        assert not isinstance(self.reply.body, bytes)
        async with aclosing(self.reply.body) as parts:
            async for part in parts:
                self.raw.append(part)
                self.more.set()
        self.ended.set()

    async def hears(self, number: int) -> None:
        """Wait until so many messages have come."""
        async with asyncio.timeout(20):
            while len(self.heard) < number:
                self.more.clear()
                await self.more.wait()


class Resting(WatchedTasks):
    """One of which a test knows when it waits for time to pass, or has nothing more to do."""

    def __init__(self, house: House, carrier: Any = None) -> None:
        super().__init__(
            carrier or house.pipeline,
            servers=frozenset({MAIL}),
            handles=house.late_handles,
            limits=WireLimits(),
            clock=house.clock,
            pause=self._rest,
            new_id=house.new_id,
        )
        self._house = house
        self._ticks = asyncio.Semaphore(0)
        self._rests = asyncio.Event()

    async def _rest(self, seconds: float) -> None:
        if seconds > 0:
            self._rests.set()
            await self._ticks.acquire()
            self._rests.clear()
            self._house.now += seconds

    async def _changes(self, *given: Any) -> AsyncIterator[bytes]:  # type: ignore[override]
        async for one in super()._changes(*given):
            yield one
        self._rests.set()

    async def pass_by(self, pauses: int = 2) -> None:
        """Let the time pass of one look, which takes two pauses, or of more."""
        for _ in range(pauses):
            await self.rested()
            self._ticks.release()
            await asyncio.sleep(0)
        await self.rested()

    async def rested(self) -> None:
        async with asyncio.timeout(20):
            await self._rests.wait()


def told(listener: Reader) -> list[Any]:
    """Return what a stream has told of tasks."""
    return [one["params"] for one in listener.heard if one.get("method") == TOLD]

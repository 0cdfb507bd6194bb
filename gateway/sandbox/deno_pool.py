"""Processes for programs: so many at once, a few of them started ahead, each for one run only."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from gateway.errors import RateLimited
from gateway.sandbox.deno_process import DenoProcess, NotStarted
from gateway.sandbox.endings import Endings


class Processes:
    """Of one event loop."""

    def __init__(
        self,
        start: Callable[[Endings], Awaitable[DenoProcess]],
        *,
        most: int,
        ahead: int,
        wait_s: float,
    ) -> None:
        """Run `most` programs at once; one more waits `wait_s`. `ahead` processes wait for runs.

        What `start` is kept from finishing is ended among the endings that it is given.
        """
        self._start = start
        self._turns = asyncio.Semaphore(most)
        self._ahead = ahead
        self._wait_s = wait_s
        self._ready: list[DenoProcess] = []
        self._filling: asyncio.Task[None] | None = None
        self._endings = Endings()
        self._closed = False

    @asynccontextmanager
    async def one(self) -> AsyncIterator[DenoProcess]:
        """Return a process that nobody has used, and end it afterwards.

        Raises:
            RateLimited: All are taken.
            NotStarted: There is none.

        """
        try:
            async with asyncio.timeout(self._wait_s):
                await self._turns.acquire()
        except TimeoutError as error:
            raise RateLimited("too many programs run at once; try again later") from error
        try:
            process = await self._next()
            try:
                yield process
            finally:
                await self._endings.of(process.end())
        finally:
            self._turns.release()

    async def fill(self) -> None:
        """Start as many as are to wait.

        Raises:
            NotStarted: One does not start.

        """
        while len(self._ready) < self._ahead:
            self._ready.append(await self._start(self._endings))

    async def aclose(self) -> None:
        """End those that wait, and wait for those that end."""
        self._closed = True
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.wait([self._filling])
        for process in self._ready:
            await process.end()
        self._ready.clear()
        await self._endings.settled()

    async def _next(self) -> DenoProcess:
        found = None
        while self._ready and found is None:
            process = self._ready.pop(0)
            if process.runs:
                found = process
            else:
                await self._endings.of(process.end())
        if not self._closed and self._ahead and (self._filling is None or self._filling.done()):
            self._filling = asyncio.get_running_loop().create_task(self._refilled())
        return found or await self._start(self._endings)

    async def _refilled(self) -> None:
        with suppress(NotStarted):  # the next run starts its own, and tells
            await self.fill()

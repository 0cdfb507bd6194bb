"""Processes of the interpreter, each for one run; a few wait ahead of it, with a session open."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from pydantic_monty import (
    AsyncMonty,
    AsyncMontySession,
    ExternalModule,
    MontyError,
    ResourceLimits,
)

from gateway.domain.programs import SandboxLimits
from gateway.sandbox.driving import TURNS
from gateway.sandbox.ending import NAME
from gateway.sandbox.names import PACKAGE

_DEEPEST: Final = 400
"""Calls of a program's own functions inside each other."""

# What reads types reads those of the library first, which takes longer than most programs. A text
# with a mistake in its types has it read them, and nothing of the text is run.
_UNTYPED: Final = """import asyncio
import json
from typing import Any, Dict, List, Literal, TypedDict
async def read(*, n: int = 1) -> Dict[str, Any]:
    return {"n": n}
for one in await asyncio.gather(read(n=1)):
    json.dumps(one)
len([1]) + "x"
"""
_NOTHING: Final = "0"
_SOON_S: Final = 0.02
"""After which another one is started for one that was taken."""


class Worker:
    """A process with a session open."""

    def __init__(
        self, pool: AsyncMonty, limits: SandboxLimits, *, left_s: float, checks: bool
    ) -> None:
        """`left_s`: of the time that a program may compute."""
        bounds: ResourceLimits = {
            "max_feed_duration_secs": left_s,
            "max_turn_duration_secs": left_s,
            "max_memory": limits.memory_bytes,
            "max_recursion_depth": _DEEPEST,
            # Counted by the driver as well, which ends it first.
            "max_suspensions": 2 * (TURNS + 4 * limits.calls),
        }
        self.session: AsyncMontySession = pool.checkout(
            script_name=NAME,
            limits=bounds,
            type_check=checks,
            type_check_format="concise",
            os_policy={"sleep": "call_host", "process_time": "zero"},
            # Asked for when a program imports it: until then nobody needs to know whose it is.
            external_modules={PACKAGE: self._tools},
        )
        self.package = ExternalModule({}, stubs="")
        """What `import tools` finds."""

    async def _tools(self) -> ExternalModule:
        return self.package

    @property
    def lives(self) -> bool:
        """Whether its process is still there."""
        pid = self.session.worker_pid
        if pid is None:
            return False
        try:
            return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False


class Workers:
    """Gives each run a process that nothing else ran in, and ends it. Of one event loop."""

    def __init__(
        self, pool: AsyncMonty, limits: SandboxLimits, *, most: int, ahead: int, checks: bool
    ) -> None:
        """Run `most` at once, and keep `ahead` more ready.

        `pool` holds so many processes together, and gives out each once.
        """
        self._pool = pool
        self._limits = limits
        self.checks = checks
        """Whether they check the types of what they run."""
        self.ahead = ahead
        """How many are to wait for a run."""
        self._free = asyncio.Semaphore(most)
        self._ready: deque[Worker] = deque()
        self._starting = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def ready(self) -> int:
        """How many wait for a run."""
        return len(self._ready)

    @asynccontextmanager
    async def one(
        self, package: ExternalModule, *, used_s: float = 0.0
    ) -> AsyncIterator[AsyncMontySession]:
        """Give a session in a process to one run, which has computed for `used_s` seconds before.

        Its process is ended after it, and counts until it is gone.

        Raises:
            TimeoutError: None became free in the time that a run may take.

        """
        async with asyncio.timeout(self._limits.wall_s):
            await self._free.acquire()
        try:
            # One that is ready has all its time left.
            worker = None if used_s else self._taken()
            worker = worker or await self._opened(used_s)
        except BaseException:
            self._free.release()
            raise
        worker.package = package
        try:
            yield worker.session
        finally:
            if self._closed:
                await self._over(worker)
            else:
                self._begin(self._over(worker))

    def fill(self) -> None:
        """Begin to start as many as are to wait."""
        while not self._closed and len(self._ready) + self._starting < self.ahead:
            self._starting += 1
            self._begin(self._start_ahead())

    async def settle(self) -> None:
        """Wait until nothing is being started or ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def aclose(self) -> None:
        """End those that wait, and wait for those that end."""
        self._closed = True
        while self._ready:
            self._begin(_ended(self._ready.popleft()))
        await self.settle()

    def _taken(self) -> Worker | None:
        """Return one that is ready, if there is one, and have another one started for it soon."""
        found = None
        while self._ready and found is None:
            found = self._ready.popleft()
            if not found.lives:
                self._begin(_ended(found))
                found = None
        # Not now: what starts it would take the processor from a run that may be over in no time.
        asyncio.get_running_loop().call_later(_SOON_S, self.fill)
        return found

    async def _opened(self, used_s: float) -> Worker:
        left_s = max(0.001, self._limits.interpreter_s - used_s)
        worker = Worker(self._pool, self._limits, left_s=left_s, checks=self.checks)
        await worker.session.__aenter__()
        return worker

    async def _start_ahead(self) -> None:
        try:
            worker = await self._opened(0.0)
            # What it raises is meant, or is found out by who takes it.
            with suppress(MontyError):
                await worker.session.feed_run(_UNTYPED if self.checks else _NOTHING)
        except (MontyError, OSError, TimeoutError):
            return  # whoever needs one starts it, and is told why there is none
        finally:
            self._starting -= 1
        if self._closed:
            await _ended(worker)
        else:
            self._ready.append(worker)

    async def _over(self, worker: Worker) -> None:
        try:
            await _ended(worker)
        finally:
            self._free.release()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _ended(worker: Worker) -> None:
    with suppress(MontyError, OSError):
        await worker.session.__aexit__(None, None, None)

"""The same interpreter driven by its library alone: what a run costs before we do anything.

No jail, no types, no limits on what is called, one process for all runs that follow each other, and
between the interpreter and a tool nothing but JSON written and read.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from pydantic_monty import (
    AsyncFunctionSnapshot,
    AsyncFutureSnapshot,
    AsyncMonty,
    AsyncMontySession,
    AsyncSnapshot,
    ExternalModule,
    MontyComplete,
)

Tool: TypeAlias = Callable[[Any], Awaitable[Any]]

_SUSPENSIONS = 5000


@asynccontextmanager
async def plain_pool(*, processes: int, ready: int) -> AsyncIterator[AsyncMonty]:
    """Hold processes of the interpreter."""
    async with AsyncMonty(min_processes=ready, max_processes=processes, request_timeout=60) as pool:
        yield pool


async def plain_cold(code: str) -> Any:
    """Start a process, run a program, and end the process."""
    async with plain_pool(processes=1, ready=0) as pool:
        return await plain_run(pool, code)


async def plain_run(pool: AsyncMonty, code: str, tool: Tool | None = None) -> Any:
    """Run a program in whichever process is free, with its calls made by the library."""
    async with pool.checkout(external_modules=_modules(tool), limits=_limits()) as session:
        return await session.feed_run(code)


async def plain_drive(pool: AsyncMonty, code: str, tool: Tool) -> Any:
    """Run a program step by step, which is the way in which it could be kept while it waits."""
    pending: dict[int, asyncio.Task[Any]] = {}
    async with pool.checkout(external_modules=_modules(tool), limits=_limits()) as session:
        snapshot = await _started(session, code)
        while not isinstance(snapshot, MontyComplete):
            if isinstance(snapshot, AsyncFutureSnapshot):
                snapshot = await _told(snapshot, pending)
            elif isinstance(snapshot, AsyncFunctionSnapshot) and not snapshot.is_os_function:
                call = asyncio.ensure_future(_json(tool, snapshot.kwargs))
                pending[snapshot.call_id] = call
                snapshot = await snapshot.resume({"future": ...})
            else:
                snapshot = await snapshot.resume_auto()
        return snapshot.output


async def _started(session: AsyncMontySession, code: str) -> AsyncSnapshot:
    return await session.feed_start(code)


async def _told(
    snapshot: AsyncFutureSnapshot, pending: dict[int, asyncio.Task[Any]]
) -> AsyncSnapshot:
    mine = [pending[one] for one in snapshot.pending_call_ids]
    await asyncio.wait(mine, return_when=asyncio.FIRST_COMPLETED)
    done = [one for one in snapshot.pending_call_ids if pending[one].done()]
    return await snapshot.resume({one: {"return_value": pending.pop(one).result()} for one in done})


def _modules(tool: Tool | None) -> dict[str, ExternalModule]:
    async def read(**arguments: Any) -> Any:
        return arguments if tool is None else await _json(tool, arguments)

    notes = ExternalModule({"read": read}, stubs="")
    return {"tools": ExternalModule({"notes": notes}, stubs="")}


async def _json(tool: Tool, arguments: Any) -> Any:
    return json.loads(json.dumps(await tool(json.loads(json.dumps(arguments)))))


def _limits() -> Any:
    return {"max_feed_duration_secs": 5, "max_suspensions": _SUSPENSIONS}

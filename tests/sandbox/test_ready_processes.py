"""Processes that wait ahead of runs: each serves one, and none outlives the engine."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.domain.programs import ProgramResult, ProgramStatus, SandboxLimits
from gateway.sandbox.monty import MontyEngine, monty_engine
from gateway.sandbox.workers import Workers
from tests.sandbox.brokers import Scripted, program, unchanged
from tests.upstream.started import runs

LIMITS = SandboxLimits(wall_s=10.0, interpreter_s=1.0)


@pytest.fixture
async def ready(tmp_path: Path) -> AsyncIterator[MontyEngine]:
    async with monty_engine(LIMITS, tmp_path, warm=2) as engine:
        await engine.workers.settle()
        yield engine


async def run(engine: MontyEngine, code: str) -> ProgramResult:
    return await engine.run(program(code), Scripted(), redact=unchanged)


def waiting(workers: Workers) -> list[int]:
    """Return the processes that wait, by their ids."""
    return [one.session.worker_pid or 0 for one in workers._ready]


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def gone(pid: int) -> None:
    """Return once nobody has that id any more; the interpreter's library waits for its processes."""
    async with asyncio.timeout(60):
        while lives(pid):
            await asyncio.sleep(0.01)


async def test_a_run_gets_one_that_waits_and_no_other_run_does(ready: MontyEngine) -> None:
    first, second = waiting(ready.workers)
    assert (await run(ready, "1 + 1")).value == 2
    await ready.workers.settle()
    await gone(first)
    ready.workers.fill()
    await ready.workers.settle()
    assert waiting(ready.workers)[0] == second
    assert first not in waiting(ready.workers)


async def test_another_one_is_started_by_itself(ready: MontyEngine) -> None:
    before = set(waiting(ready.workers))
    await asyncio.gather(*(run(ready, "1") for _ in range(3)))
    async with asyncio.timeout(60):
        while ready.workers.ready < 2:
            await asyncio.sleep(0.01)
    assert not before & set(waiting(ready.workers))


async def test_no_more_wait_than_are_to(ready: MontyEngine) -> None:
    for _ in range(5):
        ready.workers.fill()
    await ready.workers.settle()
    assert ready.workers.ready == 2


async def test_they_end_with_the_engine(tmp_path: Path) -> None:
    async with monty_engine(LIMITS, tmp_path, warm=2) as engine:
        await engine.workers.settle()
        started = waiting(engine.workers)
    async with asyncio.timeout(60):  # the end of a process is seen a moment after it
        while any(map(lives, started)):
            await asyncio.sleep(0.01)
    engine.workers.fill()
    assert (engine.workers.ready, engine.workers._tasks) == (0, set())


async def test_those_that_are_being_started_end_with_the_engine(tmp_path: Path) -> None:
    async with monty_engine(LIMITS, tmp_path, warm=2) as engine:
        pass
    assert engine.workers.ready == 0


async def test_one_that_died_while_it_waited_is_given_to_nobody(ready: MontyEngine) -> None:
    killed = [*waiting(ready.workers)]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        while any(runs(pid) for pid in killed):
            await asyncio.sleep(0.01)
    assert (await run(ready, "1 + 1")).value == 2


async def test_what_was_read_ahead_is_no_part_of_the_program(ready: MontyEngine) -> None:
    for name in ("read", "one", "json"):
        result = await run(ready, f"{name}")
        assert (result.status, "unresolved-reference" in result.error) == (
            ProgramStatus.TYPES,
            True,
        )
        ready.workers.fill()
        await ready.workers.settle()


async def test_lines_are_the_programs_own(ready: MontyEngine) -> None:
    result = await run(ready, "def f():\n    return 1 // 0\nf()")
    assert 'File "program.py", line 4' in result.error
    assert "python-input" not in result.error


async def test_its_tools_are_those_of_its_run(ready: MontyEngine) -> None:
    both = await asyncio.gather(*(run(ready, f"await git.create_issue(title='{n}')") for n in "ab"))
    assert [one.value for one in both] == [{"number": 1}, {"number": 1}]


async def test_none_waits_where_none_is_to(tmp_path: Path) -> None:
    async with monty_engine(LIMITS, tmp_path, warm=0) as engine:
        assert (await run(engine, "1")).status is ProgramStatus.OK
        await engine.workers.settle()
        assert engine.workers.ready == 0

"""Processes of Deno at their edges: ended whoever stops waiting, and never another's in their place."""

import asyncio
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from gateway.domain.programs import Program, SandboxLimits
from gateway.errors import RateLimited
from gateway.sandbox import deno_process
from gateway.sandbox.deno import DenoEngine, deno_engine
from gateway.sandbox.deno_process import DenoProcess
from tests.sandbox.brokers import TOOLS, Scripted, cancelled_twice
from tests.sandbox.test_programs import children_of

LIMITS = SandboxLimits(wall_s=10.0, interpreter_s=2.0)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


async def ended(engine: DenoEngine, code: str, broker: Scripted | None = None) -> Any:
    program = Program(code=code, tools=TOOLS)
    return await engine.run(program, broker or Scripted(), redact=str)


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
async def test_a_run_that_is_cancelled_twice_leaves_no_process_and_nothing_of_what_it_wrote(
    turns: int, tmp_path: Path, temporary: Path
) -> None:
    begun = asyncio.Event()
    used: list[DenoProcess] = []

    async def waits(_: str, __: Mapping[str, Any], ___: int) -> NoReturn:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with deno_engine(LIMITS, tmp_path, warm=1, type_check=False) as engine:
        used += engine._processes._ready
        run = asyncio.create_task(ended(engine, "await tools.git.list()", Scripted(waits)))
        await begun.wait()
        await cancelled_twice(run, turns)
    assert [one.runs for one in used] == [False]
    assert list(temporary.glob("douane-program-*")) == []


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
async def test_a_start_that_is_cancelled_twice_leaves_nothing_either(
    turns: int, tmp_path: Path, temporary: Path
) -> None:
    before, opened = children_of(os.getpid()), len([*Path("/dev/fd").iterdir()])
    async with deno_engine(LIMITS, tmp_path, warm=0, type_check=False) as engine:
        run = asyncio.create_task(ended(engine, "return 1"))
        while not children_of(os.getpid()) - before:
            await asyncio.sleep(0)
        await cancelled_twice(run, turns)
    assert children_of(os.getpid()) <= before
    assert len([*Path("/dev/fd").iterdir()]) == opened
    assert list(temporary.glob("douane-program-*")) == []


async def test_once_an_engine_ends_no_process_is_started_ahead(tmp_path: Path) -> None:
    async with deno_engine(LIMITS, tmp_path, warm=1, type_check=False) as engine:
        pool = engine._processes
        await pool.aclose()
        assert (await ended(engine, "return 1")).value == 1
        assert (pool._filling, pool._ready) == (None, [])


async def test_where_nothing_can_be_written_a_program_is_refused_and_may_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: str) -> NoReturn:
        raise OSError(28, "No space left on device")

    async with deno_engine(LIMITS, tmp_path, warm=0, type_check=False) as engine:
        with monkeypatch.context() as for_now:
            for_now.setattr(tempfile, "mkdtemp", full)
            with pytest.raises(RateLimited, match="no interpreter could be started"):
                await ended(engine, "return 1")
        assert (await ended(engine, "return 1")).value == 1


async def test_nothing_is_ended_by_the_number_of_a_process_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bystander = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        async with (
            deno_engine(LIMITS, tmp_path, warm=0, type_check=False) as engine,
            engine._processes.one() as it,
        ):
            await it.write("", {"code": "", "tools": {}, "arguments_bytes": 9, "value_bytes": 9})
            await it._process.wait()
            # As if its number had been given to another process, which has a child.
            monkeypatch.setattr(deno_process, "_descendants", lambda pid: (pid, bystander.pid))
        assert bystander.returncode is None
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(bystander.wait(), 0.05)
    finally:
        bystander.kill()
        await bystander.wait()


async def test_no_character_is_lost_where_a_long_text_is_told_in_pieces(tmp_path: Path) -> None:
    code = 'console.log("a".repeat(16383) + "\\u{1F600}" + "b".repeat(16382) + "\\u{1F600}!")'
    async with deno_engine(LIMITS, tmp_path, warm=0, type_check=False) as engine:
        told = await ended(engine, code)
    assert told.console == f"{'a' * 16383}\U0001f600{'b' * 16382}\U0001f600!\n"


async def test_what_is_called_after_its_end_is_not_called(tmp_path: Path) -> None:
    end = '{"t":"done","value":1}'
    call = '{"t":"call","id":1,"path":"tools.git.list","arguments":{}}'
    code = (
        f"const t = `{end}\\n{call}\\n`;\n"
        "TextEncoder.prototype.encode = () => Uint8Array.from([...t].map(c => c.charCodeAt(0)));\n"
        "console.log(1); await new Promise(() => {})"
    )
    broker = Scripted()
    async with deno_engine(LIMITS, tmp_path, warm=0, type_check=False) as engine:
        told = await ended(engine, code, broker)
    assert (told.status, told.value, told.calls, broker.made) == ("ok", 1, (), [])


@pytest.mark.parametrize(
    "line", ['import { mail } from "tools";', "export const one = 1;"], ids=["import", "export"]
)
async def test_who_imports_in_typescript_is_told_that_the_tools_are_there(
    line: str, tmp_path: Path
) -> None:
    async with deno_engine(LIMITS, tmp_path, warm=0, type_check=False) as engine:
        told = await ended(engine, line)
    assert told.status == "syntax"
    assert told.error.startswith(
        "a program has no imports and no exports: `tools` is there already"
    )
    assert "program.ts:1:" in told.error

"""Programs that run: what they get, what they tell, and how they end."""

import asyncio
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway import turns
from gateway.domain.programs import (
    CallState,
    Program,
    ProgramCall,
    ProgramResult,
    ProgramStatus,
    SandboxLimits,
)
from gateway.ports.sandbox import ToolRefused
from gateway.sandbox import interface
from gateway.sandbox.interface import Interface
from gateway.sandbox.monty import MontyEngine, monty_engine
from gateway.sandbox.stubs import python_module
from tests.sandbox.brokers import Scripted, program, unchanged
from tests.sandbox.conftest import LIMITS


async def carried_out(
    engine: MontyEngine, code: str, broker: Scripted | None = None
) -> ProgramResult:
    return await engine.run(program(code), broker or Scripted(), redact=unchanged)


async def test_a_program_calls_tools_and_tells_its_last_value(engine: MontyEngine) -> None:
    broker = Scripted()
    code = 'made = await git.create_issue(title="a")\nprint("made", made["number"])\nmade["number"] + 1'
    result = await carried_out(engine, code, broker)
    assert result == ProgramResult(
        status=ProgramStatus.OK,
        sha256=program(code).sha256,
        value=2,
        console="made 1\n",
        calls=(ProgramCall(seq=1, server="git", tool="create_issue", state=CallState.DONE),),
    )
    assert broker.made == [(1, "git/create_issue", {"title": "a"})]


async def test_the_digest_is_of_the_programs_text() -> None:
    assert Program(code="1", tools=()).sha256 == (
        "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
    )


async def test_a_refused_call_is_an_exception_that_carries_its_code(engine: MontyEngine) -> None:
    async def denied(_: str, __: Mapping[str, Any], ___: int) -> Any:
        raise ToolRefused("denied", "not\nthis one")

    code = 'try:\n    await git.create_issue(title="a")\nexcept RuntimeError as e:\n    said = str(e)\nsaid'
    result = await carried_out(engine, code, Scripted(denied))
    assert result.value == "ToolError[denied] git.create_issue: not this one"
    assert result.calls[0].state is CallState.REFUSED
    assert result.side_effects == ()


async def test_an_uncaught_refusal_ends_the_program_with_what_it_did_before(
    engine: MontyEngine,
) -> None:
    async def once(_: str, __: Mapping[str, Any], seq: int) -> Any:
        if seq == 3:
            raise ToolRefused("tool_error", "no such label", reached=True)
        return {"number": seq}

    code = 'await git.create_issue(title="a")\nawait git.list()\nawait git.create_issue(title="b")'
    result = await carried_out(engine, code, Scripted(once))
    assert result.status is ProgramStatus.ERROR
    assert result.error.endswith(
        "RuntimeError: ToolError[tool_error] git.create_issue: no such label"
    )
    assert 'File "program.py", line 5' in result.error
    assert [(call.seq, call.state) for call in result.side_effects] == [
        (1, CallState.DONE),
        (3, CallState.FAILED),
    ]


async def test_a_call_against_its_schema_is_told_before_anything_runs(engine: MontyEngine) -> None:
    broker = Scripted()
    code = 'await git.create_issue(title="a")\nawait git.create_issue(titel="b")'
    result = await carried_out(engine, code, broker)
    assert result.status is ProgramStatus.TYPES
    assert "program.py:4" in result.error
    assert "titel" in result.error
    assert broker.made == []


async def test_a_result_that_is_used_against_its_schema_is_told(engine: MontyEngine) -> None:
    result = await carried_out(engine, 'made = await git.create_issue(title="a")\nmade["nr"]')
    assert result.status is ProgramStatus.TYPES
    assert 'Unknown key "nr"' in result.error


async def test_what_is_no_program_is_told(engine: MontyEngine) -> None:
    result = await carried_out(engine, "for")
    assert result.status is ProgramStatus.SYNTAX
    assert "program.py:3" in result.error


async def test_a_call_that_nobody_awaits_has_ended_when_its_program_has(
    engine: MontyEngine,
) -> None:
    async def slowly(_: str, __: Mapping[str, Any], seq: int) -> Any:
        await asyncio.sleep(0.05)
        return {"number": seq}

    broker = Scripted(slowly)
    result = await carried_out(engine, 'waste = git.create_issue(title="a")\n1', broker)
    assert (result.value, broker.at_once) == (1, 0)
    assert [call.state for call in result.calls] == [CallState.DONE]


async def test_one_failed_branch_does_not_cut_off_the_others(engine: MontyEngine) -> None:
    async def mixed(_: str, __: Mapping[str, Any], seq: int) -> Any:
        if seq == 1:
            raise ToolRefused("denied", "no")
        await asyncio.sleep(0.05)
        return {"number": seq}

    code = 'await asyncio.gather(git.create_issue(title="a"), git.create_issue(title="b"))'
    broker = Scripted(mixed)
    result = await carried_out(engine, code, broker)
    assert result.status is ProgramStatus.ERROR
    assert broker.cancelled == []
    assert [call.state for call in result.calls] == [CallState.REFUSED, CallState.DONE]


async def test_a_cancelled_run_cuts_off_its_calls_and_waits_for_them(engine: MontyEngine) -> None:
    begun = asyncio.Event()

    async def waits(_: str, __: Mapping[str, Any], ___: int) -> Any:
        begun.set()
        await asyncio.Event().wait()

    broker = Scripted(waits)
    run = asyncio.create_task(carried_out(engine, 'await git.create_issue(title="a")', broker))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (broker.cancelled, broker.at_once) == ([1], 0)


async def test_a_fault_of_the_broker_is_raised_and_not_told_to_the_program(
    engine: MontyEngine,
) -> None:
    async def broken(_: str, __: Mapping[str, Any], ___: int) -> Any:
        raise LookupError("ours")

    code = 'try:\n    await git.create_issue(title="a")\nexcept BaseException:\n    pass'
    with pytest.raises(LookupError, match="ours"):
        await carried_out(engine, code, Scripted(broken))
    with pytest.raises(LookupError, match="ours"):
        await carried_out(engine, 'waste = git.create_issue(title="a")\n1', Scripted(broken))


async def test_a_timeout_of_the_brokers_is_not_taken_for_ours(engine: MontyEngine) -> None:
    async def broken(_: str, __: Mapping[str, Any], ___: int) -> Any:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await carried_out(engine, 'await git.create_issue(title="a")', Scripted(broken))


async def test_one_run_leaves_nothing_for_the_next(engine: MontyEngine) -> None:
    await carried_out(engine, "kept = 1")
    result = await carried_out(engine, "try:\n    kept\nexcept NameError:\n    x = 'gone'\nx")
    assert result.status is ProgramStatus.TYPES


async def test_a_name_that_nobody_knows_is_a_name_error(engine: MontyEngine) -> None:
    code = 'try:\n    exec("nobody()")\nexcept NameError as e:\n    said = str(e)\nsaid'
    result = await carried_out(engine, code)
    assert result.value == "name 'nobody' is not defined"
    assert result.calls == ()


async def test_what_a_program_prints_goes_to_its_caller_alone(
    engine: MontyEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    result = await carried_out(engine, 'print("a")\nimport sys\nprint("b", file=sys.stderr)')
    assert result.console == "a\nb\n"
    assert capfd.readouterr() == ("", "")


async def test_what_a_program_tells_is_screened(engine: MontyEngine) -> None:
    def redact(text: str) -> str:
        return text.replace("hunter2", "[secret]")

    code = 'print("hun\\u200bter2")\n{"pass\\u202eword": ["hunter2"]}'
    result = await engine.run(program(code), Scripted(), redact=redact)
    assert (result.console, result.value) == ("[secret]\n", {"password": ["[secret]"]})
    failed = await engine.run(program('raise ValueError("hunter2")'), Scripted(), redact=redact)
    assert "hunter2" not in failed.error
    assert failed.error.endswith("ValueError: [secret]")


async def test_sleeping_takes_time_of_the_run_and_ends_with_it(engine: MontyEngine) -> None:
    code = "import time\ntime.sleep(0.01)\nawait asyncio.gather(asyncio.sleep(0.01), asyncio.sleep(0.02))\n1"
    result = await carried_out(engine, code)
    assert (result.status, result.value) == (ProgramStatus.OK, 1)


def test_limits_are_positive() -> None:
    for name in SandboxLimits.__dataclass_fields__:
        with pytest.raises(ValueError, match="a limit is a positive number"):
            SandboxLimits(**{name: 0})


async def test_each_run_has_a_process_of_its_own(tmp_path: Path) -> None:
    others = children_of(os.getpid())
    processes: list[set[int]] = []

    async def looks(_: str, __: Mapping[str, Any], ___: int) -> Any:
        processes.append(children_of(os.getpid()) - others)
        return None

    async with monty_engine(LIMITS, tmp_path, warm=0) as engine:
        for _ in range(3):
            await carried_out(engine, "await git.list()", Scripted(looks))
    first, second, third = processes
    assert not first & third
    assert len(first | second | third) >= 3


async def test_an_interpreter_inherits_nothing_that_we_have_open(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    held: set[tuple[str, str]] = set()

    async def looks(_: str, __: Mapping[str, Any], ___: int) -> Any:
        for process in (Path(f"/proc/{child}") for child in children_of(os.getpid())):
            if (process / "comm").read_text().strip() in ("interpreter", "monty"):
                held.update(
                    (file.name, str(file.readlink())) for file in (process / "fd").iterdir()
                )
        return None

    with mine.open("w") as file:
        os.set_inheritable(file.fileno(), True)
        async with monty_engine(SandboxLimits(), tmp_path, warm=1) as engine:
            await carried_out(engine, "await git.list()", Scripted(looks))
    assert {name for name, _ in held} == {"0", "1", "2"}
    assert {link for name, link in held if name == "2"} == {"/dev/null"}


def children_of(process: int) -> set[int]:
    """All processes under one; a thread or process that ends while it is looked at has none."""
    found: set[int] = set()
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(int, task.read_text().split()))
    return found.union(*map(children_of, found))


async def test_of_a_long_error_the_head_and_the_tail_are_told(engine: MontyEngine) -> None:
    result = await carried_out(engine, 'raise ValueError("begin" + "y" * 10 ** 6 + "end")')
    assert result.status is ProgramStatus.ERROR
    assert len(result.error) < 4200
    assert "ValueError: beginyyy" in result.error
    assert " characters left out ...]" in result.error
    assert result.error.endswith("yyyend")


async def test_types_of_tools_are_made_once_and_beside_the_loop(
    engine: MontyEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = threading.get_ident()
    made, packaged = list[bool](), list[bool]()

    def making(*args: Any) -> str:
        made.append(threading.get_ident() != loop)
        return python_module(*args)

    def packaging(*args: Any) -> Any:
        packaged.append(threading.get_ident() != loop)
        return package(*args)

    package = Interface.package
    monkeypatch.setattr(interface, "python_module", making)
    monkeypatch.setattr(Interface, "package", packaging)
    monkeypatch.setattr(turns, "_TURNS", turns.Turns(most_waiting=0))  # it must be done
    for _ in range(2):
        result = await engine.run(program("await git.list()"), Scripted(), redact=unchanged)
        assert result.status is ProgramStatus.OK
    assert made == [True, True]  # of two servers, and for the first program
    assert packaged == [True, False]

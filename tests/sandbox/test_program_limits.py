"""What a run may use up: each bound holds, to the last call and byte."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.programs import CallState, ProgramResult, ProgramStatus, SandboxLimits
from gateway.errors import RateLimited
from gateway.sandbox.monty import monty_engine
from gateway.sandbox.turns import Turns
from tests.sandbox.brokers import Scripted, program, unchanged


async def limited(
    folder: Path, code: str, broker: Scripted | None = None, **limits: Any
) -> ProgramResult:
    async with monty_engine(SandboxLimits(**limits), folder, warm=1) as engine:
        return await engine.run(program(code), broker or Scripted(), redact=unchanged)


async def test_of_calls_made_at_once_exactly_as_many_as_allowed_are_carried_out(
    tmp_path: Path,
) -> None:
    async def slowly(_: str, __: Mapping[str, Any], seq: int) -> Any:
        await asyncio.sleep(0.002)
        return seq

    broker = Scripted(slowly)
    code = "await asyncio.gather(*[git.list(i=i) for i in range(200)])"
    result = await limited(tmp_path, code, broker, calls=50)
    assert result.status is ProgramStatus.CALLS
    assert result.error == "a program may call tools 50 times"
    assert [made[0] for made in broker.made] == list(range(1, 51))
    assert {call.state for call in result.calls} == {CallState.DONE}


async def test_the_last_call_that_is_allowed_is_allowed(tmp_path: Path) -> None:
    code = "(await asyncio.gather(*[git.list(i=i) for i in range(5)]))[4]"
    result = await limited(tmp_path, code, calls=5)
    assert (result.status, result.value) == (ProgramStatus.OK, {"number": 5})


async def test_catching_everything_does_not_get_past_the_budget(tmp_path: Path) -> None:
    broker = Scripted()
    code = (
        "while True:\n    try:\n        await git.list()\n    except BaseException:\n        pass"
    )
    result = await limited(tmp_path, code, broker, calls=7)
    assert (result.status, len(broker.made)) == (ProgramStatus.CALLS, 7)


async def test_no_more_calls_are_under_way_at_once_than_allowed(tmp_path: Path) -> None:
    three = asyncio.Event()

    async def slowly(_: str, __: Mapping[str, Any], seq: int) -> Any:
        if broker.most_at_once == 3:
            three.set()
        await three.wait()
        await asyncio.sleep(0.01)
        return seq

    broker = Scripted(slowly)
    code = "len(await asyncio.gather(*[git.list(i=i) for i in range(20)]))"
    result = await limited(tmp_path, code, broker, parallel=3)
    assert (result.value, broker.most_at_once) == (20, 3)


async def test_a_run_ends_with_its_time_and_says_what_nobody_knows(tmp_path: Path) -> None:
    async def too_slowly(_: str, __: Mapping[str, Any], seq: int) -> Any:
        await asyncio.Event().wait()
        return {"number": seq}

    broker = Scripted(too_slowly)
    code = "await asyncio.gather(*[git.create_issue(title='a') for _ in range(3)])"
    result = await limited(tmp_path, code, broker, wall_s=2.0, parallel=2)
    assert result.status is ProgramStatus.WALL
    assert result.error == "it did not end within 2 seconds"
    assert [(call.state, call.code) for call in result.calls] == [
        (CallState.UNKNOWN, "outcome_unknown"),
        (CallState.UNKNOWN, "outcome_unknown"),
        (CallState.REFUSED, "not_sent"),
    ]
    assert [call.seq for call in result.side_effects] == [1, 2]
    assert broker.cancelled == [1, 2]


async def test_a_broker_that_does_not_end_keeps_nobody_waiting_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.sandbox.gate._SETTLE_S", 0.05)
    released = asyncio.Event()

    async def stubborn(_: str, __: Mapping[str, Any], ___: int) -> Any:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    result = await limited(tmp_path, "await git.list()", Scripted(stubborn), wall_s=2.0)
    released.set()
    await asyncio.sleep(0)
    assert (result.status, result.calls[0].state) == (ProgramStatus.WALL, CallState.UNKNOWN)


@pytest.mark.parametrize(
    "code",
    ["while True:\n    pass", "x = 10 ** 1000\nwhile True:\n    x = x * x"],
    ids=["interpreted", "in one operation"],
)
async def test_a_program_that_only_computes_is_stopped(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.sandbox.monty._GRACE_S", 0.2)
    result = await limited(tmp_path, code, interpreter_s=0.3, wall_s=5.0)
    assert (result.status, result.error) == (
        ProgramStatus.INTERPRETER,
        "it computed for longer than 0.3 seconds",
    )


async def test_a_program_cannot_pretend_that_it_was_stopped(tmp_path: Path) -> None:
    result = await limited(tmp_path, 'raise TimeoutError("feed time limit exceeded")')
    assert result.status is ProgramStatus.ERROR


async def test_memory_is_bounded(tmp_path: Path) -> None:
    code = "x = []\nwhile True:\n    x.append('y' * 1000)"
    result = await limited(tmp_path, code, memory_bytes=8 * 1024 * 1024)
    assert result.status is ProgramStatus.MEMORY
    assert "> 8388608 bytes" in result.error
    little = await limited(tmp_path, "len('y' * 3_000_000)", memory_bytes=8 * 1024 * 1024)
    assert little.value == 3_000_000


async def test_arguments_are_bounded(tmp_path: Path) -> None:
    broker = Scripted()
    code = (
        "try:\n    await git.list(x='y' * {})\nexcept RuntimeError as e:\n    said = str(e)\n"
        "else:\n    said = 'fits'\nsaid"
    )
    told = "more than 100 bytes of JSON"
    fits = await limited(tmp_path, code.format(92), broker, arguments_bytes=100)
    over = await limited(tmp_path, code.format(93), broker, arguments_bytes=100)
    assert (fits.value, over.value) == (
        "fits",
        f"ToolError[invalid_arguments] git.list: the arguments are {told}",
    )
    assert (len(broker.made), over.calls[0].code) == (1, "invalid_arguments")


async def test_a_result_is_bounded(tmp_path: Path) -> None:
    async def large(_: str, arguments: Mapping[str, Any], __: int) -> Any:
        return "y" * arguments["n"]

    code = "len(await logs.read(n={}))"
    assert (await limited(tmp_path, code.format(98), Scripted(large), result_bytes=100)).value == 98
    over = await limited(tmp_path, code.format(99), Scripted(large), result_bytes=100)
    assert "ToolError[invalid_result] logs.read: its result is more than 100 bytes" in over.error
    assert over.calls[0].state is CallState.FAILED


async def test_the_last_value_is_bounded(tmp_path: Path) -> None:
    assert (await limited(tmp_path, "'y' * 98", value_bytes=100)).value == "y" * 98
    over = await limited(tmp_path, "'y' * 99", value_bytes=100)
    assert (over.status, over.value) == (ProgramStatus.OUTPUT, None)
    assert over.error == "the program's last value is more than 100 bytes of JSON"


async def test_of_much_that_is_printed_the_head_and_the_tail_are_told(tmp_path: Path) -> None:
    code = "for i in range(3000):\n    print(i)\nprint('end')"
    result = await limited(tmp_path, code, console_bytes=1000)
    assert result.status is ProgramStatus.OK
    assert result.console.startswith("0\n1\n2\n")
    assert result.console.endswith("2999\nend\n")
    assert "\n[... 12894 characters left out ...]\n" in result.console


async def test_printing_without_end_ends_the_run(tmp_path: Path) -> None:
    code = 'while True:\n    print("x" * 1000)'
    result = await limited(tmp_path, code, console_bytes=1000)
    assert result.status is ProgramStatus.OUTPUT
    assert result.error == "it printed more than 16000 characters"
    assert len(result.console) < 1100


async def test_the_text_is_bounded(tmp_path: Path) -> None:
    code = "'" + "y" * 1000 + "'"
    size = len(program(code).code)
    assert (await limited(tmp_path, code, code_bytes=size)).status is ProgramStatus.OK
    over = await limited(tmp_path, code, code_bytes=size - 1)
    assert over.status is ProgramStatus.SYNTAX
    assert over.error == f"the program has {size} bytes, of which {size - 1} are allowed"


async def test_asking_for_unknown_names_without_end_ends_the_run(tmp_path: Path) -> None:
    code = 'while True:\n    try:\n        eval("nobody")\n    except NameError:\n        pass'
    result = await limited(tmp_path, code)
    assert result.status is ProgramStatus.CALLS
    assert result.error == "a program may sleep, or look for a name, 1000 times"


async def test_where_all_processes_are_taken_a_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def waits(_: str, __: Mapping[str, Any], ___: int) -> Any:
        begun.set()
        await asyncio.Event().wait()

    limits = SandboxLimits(wall_s=0.5)
    async with monty_engine(limits, tmp_path, processes=1, warm=1) as engine:
        monkeypatch.setattr(
            engine, "_limits", SandboxLimits(wall_s=30)
        )  # the first one outlasts the wait
        first = asyncio.create_task(
            engine.run(program("await git.list()"), Scripted(waits), redact=unchanged)
        )
        await begun.wait()
        with pytest.raises(RateLimited, match="too many programs run at once"):
            await engine.run(program("1"), Scripted(), redact=unchanged)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first


def test_each_principal_has_turns_of_its_own() -> None:
    turns = Turns(2)
    with turns.of("a"), turns.of("a"), turns.of("b"):
        assert turns.running == 3
        with pytest.raises(RateLimited, match="2 programs of yours run already"), turns.of("a"):
            pass
    with pytest.raises(LookupError), turns.of("a"):
        raise LookupError
    assert turns.running == 0
    with turns.of("a"), turns.of("a"):
        assert turns.running == 2

"""Programs in TypeScript: what they get, what they tell, what they may use, and how they end."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.programs import (
    CallState,
    Language,
    Program,
    ProgramCall,
    ProgramResult,
    ProgramStatus,
    SandboxLimits,
)
from gateway.errors import ConfigError, RateLimited
from gateway.ports.sandbox import NeedsApproval, ToolRefused
from gateway.sandbox import deno, deno_process
from gateway.sandbox.bounded import BoundedRun
from gateway.sandbox.deno import DenoEngine, _Conversation, deno_engine
from gateway.sandbox.deno_process import DenoProcess
from gateway.sandbox.gate import Gate
from gateway.sandbox.names import ToolTable
from gateway.sandbox.screen import Console
from gateway.wire import jsontext
from tests.sandbox.brokers import TOOLS, Scripted, unchanged

LIMITS = SandboxLimits(wall_s=10.0, interpreter_s=2.0)


@pytest.fixture
async def typescript(tmp_path: Path) -> AsyncIterator[DenoEngine]:
    async with deno_engine(LIMITS, tmp_path, type_check=False) as running:
        yield running


def written(code: str) -> Program:
    return Program(code=code, tools=TOOLS, language=Language.TYPESCRIPT)


async def ended(engine: DenoEngine, code: str, broker: Scripted | None = None) -> ProgramResult:
    return await engine.run(written(code), broker or Scripted(), redact=unchanged)


async def bounded(
    folder: Path, code: str, broker: Scripted | None = None, **limits: Any
) -> ProgramResult:
    async with deno_engine(SandboxLimits(**limits), folder, type_check=False) as engine:
        return await ended(engine, code, broker)


async def test_a_program_calls_tools_and_tells_what_it_returns(typescript: DenoEngine) -> None:
    broker = Scripted()
    code = (
        'const made: { number: number } = await tools.git.create_issue({ title: "a" });\n'
        'console.log("made", made.number, { deep: [1] });\nreturn made.number + 1;'
    )
    assert await ended(typescript, code, broker) == ProgramResult(
        status=ProgramStatus.OK,
        sha256=written(code).sha256,
        value=2,
        console="made 1 { deep: [ 1 ] }\n",
        calls=(ProgramCall(seq=1, server="git", tool="create_issue", state=CallState.DONE),),
    )
    assert broker.made == [(1, "git/create_issue", {"title": "a"})]
    assert typescript.language == "typescript"


async def test_a_refused_call_throws_what_can_be_caught_with_its_code(
    typescript: DenoEngine,
) -> None:
    async def denied(_: str, __: Mapping[str, Any], ___: int) -> Any:
        raise ToolRefused("denied", "not\nthis one")

    code = (
        'try { await tools.git.create_issue({ title: "a" }) }\n'
        "catch (e) { return [e instanceof ToolError, e.code, e.message, String(e)] }"
    )
    text = "ToolError[denied] git.create_issue: not this one"
    result = await ended(typescript, code, Scripted(denied))
    assert result.value == [True, "denied", text, text]
    assert (result.calls[0].state, result.calls[0].code) == (CallState.REFUSED, "denied")


async def test_an_uncaught_failure_is_told_with_its_line_and_what_was_done_before(
    typescript: DenoEngine,
) -> None:
    async def once(_: str, __: Mapping[str, Any], seq: int) -> Any:
        if seq == 2:
            raise ToolRefused("failed", "no such label", reached=True)
        return {"number": seq}

    code = 'await tools.git.create_issue({ title: "a" });\nawait tools.git.create_issue({ title: "b" })'
    result = await ended(typescript, code, Scripted(once))
    assert result.status is ProgramStatus.ERROR
    assert result.error.startswith("ToolError[failed] git.create_issue: no such label\n")
    assert "program.ts:2:" in result.error
    assert "data:" not in result.error
    assert [call.state for call in result.side_effects] == [CallState.DONE, CallState.FAILED]


async def test_what_is_no_program_in_typescript_is_told(typescript: DenoEngine) -> None:
    result = await ended(typescript, "const a = 1;\nlet x: = 1")
    assert result.status is ProgramStatus.SYNTAX
    assert result.error.startswith("SyntaxError: Unexpected token")
    assert "program.ts:2:" in result.error


async def test_a_call_that_needs_a_person_fails_and_says_what_to_do(
    typescript: DenoEngine,
) -> None:
    async def asks(_: str, __: Mapping[str, Any], ___: int) -> Any:
        raise NeedsApproval("a_1")

    code = 'try { await tools.git.create_issue({ title: "a" }) } catch (e) { return e.code + e.message }'
    result = await ended(typescript, code, Scripted(asks))
    assert result.status is ProgramStatus.OK
    assert result.value.startswith("approval_required")
    assert "grant for it that is preapproved, write the program in Python" in result.value
    assert [(call.state, call.code) for call in result.calls] == [
        (CallState.REFUSED, "approval_required")
    ]


async def test_a_program_in_typescript_is_never_taken_for_one_that_was_kept(
    typescript: DenoEngine,
) -> None:
    with pytest.raises(ValueError, match="no program in TypeScript can have been parked"):
        await typescript.resume(b"x", written("1"), Scripted(), refused={}, redact=unchanged)


async def test_what_it_tells_is_screened(typescript: DenoEngine) -> None:
    def redact(text: str) -> str:
        return text.replace("hunter2", "[secret]")

    code = 'console.log("hun\\u200bter2"); return { "pass\\u202eword": ["hunter2"] }'
    result = await typescript.run(written(code), Scripted(), redact=redact)
    assert (result.console, result.value) == ("[secret]\n", {"password": ["[secret]"]})
    failed = await typescript.run(written('throw new Error("hunter2")'), Scripted(), redact=redact)
    assert failed.error.startswith("Error: [secret]\n")


async def test_what_it_tells_is_screened_beside_the_loop(typescript: DenoEngine) -> None:
    loop, ran = threading.get_ident(), set[int]()

    def redact(text: str) -> str:
        ran.add(threading.get_ident())
        return text

    await typescript.run(written('return Array(5000).fill("")'), Scripted(), redact=redact)
    assert ran
    assert loop not in ran


async def test_what_it_hands_over_is_strict_json(typescript: DenoEngine) -> None:
    broker = Scripted()
    code = (
        "const said = [];\nfor (const x of [2 ** 60, '\\ud800', 1n]) {\n"
        "  try { await tools.git.list({ x }) } catch (e) { said.push(e.code ?? e.name) }\n}\n"
        "await tools.git.list({ when: new Date(0), left: undefined, n: NaN });\nreturn said"
    )
    result = await ended(typescript, code, broker)
    assert result.value == ["invalid_arguments", "invalid_arguments", "TypeError"]
    assert [made[2] for made in broker.made] == [{"when": "1970-01-01T00:00:00.000Z", "n": None}]


async def test_a_call_that_nobody_awaits_has_ended_when_the_program_has(
    typescript: DenoEngine,
) -> None:
    async def slowly(_: str, __: Mapping[str, Any], seq: int) -> Any:
        await asyncio.sleep(0.05)
        return seq

    broker = Scripted(slowly)
    result = await ended(typescript, "tools.git.list(); return 1", broker)
    assert (result.value, broker.at_once) == (1, 0)
    assert [call.state for call in result.calls] == [CallState.DONE]


async def test_a_fault_of_the_broker_is_raised(typescript: DenoEngine) -> None:
    async def broken(_: str, __: Mapping[str, Any], ___: int) -> Any:
        raise LookupError("ours")

    for code in ("try { await tools.git.list() } catch { }", "tools.git.list(); return 1"):
        with pytest.raises(LookupError, match="ours"):
            await ended(typescript, code, Scripted(broken))


async def test_a_cancelled_run_cuts_off_its_calls(typescript: DenoEngine) -> None:
    begun = asyncio.Event()

    async def waits(_: str, __: Mapping[str, Any], ___: int) -> Any:
        begun.set()
        await asyncio.Event().wait()

    broker = Scripted(waits)
    run = asyncio.create_task(ended(typescript, "await tools.git.list()", broker))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (broker.cancelled, broker.at_once) == ([1], 0)


async def test_of_calls_in_typescript_exactly_as_many_as_allowed_are_made(tmp_path: Path) -> None:
    three = asyncio.Event()

    async def slowly(_: str, __: Mapping[str, Any], seq: int) -> Any:
        if broker.most_at_once == 3:
            three.set()
        await three.wait()
        await asyncio.sleep(0.01)
        return seq

    broker = Scripted(slowly)
    code = "await Promise.all(Array.from({ length: 200 }, (_, i) => tools.git.list({ i })))"
    result = await bounded(tmp_path, code, broker, calls=20, parallel=3)
    assert (result.status, result.error) == (
        ProgramStatus.CALLS,
        "a program may call tools 20 times",
    )
    assert ([made[0] for made in broker.made], broker.most_at_once) == (list(range(1, 21)), 3)


async def test_arguments_values_and_text_of_typescript_are_bounded(tmp_path: Path) -> None:
    code = 'try { return await tools.git.list({ x: "y".repeat(%d) }) && "fits" } catch (e) { return e.message }'
    broker = Scripted()
    assert (await bounded(tmp_path, code % 92, broker, arguments_bytes=100)).value == "fits"
    over = await bounded(tmp_path, code % 93, broker, arguments_bytes=100)
    assert over.value == (
        "ToolError[invalid_arguments] git.list: the arguments are more than 100 bytes of JSON"
    )
    assert len(broker.made) == 1
    text = 'return "y".repeat(%d)'
    assert (await bounded(tmp_path, text % 98, value_bytes=100)).value == "y" * 98
    large = await bounded(tmp_path, text % 99, value_bytes=100)
    assert (large.status, large.error) == (
        ProgramStatus.OUTPUT,
        "the program's last value is more than 100 bytes of JSON",
    )
    long = await bounded(tmp_path, "return 1", code_bytes=7)
    assert (long.status, long.error) == (
        ProgramStatus.SYNTAX,
        "the program has 8 bytes, of which 7 are allowed",
    )


async def test_who_writes_past_our_part_of_the_process_is_held_to_the_same(tmp_path: Path) -> None:
    line = '{"t":"done","value":"' + "y" * 200 + '"}'
    forged = (
        "TextEncoder.prototype.encode = () => Uint8Array.from([...`"
        + line
        + "\\n`].map(c => c.charCodeAt(0)));\nconsole.log(1); await new Promise(() => {})"
    )
    over = await bounded(tmp_path, forged, value_bytes=100)
    assert (over.status, over.value) == (ProgramStatus.OUTPUT, None)
    endless = "TextEncoder.prototype.encode = () => new Uint8Array(1e6); console.log(1)"
    result = await bounded(tmp_path, endless)
    assert (result.status, result.error) == (
        ProgramStatus.CRASHED,
        "the interpreter said what it cannot",
    )


async def test_typescript_that_only_computes_is_stopped(tmp_path: Path) -> None:
    result = await bounded(tmp_path, "for (;;) { }", interpreter_s=0.3, wall_s=5.0)
    assert (result.status, result.error) == (
        ProgramStatus.INTERPRETER,
        "it computed for longer than 0.3 seconds",
    )


async def test_typescript_that_only_waits_is_stopped(tmp_path: Path) -> None:
    result = await bounded(tmp_path, "await new Promise(() => { })", wall_s=0.3)
    assert (result.status, result.error) == (
        ProgramStatus.WALL,
        "it did not end within 0.3 seconds",
    )


@pytest.mark.parametrize(
    "code",
    [
        "const a = []; for (;;) a.push({ x: a.length })",
        "const a = []; for (;;) a.push(new Uint8Array(1 << 22).fill(1))",
    ],
    ids=["values", "octets"],
)
async def test_memory_of_typescript_is_bounded(code: str, tmp_path: Path) -> None:
    result = await bounded(tmp_path, code, memory_bytes=32 * 1024 * 1024)
    assert (result.status, result.error) == (
        ProgramStatus.MEMORY,
        "it held more than 33554432 bytes",
    )


@pytest.mark.parametrize("line", ['"x".repeat(1000)', '""'], ids=["lines", "empty lines"])
async def test_typescript_that_prints_without_end_is_stopped(line: str, tmp_path: Path) -> None:
    code = f"for (;;) console.log({line})"
    result = await bounded(tmp_path, code, console_bytes=1000)
    assert (result.status, result.error) == (
        ProgramStatus.OUTPUT,
        "it printed more than 16000 characters",
    )
    assert len(result.console) < 1100


class Said:
    """A process that has said all that it says already, and takes nothing."""

    stdin = stderr = None

    def __init__(self, frames: Sequence[Mapping[str, Any]]) -> None:
        self.stdout = asyncio.StreamReader(limit=1 << 20)
        for frame in frames:
            self.stdout.feed_data(json.dumps(frame).encode() + b"\n")


PRINTED = {"t": "log", "text": ""}
CALLED = {"t": "call", "id": 1, "path": "tools.git.list", "arguments": {"a": ["x"] * 3_000}}


@pytest.mark.parametrize(
    ("frame", "many", "most"), [(PRINTED, 1000, 64), (CALLED, 40, 2)], ids=["prints", "calls"]
)
async def test_others_have_their_turn_between_much_that_typescript_has_said(
    frame: Mapping[str, Any], many: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, most_at_once = 0, 0

    def counted(line: bytes) -> Mapping[str, Any]:
        nonlocal at_once, most_at_once
        at_once += 1
        most_at_once = max(most_at_once, at_once)
        return frame_of(line)

    async def others() -> None:
        nonlocal at_once
        while True:
            at_once = 0
            await asyncio.sleep(0)

    frame_of = deno_process._frame
    monkeypatch.setattr(deno_process, "_frame", counted)
    said = written("")
    gate = Gate(Scripted(), ToolTable(TOOLS), LIMITS)
    run = BoundedRun(said, LIMITS, gate=gate, console=Console(LIMITS.console_bytes))
    done = {"t": "done", "value": 1}
    process: Any = Said([*[frame] * many, done])
    beside = asyncio.create_task(others())
    end = await _Conversation(run, DenoProcess(process, tmp_path)).held({})
    beside.cancel()
    await gate.cut_off()
    assert (end.status, end.value) == (ProgramStatus.OK, 1)
    assert most_at_once <= most


@pytest.mark.parametrize(("size", "leaves"), [(1, False), (9_000, True)])
async def test_what_is_large_for_typescript_is_read_and_written_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, leaves: bool
) -> None:
    threads: dict[str, set[int]] = {}

    def noting(name: str, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def done(given: Any) -> Any:
            threads.setdefault(name, set()).add(threading.get_ident())
            return work(given)

        return done

    async def answers(_: str, __: Mapping[str, Any], ___: int) -> Any:
        threads.clear()
        return {"a": [1e300] * size}

    monkeypatch.setattr(deno_process, "_frame", noting("read", deno_process._frame))
    write = noting("write", jsontext.write_octets)
    monkeypatch.setattr(jsontext, "write_octets", write)
    code = "const r = await tools.git.list(); return r"
    async with deno_engine(LIMITS, tmp_path, warm=0, type_check=False) as engine:
        result = await ended(engine, code, Scripted(answers))
    assert (result.status, result.value) == (ProgramStatus.OK, {"a": [1e300] * size})
    assert threads.keys() == {"read", "write"}
    for name, ran in threads.items():
        assert (threading.get_ident() not in ran) is leaves, name


async def test_an_empty_line_of_typescript_counts_as_a_short_one(tmp_path: Path) -> None:
    code = 'for (let i = 0; i < %d; i++) console.log("")'
    # Of 16 characters: 16 times 1010 bytes are 1010 of them.
    few = await bounded(tmp_path, code % 1010, console_bytes=1010)
    assert few.status is ProgramStatus.OK
    many = await bounded(tmp_path, code % 1100, console_bytes=1010)
    assert many.status is ProgramStatus.OUTPUT


async def test_where_all_processes_are_taken_typescript_is_refused(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def waits(_: str, __: Mapping[str, Any], ___: int) -> Any:
        begun.set()
        await asyncio.sleep(3)

    limits = SandboxLimits(wall_s=1.0)
    async with deno_engine(limits, tmp_path, processes=1, warm=0, type_check=False) as engine:
        first = asyncio.create_task(ended(engine, "await tools.git.list()", Scripted(waits)))
        await begun.wait()
        engine._processes._wait_s = 0.05
        with pytest.raises(RateLimited, match="too many programs run at once"):
            await ended(engine, "return 1")
        assert (await first).status is ProgramStatus.WALL


async def test_without_deno_no_engine_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deno", None)
    assert deno.installed() is None
    assert await deno.deno_confinement(LIMITS) is None
    with pytest.raises(ConfigError, match=r"pip install 'douane\[typescript\]'"):
        async with deno_engine(LIMITS, tmp_path, type_check=False):
            pass

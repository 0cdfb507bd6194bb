"""Types of programs in TypeScript: checked before anything runs, and told as those in Python are."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.programs import (
    Language,
    Program,
    ProgramResult,
    ProgramStatus,
    ProgramTool,
    SandboxLimits,
)
from gateway.domain.scripts import digest_of
from gateway.errors import RateLimited
from gateway.sandbox import deno_check, jail
from gateway.sandbox.compiler_errors import Mistake, mistakes, wrapped
from gateway.sandbox.declarations import typescript, typescript_name
from gateway.sandbox.deno import DenoEngine, deno_engine
from gateway.sandbox.deno_check import TypeChecker
from gateway.sandbox.monty import MontyEngine
from gateway.sandbox.names import ToolTable
from tests.sandbox.brokers import TOOLS, Scripted, cancelled_twice, program, unchanged
from tests.sandbox.deno_variants import without_jail
from tests.sandbox.test_programs import children_of
from tests.sandbox.test_typed_tools import CREATE, HOSTILE

LIMITS = SandboxLimits(wall_s=20.0)
HARNESS = Path(deno_check.__file__).with_name("deno_harness.js")
TAKEN = ("fetch", "Deno", "process", "require", "localStorage", "Worker", "navigator", "alert")
FOR_DENO = {"onbeforeunload"}
"""Names that are left for Deno itself, and are nothing for a program."""


@pytest.fixture
async def checked(tmp_path: Path) -> AsyncIterator[DenoEngine]:
    async with deno_engine(LIMITS, tmp_path, warm=0) as running:
        yield running


async def ended(
    engine: DenoEngine,
    code: str,
    broker: Scripted | None = None,
    tools: tuple[ProgramTool, ...] = TOOLS,
) -> ProgramResult:
    written = Program(code=code, tools=tools, language=Language.TYPESCRIPT)
    return await engine.run(written, broker or Scripted(), redact=unchanged)


async def test_what_is_wrong_is_told_with_its_line_and_nothing_has_happened(
    checked: DenoEngine,
) -> None:
    broker = Scripted()
    code = (
        'await tools.git.create_issue({ title: "a" });\n'
        'const made = await tools.git.create_issue({ titl: "b" });\n'
        "  return made.nmber;"
    )
    assert await ended(checked, code, broker) == ProgramResult(
        status=ProgramStatus.TYPES,
        sha256=digest_of(code),
        error="program.ts:2:45: error[TS2561] Object literal may only specify known properties, "
        "but 'titl' does not exist in type '{ title: string; }'. Did you mean to write 'title'?\n"
        "program.ts:3:15: error[TS2551] Property 'nmber' does not exist on type "
        "'{ number: number; }'. Did you mean 'number'?\n",
    )
    assert broker.made == []
    right = code.replace("titl:", "title:").replace("nmber", "number")
    assert (await ended(checked, right, broker)).value == 2
    assert len(broker.made) == 2


@pytest.mark.full
async def test_mistakes_are_told_in_the_same_form_in_both_languages(
    checked: DenoEngine, engine: MontyEngine
) -> None:
    form = re.compile(r"program\.(?:py|ts):[0-9]+:[0-9]+: error\[[A-Za-z0-9-]+\] \S.*")
    python = await engine.run(program("await git.create_issue(title=1)"), Scripted(), redact=str)
    typed = await ended(checked, "\n\nawait tools.git.create_issue({ title: 1 })")
    for result, place in ((python, "py:3:"), (typed, "ts:3:")):
        assert result.status is ProgramStatus.TYPES
        (line,) = result.error.splitlines()
        assert form.fullmatch(line)
        assert f"program.{place}" in line


async def test_what_the_compiler_cannot_read_is_told_as_such(checked: DenoEngine) -> None:
    unread = await ended(checked, "const a = 1;\nlet x: = 1")
    assert unread.status is ProgramStatus.SYNTAX
    assert unread.error.startswith("program.ts:2:8: error[syntax] Unexpected token `=`")
    imports = await ended(checked, 'import { git } from "tools";')
    assert imports.status is ProgramStatus.SYNTAX
    assert imports.error.startswith("a program has no imports and no exports: `tools` is there")
    assert "\nprogram.ts:1:1: error[syntax] 'import', and 'export' cannot" in imports.error
    grammar = await ended(
        checked, "function f() { const x = 1; using y = null; }\nx: y: while (1) break z;"
    )
    assert grammar.status is ProgramStatus.SYNTAX


async def test_what_has_no_type_is_no_mistake(checked: DenoEngine) -> None:
    code = (
        "const seen = [], counts = {};\nfunction add(x, ...more) { seen.push(x); return more }\n"
        "add(1); counts['a'] = (counts['a'] ?? 0) + 1;\n"
        "for (const entry of (await tools.logs.read()).entries ?? []) add(entry.text);\n"
        "try { throw new ToolError('denied', 'x') } catch (e) { return [e.code, seen, counts] }"
    )
    result = await ended(checked, code)
    assert (result.error, result.value) == ("", ["denied", [1], {"a": 1}])


async def test_every_name_that_is_left_for_programs_is_declared(checked: DenoEngine) -> None:
    kept, _, _ = HARNESS.read_text().partition("function send(")
    named = {word for line in re.findall(r'\.\.\."([^"]+)"', kept) for word in line.split()}
    assert {"Map", "crypto", "performance"} < named
    names = sorted((named - FOR_DENO) | {"console", "tools", "ToolError"})
    used = [f"void {name};" for name in (*TAKEN, *names)]
    told = (await ended(checked, "\n".join(used))).error
    assert re.findall("Cannot find name '(.+?)'", told) == list(TAKEN)
    assert len(told.splitlines()) == len(TAKEN)


async def test_the_compiler_reads_whatever_a_server_shows(checked: DenoEngine) -> None:
    odd = tuple(
        ProgramTool(
            server=text,
            name=text,
            description=text,
            input_schema={"properties": {text: {"const": text, "description": text}}},
            output_schema={"properties": {text: {"enum": [text]}}},
        )
        for text in (*HOSTILE, "class", "tools", "Promise", "Array", "any", "1st")
    )
    tools = (CREATE, *odd)
    names = [typescript_name(tool.server) for tool in odd]
    calls = "".join(f"await tools.{name}.{name}({{}});\n" for name in names)
    wrong = "const n: string = (await tools.my__git.create_issue({})).number;"
    result = await ended(checked, calls + wrong, tools=tools)
    assert re.findall(r"program\.ts:(\d+):.*(TS\d+)", result.error) == [
        (str(len(odd) + 1), "TS2322"),
        (str(len(odd) + 1), "TS2345"),
    ]


async def test_lines_are_counted_as_the_compiler_counts_them(checked: DenoEngine) -> None:
    ends = ["\n", "\r\n", "\r", "\u2028", "\u2029"]
    lines = [f"const n{number}: string = a;{end}" for number, end in enumerate(ends)]
    assert (await ended(checked, "const a = 1;\n" + "".join(lines) + "return n0")).error == "".join(
        f"program.ts:{line}:7: error[TS2322] Type 'number' is not assignable to type 'string'.\n"
        for line in range(2, 2 + len(ends))
    )


SAID = """\
TS2300 [ERROR]: Duplicate identifier 'a'.
  const a: any;
        ~
    at file:///program/program.ts:{line}:9

Found 1 error.
"""


def test_what_is_wrong_with_a_declaration_is_not_told_of_the_program() -> None:
    told = Mistake(line=2, column=9, code="TS2300", text="Duplicate identifier 'a'.")
    assert mistakes(SAID.format(line=3), 2) == [told]
    # The line of the brace that closes the program; what is below it is ours.
    assert mistakes(SAID.format(line=4), 2) == [told]
    assert mistakes(SAID.format(line=5), 2) == []
    assert mistakes(SAID.replace("program.ts", "globals.d.ts").format(line=3), 2) == []
    assert mistakes("error: Module not found\n", 2) is None


def test_what_is_wrong_in_no_file_is_no_check() -> None:
    nowhere = "TS2318 [ERROR]: Cannot find global type 'Array'.\n\n"
    assert mistakes(nowhere, 2) is None
    assert mistakes(nowhere + SAID.format(line=5), 2) is None
    assert mistakes(nowhere + SAID.format(line=3), 2)


def test_only_the_types_of_tools_that_a_program_names_are_read() -> None:
    table = ToolTable(TOOLS)
    assert "function create_issue(input: {" in typescript(table, "tools.git.create_issue()")
    assert typescript(table, "await tools.git.list()") == (
        "declare namespace tools.git {\n"
        "  function create_issue(input?: any): Promise<any>;\n"
        "  function list(input?: Record<string, any>): Promise<any>;\n}\n"
        "declare namespace tools { const logs: any; }\n"
    )
    assert typescript(ToolTable(()), "tools") == "declare const tools: {};\n"


def test_what_is_read_for_one_program_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ToolTable(TOOLS)
    whole = typescript(table, "git logs")
    assert whole.count("function ") == 3
    monkeypatch.setattr("gateway.sandbox.declarations._DECLARED_CHARS", 10)
    assert "function " not in typescript(table, "git logs")


LONG = (
    'type D<T, N extends any[]> = N["length"] extends 18 ? T : D<{ a: T; b: T }, [...N, 0]>;\n'
    'type F<T> = T extends { a: infer U; b: infer V } ? [F<U>, F<V>]["length"] : 1;\n'
    "let x: F<D<1, []>> = 3 as any;\n"
    "type Q<A extends number, B> = A extends A ? Q<A, [A, B]> | Q<A, { a: A, b: B }> : never;\n"
    "let q: Q<1 | 2 | 3 | 4, 1> = 0 as any; let r: Q<1 | 2 | 3 | 4 | 5 | 6, 2> = q;\nreturn 1"
)
"""Types that no compiler comes to the end of in time."""


@pytest.mark.full
async def test_types_that_take_too_long_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jail, "_OWN_CPU_S", 2)
    async with deno_engine(LIMITS, tmp_path, warm=0) as engine:
        result = await ended(engine, LONG)
        assert (await ended(engine, "return 1")).value == 1
    assert (result.status, result.error) == (
        ProgramStatus.TYPES,
        "its types took more than 10 seconds or 256 MiB to check: write simpler ones, or `any`",
    )


async def test_types_that_take_too_much_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = tuple(word.replace("=256", "=8") for word in deno_check._WORDS)
    monkeypatch.setattr(deno_check, "_WORDS", words)
    async with deno_engine(LIMITS, tmp_path, warm=0) as engine:
        result = await ended(engine, "return 1")
    assert (result.status, "256 MiB" in result.error) == (ProgramStatus.TYPES, True)


async def test_a_compiler_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deno_check, "_CHECK_S", 0.05)
    before = children_of(os.getpid())
    async with deno_engine(LIMITS, tmp_path, warm=0) as engine:
        result = await ended(engine, "return 1")
        assert (result.status, "took more than" in result.error) == (ProgramStatus.TYPES, True)
        assert children_of(os.getpid()) <= before


async def test_of_many_mistakes_so_many_are_told(checked: DenoEngine) -> None:
    many = await ended(checked, "void nobody;\n" * 50)
    assert len(many.error.splitlines()) == 21
    assert many.error.endswith("and 30 more\n")
    # Each is told with the line that it stands in: together more than anybody reads.
    checker: Any = checked._checker
    status, said = await checker._compiled(wrapped("void nobody;" * 4000, ""))
    assert status == 1
    assert 128 * 1024 < len(said) < 160 * 1024


async def test_where_the_compiler_says_nothing_that_is_known_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Scripted()
    async with deno_engine(LIMITS, tmp_path, warm=0) as engine:
        monkeypatch.setattr(
            deno_check,
            "_WORDS",
            ("check", "--config", "/program/nothing.json", "/program/program.ts"),
        )
        result = await ended(engine, "await tools.git.list()", broker)
    assert (result.status, result.error) == (
        ProgramStatus.TYPES,
        "its types could not be checked",
    )
    assert broker.made == []


@pytest.mark.full
async def test_where_not_all_is_read_that_the_compiler_says_nothing_runs(
    checked: DenoEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    untyped = "function same(x) { return x }\nreturn same(1)"
    assert (await ended(checked, untyped)).value == 1
    not_checked = (ProgramStatus.TYPES, "its types could not be checked")
    with monkeypatch.context() as less:
        less.setattr(deno_check, "_SAID_BYTES", 100)
        result = await ended(checked, untyped)
        assert (result.status, result.error) == not_checked
    # Of the line that is quoted each character is three bytes.
    checker: Any = checked._checker
    wide = "function same(x) { return x } // " + "\u20ac" * 20
    _, said = await checker._compiled(wrapped(wide, ""))
    monkeypatch.setattr(deno_check, "_SAID_BYTES", len(said) + 10)
    result = await ended(checked, wide)
    assert (result.status, result.error) == not_checked


async def test_without_a_jail_the_compiler_is_given_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_jail(monkeypatch, tmp_path)
    async with deno_engine(LIMITS, tmp_path, warm=0) as engine:
        assert not engine.checks_types
        assert (await ended(engine, "const n: string = 1; return n")).value == 1


async def test_the_check_can_be_switched_off(tmp_path: Path) -> None:
    async with deno_engine(LIMITS, tmp_path, warm=0, type_check=False) as engine:
        assert not engine.checks_types
        assert (await ended(engine, "const n: string = 1; return n")).value == 1


@pytest.mark.full
async def test_no_check_finds_anything_of_another(checked: DenoEngine) -> None:
    first = "};\ndeclare global { var left: 1; }\nexport const a = async () => {"
    assert (await ended(checked, f"{first}\nleft = 1; return 1")).status is ProgramStatus.OK
    second = await ended(checked, "left = 1; return 1")
    assert "Cannot find name 'left'" in second.error


async def test_who_finds_all_compilers_taken_waits_a_while(checked: DenoEngine) -> None:
    checker: Any = checked._checker
    checker._wait_s = 0.05
    for _ in range(deno_check.AT_ONCE):
        await checker._turns.acquire()
    with pytest.raises(RateLimited, match="too many programs run at once"):
        await ended(checked, "return 1")
    checker._turns.release()
    assert (await ended(checked, "return 1")).value == 1


async def test_where_no_compiler_starts_nothing_runs(tmp_path: Path) -> None:
    checker = TypeChecker(tmp_path / "nothing", wait_s=1.0)
    for _ in range(deno_check.AT_ONCE + 1):
        with pytest.raises(RateLimited, match="no interpreter could be started"):
            await checker.refusal("return 1", ToolTable(TOOLS))


@pytest.mark.parametrize("turns", [0, 1, 5])
async def test_a_check_that_is_cancelled_twice_leaves_no_process(
    turns: int, tmp_path: Path
) -> None:
    before = children_of(os.getpid())
    async with deno_engine(LIMITS, tmp_path, warm=0) as engine:
        run = asyncio.create_task(ended(engine, LONG))
        while not children_of(os.getpid()) - before:
            await asyncio.sleep(0.01)
        await cancelled_twice(run, turns)
    assert children_of(os.getpid()) <= before

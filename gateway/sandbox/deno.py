"""TypeScript in Deno: a whole language, in one process for each run that may do nothing."""

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

from gateway.domain.programs import Program, ProgramResult, ProgramStatus, Redact, SandboxLimits
from gateway.errors import ConfigError, RateLimited
from gateway.ports.sandbox import Broker, Confinement, ToolRefused
from gateway.sandbox import jail
from gateway.sandbox.bounded import BoundedRun
from gateway.sandbox.declarations import typescript_paths
from gateway.sandbox.deno_check import TypeChecker, checker_of
from gateway.sandbox.deno_pool import Processes
from gateway.sandbox.deno_process import DenoProcess, NotStarted, build, words
from gateway.sandbox.ending import NO_APPROVAL, End, out_of_time, result, used_up
from gateway.sandbox.endings import Endings
from gateway.sandbox.gate import Answer, BudgetSpent, Gate, WaitingCall
from gateway.sandbox.names import ToolTable
from gateway.sandbox.screen import Console

PROCESSES: Final = 16
"""Runs at once, of all principals."""
WARM: Final = 1
"""Processes that wait for the next run: each holds some 12 MiB of its own."""

_WATCHED_S: Final = 0.025
_SLACK_BYTES: Final = 32 * 1024 * 1024
"""What the engine itself may grow by in a run, beside a program's values."""
_SHORTEST_TOLD: Final = 16
"""Characters that a line on the console counts for at least: each costs us something."""
_NOBODY_WAITS: Final = (
    "a person must allow it first, and a program in TypeScript cannot wait: call run_code with a "
    "grant for it that is preapproved, write the program in Python, or call the tool directly"
)
_MODULES: Final = "'import', and 'export' cannot be used"
_NO_MODULES: Final = (
    "a program has no imports and no exports: `tools` is there already, and `return` ends it\n"
)
_CODE: Final = re.compile(r"ToolError\[([a-z_]+)\]")
_FULL: Final = re.compile(r"heap out of memory|[Mm]emory allocation|Out of memory|out of memory")


class DenoEngine:
    """Runs TypeScript programs. Of one event loop."""

    def __init__(
        self,
        processes: Processes,
        limits: SandboxLimits,
        confinement: Confinement,
        checker: TypeChecker | None,
    ) -> None:
        """Run programs in `processes`, once `checker`, if there is one, finds their types right."""
        self._processes = processes
        self._limits = limits
        self._confinement = confinement
        self._checker = checker

    @property
    def language(self) -> str:
        """`typescript`."""
        return "typescript"

    @property
    def confinement(self) -> Confinement:
        """How its processes are held."""
        return self._confinement

    @property
    def checks_types(self) -> bool:
        """Whether they are checked: where there is a jail for that, unless it is switched off."""
        return self._checker is not None

    async def run(self, program: Program, broker: Broker, *, redact: Redact) -> ProgramResult:
        """Run a program to its end. A call that waits for a person is refused: none can be kept."""
        limits = self._limits
        size = len(program.code.encode(errors="replace"))
        if size > limits.code_bytes:
            error = f"the program has {size} bytes, of which {limits.code_bytes} are allowed"
            return ProgramResult(status=ProgramStatus.SYNTAX, sha256=program.sha256, error=error)
        table = ToolTable(program.tools)
        gate = Gate(broker, table, limits)
        run = BoundedRun(program, limits, gate=gate, console=Console(limits.console_bytes))
        code = program.code.encode(errors="replace").decode()
        if self._checker and (end := await self._checker.refusal(code, table)):
            return await result(run, _hinted(end), redact)
        job: dict[str, Any] = {
            "code": code,
            "tools": typescript_paths(table),
            "arguments_bytes": limits.arguments_bytes,
            "value_bytes": limits.value_bytes,
        }
        try:
            end = await self._driven(run, job)
            await gate.finish(run.left_s)
        finally:
            await gate.cut_off()
        return await result(run, _hinted(end), redact)

    async def resume(
        self,
        parked: bytes,
        program: Program,
        broker: Broker,
        *,
        refused: Mapping[int, ToolRefused],
        redact: Redact,
    ) -> NoReturn:
        """Refuse: no run of this engine is ever parked."""
        del parked, program, broker, refused, redact
        raise ValueError("no program in TypeScript can have been parked")

    async def _driven(self, run: BoundedRun, job: dict[str, Any]) -> End:
        try:
            async with self._processes.one() as process:
                timeout = run.bounded()
                try:
                    async with timeout:
                        return await _Conversation(run, process).held(job)
                except TimeoutError:
                    if not timeout.expired():
                        raise
                    return out_of_time(run)
                except BudgetSpent as spent:
                    return End(status=ProgramStatus.CALLS, error=str(spent))
                finally:
                    run.stopped()
        except NotStarted as error:
            raise RateLimited("no interpreter could be started; try again later") from error


class _Conversation:
    """What is said with a process while its program runs: nothing that it says is taken for true."""

    def __init__(self, run: BoundedRun, process: DenoProcess) -> None:
        self._run = run
        self._process = process
        self._who = run.gate.who
        self._answering: set[asyncio.Task[None]] = set()
        self._began = process.usage()

    async def held(self, job: dict[str, Any]) -> End:
        """Give it its program, carry out its calls, and return how it ended."""
        loop = asyncio.get_running_loop()
        listening = loop.create_task(self._listen(job))
        watching = loop.create_task(self._watch())
        try:
            while True:
                await asyncio.wait(
                    {listening, watching, *self._answering}, return_when=asyncio.FIRST_COMPLETED
                )
                for answered in [one for one in self._answering if one.done()]:
                    self._answering.discard(answered)
                    answered.result()
                for one in (watching, listening):
                    if one.done():
                        return one.result()
        finally:
            tasks = [listening, watching, *self._answering]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, job: dict[str, Any]) -> End:
        await self._process.write(self._who, job)
        while True:
            try:
                frame = await self._process.read(self._who)
                end = await (self._died() if frame is None else self._heard(frame))
            except ValueError:
                return End(
                    status=ProgramStatus.CRASHED, error="the interpreter said what it cannot"
                )
            if end is not None:
                return end

    async def _heard(self, frame: Mapping[str, Any]) -> End | None:
        """Take one thing that the process says; return an end if it is one.

        Raises:
            ValueError: It is none of what is spoken here.
            BudgetSpent: It calls too many tools.

        """
        match frame:
            case {"t": "call", "id": int(number), "path": str(path), "arguments": given}:
                named = given if isinstance(given, dict) else {}
                positional = () if isinstance(given, dict) else (given,)
                call = await self._run.gate.begin(path, positional, named)
                answering = asyncio.get_running_loop().create_task(self._answered(number, call))
                self._answering.add(answering)
                return None
            case {"t": "log", "text": str(text)}:
                self._run.printed("", text, least=_SHORTEST_TOLD)
                return None
            case {"t": "done", "value": value}:
                return await self._completed(value)
            case {"t": "unfit", "text": str(text)}:
                error = f"the program's last value is {text}"
                return End(status=ProgramStatus.OUTPUT, error=error)
            case {"t": "fail", "kind": "syntax", "text": str(text)}:
                return End(status=ProgramStatus.SYNTAX, error=text)
            case {"t": "fail", "text": str(text)}:
                return End(status=ProgramStatus.ERROR, error=text)
            case _:
                raise ValueError("this is nothing that is said here")

    async def _completed(self, value: object) -> End:
        try:
            found = await self._run.gate.plain(value, self._run.limits.value_bytes)
        except ValueError as error:
            return End(status=ProgramStatus.OUTPUT, error=f"the program's last value is {error}")
        return End(status=ProgramStatus.OK, value=found)

    async def _answered(self, number: int, call: asyncio.Task[Answer | WaitingCall]) -> None:
        answer = await asyncio.shield(call)
        if isinstance(answer, WaitingCall):
            refused = ToolRefused(NO_APPROVAL, _NOBODY_WAITS)
            answer = await self._run.gate.again(answer, refused)
        if isinstance(answer, Answer) and answer.error:
            code = found[1] if (found := _CODE.match(answer.error)) else ""
            error = {"code": code, "message": answer.error}
            await self._process.write(self._who, {"id": number, "error": error})
        elif isinstance(answer, Answer):
            await self._process.write(self._who, {"id": number, "value": answer.value})

    async def _watch(self) -> End:
        limits = self._run.limits
        most = self._began.resident_bytes + limits.memory_bytes + _SLACK_BYTES
        while True:
            await asyncio.sleep(_WATCHED_S)
            used = self._process.usage()
            if used.cpu_s - self._began.cpu_s > limits.interpreter_s:
                return End(status=ProgramStatus.INTERPRETER, error=used_up(limits))
            if used.resident_bytes > most:
                return self._full()

    async def _died(self) -> End:
        await self._process.settled()
        if _FULL.search(self._process.complaints):
            return self._full()
        return End(status=ProgramStatus.CRASHED, error="the interpreter ended unexpectedly")

    def _full(self) -> End:
        error = f"it held more than {self._run.limits.memory_bytes} bytes"
        return End(status=ProgramStatus.MEMORY, error=error)


@asynccontextmanager
async def deno_engine(
    limits: SandboxLimits,
    folder: Path,
    *,
    processes: int = PROCESSES,
    warm: int = WARM,
    type_check: bool = True,
) -> AsyncIterator[DenoEngine]:
    """Start an engine, and end its processes afterwards. Types are checked in a jail only.

    What starts them is written into `folder`, where nobody else may write.

    Raises:
        ConfigError: Deno is not installed, or does not work here.

    """
    interpreter = installed()
    if interpreter is None:
        raise ConfigError(MISSING)
    jail.keep_files_to_ourselves()
    with tempfile.TemporaryDirectory(prefix="sandbox-", dir=folder) as own:
        built = await build(Path(own), interpreter, limits)
        checker = await checker_of(Path(own), interpreter, limits) if type_check else None
        arguments = words(limits)
        most = max(limits.arguments_bytes, limits.value_bytes)

        async def start(endings: Endings) -> DenoProcess:
            return await DenoProcess.start(built.program, arguments, most, endings)

        pool = Processes(start, most=processes, ahead=warm, wait_s=limits.wall_s)
        try:
            await pool.fill()
        except NotStarted as error:
            raise ConfigError(
                f"the interpreter `deno` does not start: {error}",
                problems=["or write `code: {typescript: off}`"],
            ) from error
        try:
            yield DenoEngine(pool, limits, built.confinement, checker)
        finally:
            await pool.aclose()
            if checker is not None:
                await checker.aclose()


def _hinted(end: End) -> End:
    """Return `end`, with what to do where a program imports something."""
    imports = end.status is ProgramStatus.SYNTAX and _MODULES in end.error
    return replace(end, error=_NO_MODULES + end.error) if imports else end


async def deno_confinement(limits: SandboxLimits) -> Confinement | None:
    """Try how its processes would be held on this machine; `None` where it is not installed."""
    interpreter = installed()
    if interpreter is None:
        return None
    with tempfile.TemporaryDirectory(prefix="sandbox-") as own:
        return (await build(Path(own), interpreter, limits)).confinement


MISSING: Final = "the interpreter `deno` is not installed: pip install 'douane[typescript]'"


def installed() -> Path | None:
    """Return where Deno is that was installed with us; any other's version nobody has tried."""
    try:
        # An extra, which not everybody has.
        from deno import find_deno_bin  # type: ignore[import-untyped] # noqa: PLC0415

        return Path(find_deno_bin()).absolute()
    except (ImportError, FileNotFoundError):
        return None

"""Starts, calls and a hundred runs at once, beside the start of the smallest process."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.code.engines import LIMITS, TOOLS, Echo, all_ready, carried_out, engine_of
from benchmarks.code.plain import plain_cold, plain_drive, plain_pool, plain_run
from gateway.domain.programs import Language, Program, ProgramStatus
from gateway.sandbox.deno import MISSING, deno_engine, installed
from gateway.sandbox.deno_check import checker_of
from gateway.sandbox.monty import MontyEngine
from gateway.sandbox.names import ToolTable

ROUNDS = 40
CALLS = 200
AT_ONCE = 100
TOOLS_EACH = 8
AFTER_EACH_OTHER = (
    f"from tools import notes\nfor i in range({CALLS}):\n    await notes.read(number=i)\n1"
)
ALL_AT_ONCE = (
    "import asyncio\nfrom tools import notes\n"
    f"len(await asyncio.gather(*[notes.read(number=i) for i in range({CALLS})]))"
)
_SUM = "1 + 1"
_EIGHT = (
    "import asyncio\nfrom tools import notes\n"
    f"len(await asyncio.gather(*[notes.read(number=i) for i in range({TOOLS_EACH})]))"
)
_READY = 10
"""Processes that wait for as many runs after each other."""
_TOOL_S = 0.05
_MIB = 1024
_LOOKED_S = 0.005
_TYPED = "const found = await tools.notes.read({ number: 1 });\nreturn found.number;"

_Step: TypeAlias = Callable[[], Awaitable[Any]]


@dataclass
class Beside:
    """Times of a step, each with a start of the smallest process there is right before it.

    What else a machine does changes by the second; the ratio of the two changes less.
    """

    times: list[float] = field(default_factory=list)
    processes: list[float] = field(default_factory=list)

    @property
    def ms(self) -> float:
        """The median."""
        return statistics.median(self.times)

    @property
    def process_ms(self) -> float:
        """The median of the starts of processes."""
        return statistics.median(self.processes)

    def each(self, number: int, *, less_ms: float) -> "Beside":
        """Return what one of so many costs of a step that takes `less_ms` without any."""
        return Beside([(taken - less_ms) / number for taken in self.times], self.processes)


async def compared(steps: Mapping[str, _Step], rounds: int = ROUNDS) -> dict[str, Beside]:
    """Time steps in turns, so that all of them meet the same machine, and share its processes."""
    processes: list[float] = []
    found = {name: Beside(processes=processes) for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            processes.append(await _timed(_process))
            found[name].times.append(await _timed(step))
    return found


async def cold_starts(folder: Path) -> dict[str, Beside]:
    """Return what a run costs whose process must be started, by variant, and with nothing of ours."""
    async with (
        engine_of("bare", folder, warm=0) as bare,
        engine_of("jailed", folder, warm=0) as jailed,
        engine_of("shipped", folder, warm=0) as shipped,
    ):
        return await compared(
            {
                "plain": lambda: plain_cold(_SUM),
                "bare": lambda: carried_out(bare, _SUM, Echo()),
                "jailed": lambda: carried_out(jailed, _SUM, Echo()),
                "shipped": lambda: carried_out(shipped, _SUM, Echo()),
            }
        )


async def warm_starts(variant: str, folder: Path) -> dict[str, Beside]:
    """Return what a run costs whose process waits for it, and beside it one with nothing of ours.

    The latter's process is the one that the run before it had.
    """
    found = {"plain": Beside(), variant: Beside()}
    async with (
        plain_pool(processes=1, ready=1) as pool,
        engine_of(variant, folder, warm=_READY) as engine,
    ):
        await plain_run(pool, _SUM)
        for _ in range(ROUNDS // _READY):
            await _alone(engine, _READY)
            steps: Mapping[str, _Step] = {
                "plain": lambda: plain_run(pool, _SUM),
                variant: lambda: carried_out(engine, _SUM, Echo()),
            }
            for name, times in (await compared(steps, _READY)).items():
                found[name].times += times.times
                found[name].processes += times.processes
    return found


async def typescript_costs(folder: Path) -> tuple[dict[str, Beside], float]:
    """Return what a run in TypeScript costs whose process must be started, and what its check does.

    Beside it the MiB that the compiler holds at most, as far as looking often shows it.
    """
    program = Program(code=_TYPED, tools=TOOLS, language=Language.TYPESCRIPT)
    own = folder / "typescript"
    own.mkdir()
    interpreter = installed()
    if interpreter is None:
        raise SystemExit(MISSING)
    checker = await checker_of(own, interpreter, LIMITS)
    if checker is None:
        raise SystemExit("types are checked in a jail, and there is none")
    table = ToolTable(TOOLS)

    async def check() -> None:
        if (end := await checker.refusal(program.code, table)) is not None:
            raise SystemExit(f"a program was refused: {end.error}")

    async with deno_engine(LIMITS, folder, warm=0, type_check=False) as engine:

        async def run() -> None:
            result = await engine.run(program, Echo(), redact=str)
            if result.status is not ProgramStatus.OK:
                raise SystemExit(f"a program ended {result.status}: {result.error}")

        found = await compared({"check": check, "run": run}, ROUNDS // 4)
    checking, most = asyncio.create_task(check()), 0
    while not checking.done():
        await asyncio.sleep(_LOOKED_S)
        most = max(most, _descendants_kib())
    await checking
    return found, most / _MIB


async def _timed(step: _Step) -> float:
    began = time.perf_counter()
    await step()
    return (time.perf_counter() - began) * 1e3


async def _process() -> None:
    process = await asyncio.create_subprocess_exec("/bin/true", env={})
    await process.wait()


async def calls(code: str, folder: Path) -> dict[str, Beside]:
    """Return what a call costs of a program of many, with us and with nothing of ours."""

    async def echo(arguments: Any) -> Any:
        return arguments

    async with (
        plain_pool(processes=1, ready=1) as pool,
        engine_of("jailed", folder, warm=2) as engine,
    ):

        async def ours(text: str) -> None:
            await carried_out(engine, text, Echo())

        steps: Mapping[str, _Step] = {
            "plain": lambda: plain_run(pool, code, echo),
            "driven": lambda: plain_drive(pool, code, echo),
            "ours": lambda: ours(code),
            "ours, none": lambda: ours("1"),
            "plain, none": lambda: plain_run(pool, "1", echo),
        }
        found: dict[str, Beside] = {name: Beside() for name in steps}
        for _ in range(ROUNDS // 4):
            await _alone(engine, 2)
            for name, times in (await compared(steps, 1)).items():
                found[name].times += times.times
                found[name].processes += times.processes
    plain, ours_ms = found["plain, none"].ms, found["ours, none"].ms
    return {
        "plain": found["plain"].each(CALLS, less_ms=plain),
        "driven": found["driven"].each(CALLS, less_ms=plain),
        "ours": found["ours"].each(CALLS, less_ms=ours_ms),
    }


class Slow:
    """A broker whose tools take their time."""

    who = "alice"

    async def call(self, server: str, tool: str, arguments: Mapping[str, Any], *, seq: int) -> Any:
        """Return the arguments, later."""
        del server, tool, seq
        await asyncio.sleep(_TOOL_S)
        return arguments


class Together:
    """A broker that answers once all programs wait for it, after a look at their memory."""

    who = "alice"

    def __init__(self) -> None:
        self._waiting = 0
        self._all = asyncio.Event()
        self.kib = 0

    async def call(self, server: str, tool: str, arguments: Mapping[str, Any], *, seq: int) -> Any:
        """Return the arguments, when everybody has asked."""
        del server, tool, seq
        self._waiting += 1
        if self._waiting == AT_ONCE * TOOLS_EACH:
            self.kib = _descendants_kib()
            self._all.set()
        await self._all.wait()
        return arguments


async def hundred(variant: str, folder: Path, *, ready: int = AT_ONCE) -> tuple[float, float]:
    """Return seconds and MiB of a hundred runs at once, a process each, with eight calls each.

    `ready` processes wait for them; the others are started for them.
    """
    async with engine_of(variant, folder, warm=ready, processes=AT_ONCE) as engine:
        await _alone(engine, ready)
        began = time.perf_counter()
        await asyncio.gather(*(carried_out(engine, _EIGHT, Slow()) for _ in range(AT_ONCE)))
        seconds = time.perf_counter() - began
        await _alone(engine, ready)
        together = Together()
        await asyncio.gather(*(carried_out(engine, _EIGHT, together) for _ in range(AT_ONCE)))
    return seconds, together.kib / _MIB


async def _alone(engine: MontyEngine, ready: int) -> None:
    """Let processes wait for runs, and see to it that no others are started beside them."""
    engine.workers.ahead = ready
    await all_ready(engine)
    engine.workers.ahead = 0


async def plain_hundred() -> tuple[float, float]:
    """Return the same with nothing of ours."""

    async def slow(arguments: Any) -> Any:
        return await Slow().call("notes", "read", arguments, seq=0)

    together = Together()

    async def all_of_them(arguments: Any) -> Any:
        return await together.call("notes", "read", arguments, seq=0)

    async with plain_pool(processes=AT_ONCE, ready=AT_ONCE) as pool:
        began = time.perf_counter()
        await asyncio.gather(*(plain_run(pool, _EIGHT, slow) for _ in range(AT_ONCE)))
        seconds = time.perf_counter() - began
        await asyncio.gather(*(plain_run(pool, _EIGHT, all_of_them) for _ in range(AT_ONCE)))
    return seconds, together.kib / _MIB


def _descendants_kib() -> int:
    """Return what the processes below this one hold, shared pages split among their holders."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = 0, list(children.get(int(Path("/proc/self").readlink().name), []))
    while waiting:
        one = waiting.pop()
        waiting += children.get(one, [])
        found += _proportional_kib(one)
    return found


def _proportional_kib(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))

"""Starts, calls and a hundred runs at once, beside the start of the smallest process."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.code.engines import Echo, carried_out, engine_of

ROUNDS = 40
CALLS = 200
AT_ONCE = 100
TOOLS_EACH = 8
_TOOL_S = 0.05
_REST_S = 0.03
"""For the next process to be ready."""
_MIB = 1024


class Beside:
    """Times of a step, each with a start of the smallest process there is right before it.

    What else a machine does changes by the second; the ratio of the two changes less.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.processes: list[float] = []

    @property
    def ms(self) -> float:
        """The median."""
        return statistics.median(self.times)

    @property
    def process_ms(self) -> float:
        """The median of the starts of processes."""
        return statistics.median(self.processes)

    async def run(self, step: Callable[[], Awaitable[Any]]) -> "Beside":
        """Time a step often."""
        for _ in range(ROUNDS):
            self.processes.append(await _timed(_process))
            await asyncio.sleep(_REST_S)
            self.times.append(await _timed(step))
        return self


async def starts(variant: str, folder: Path) -> tuple[Beside, Beside]:
    """Return what a run costs whose process must be started, and one whose process waits for it."""
    async with engine_of(variant, folder, warm=0) as engine:
        cold = await Beside().run(lambda: carried_out(engine, "1 + 1", Echo()))
    async with engine_of(variant, folder, warm=2) as engine:
        warm = await Beside().run(lambda: carried_out(engine, "1 + 1", Echo()))
    return cold, warm


async def _timed(step: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await step()
    return (time.perf_counter() - began) * 1e3


async def _process() -> None:
    process = await asyncio.create_subprocess_exec("/bin/true", env={})
    await process.wait()


async def calls(folder: Path) -> tuple[Beside, Beside]:
    """Return what a call costs of many after each other, and of many at once."""
    after = f"from tools import notes\nfor i in range({CALLS}):\n    await notes.read(number=i)\n1"
    at_once = (
        "import asyncio\nfrom tools import notes\n"
        f"len(await asyncio.gather(*[notes.read(number=i) for i in range({CALLS})]))"
    )
    async with engine_of("jailed", folder, warm=2) as engine:
        base = (await Beside().run(lambda: carried_out(engine, "1", Echo()))).ms
        found = [
            await Beside().run(lambda code=code: carried_out(engine, code, Echo()))  # type: ignore[misc]
            for code in (after, at_once)
        ]
    for one in found:
        one.times = [(taken - base) / CALLS for taken in one.times]
    return found[0], found[1]


class Slow:
    """A broker whose tools take their time."""

    async def call(self, server: str, tool: str, arguments: Mapping[str, Any], *, seq: int) -> Any:
        """Return the arguments, later."""
        del server, tool, seq
        await asyncio.sleep(_TOOL_S)
        return arguments


class Together:
    """A broker that answers once all programs wait for it, after a look at their memory."""

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


async def hundred(variant: str, folder: Path) -> tuple[float, float]:
    """Return seconds and MiB of a hundred runs at once, a process each, with eight calls each."""
    code = (
        "import asyncio\nfrom tools import notes\n"
        f"len(await asyncio.gather(*[notes.read(number=i) for i in range({TOOLS_EACH})]))"
    )
    async with engine_of(variant, folder, warm=AT_ONCE, processes=AT_ONCE) as engine:
        await asyncio.sleep(1.0)
        began = time.perf_counter()
        await asyncio.gather(*(carried_out(engine, code, Slow()) for _ in range(AT_ONCE)))
        seconds = time.perf_counter() - began
        together = Together()
        await asyncio.gather(*(carried_out(engine, code, together) for _ in range(AT_ONCE)))
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

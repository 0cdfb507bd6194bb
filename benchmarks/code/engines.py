"""Engines as they are shipped, and with parts of them left out, to see what each part costs."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway.domain.programs import Program, ProgramStatus, ProgramTool, SandboxLimits
from gateway.ports.sandbox import Broker, Confinement
from gateway.sandbox.monty import MontyEngine, monty_engine, workers_of

LIMITS = SandboxLimits(calls=500)
TOOLS = (
    ProgramTool(
        server="notes",
        name="read",
        input_schema={"type": "object", "properties": {"number": {"type": "integer"}}},
        output_schema={"type": "object", "properties": {"number": {"type": "integer"}}},
    ),
)
VARIANTS = ("bare", "jailed", "shipped")
"""The interpreter in a process of its own; in its jail; and with the check of types, as shipped."""


class Echo:
    """A broker that answers at once with what it got."""

    who = "alice"

    async def call(self, server: str, tool: str, arguments: Mapping[str, Any], *, seq: int) -> Any:
        """Return the arguments."""
        del server, tool, seq
        return arguments


@asynccontextmanager
async def engine_of(
    variant: str, folder: Path, *, warm: int, processes: int = 16
) -> AsyncIterator[MontyEngine]:
    """Start the engine of a variant."""
    if variant == "bare":
        held = Confinement(jailed=False, reason="left out")
        async with workers_of(LIMITS, None, most=processes, ahead=warm, checks=False) as workers:
            yield MontyEngine(workers, LIMITS, held)
        return
    checked = variant == "shipped"
    async with monty_engine(
        LIMITS, folder, warm=warm, processes=processes, type_check=checked
    ) as engine:
        yield engine


async def all_ready(engine: MontyEngine) -> None:
    """Wait until as many processes wait for runs as are to wait."""
    engine.workers.fill()
    await engine.workers.settle()


async def carried_out(engine: MontyEngine, code: str, broker: Broker) -> Any:
    """Run a program that must end well; return its value."""
    result = await engine.run(Program(code=code, tools=TOOLS), broker, redact=str)
    if result.status is not ProgramStatus.OK:
        raise SystemExit(f"a program ended {result.status}: {result.error}")
    return result.value

"""Engines as they are shipped, and with parts of them left out, to see what each part costs."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic_monty import AsyncMonty

from gateway.domain.programs import Program, ProgramStatus, ProgramTool, SandboxLimits
from gateway.ports.sandbox import Broker, Confinement, Engine
from gateway.sandbox.monty import MontyEngine, monty_engine

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

    async def call(self, server: str, tool: str, arguments: Mapping[str, Any], *, seq: int) -> Any:
        """Return the arguments."""
        del server, tool, seq
        return arguments


@asynccontextmanager
async def engine_of(
    variant: str, folder: Path, *, warm: int, processes: int = 16
) -> AsyncIterator[Engine]:
    """Start the engine of a variant."""
    if variant == "bare":
        pool = AsyncMonty(
            min_processes=warm,
            max_processes=processes,
            max_checkouts_per_worker=1,
            checkout_timeout=60,
            request_timeout=60,
        )
        async with pool:
            held = Confinement(jailed=False, reason="left out")
            yield MontyEngine(pool, LIMITS, held, type_check=False)
        return
    checked = variant == "shipped"
    async with monty_engine(
        LIMITS, folder, warm=warm, processes=processes, type_check=checked
    ) as engine:
        yield engine


async def carried_out(engine: Engine, code: str, broker: Broker) -> Any:
    """Run a program that must end well; return its value."""
    result = await engine.run(Program(code=code, tools=TOOLS), broker, redact=str)
    if result.status is not ProgramStatus.OK:
        raise SystemExit(f"a program ended {result.status}: {result.error}")
    return result.value

"""Brokers that a test scripts, and the tools that their programs see."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from gateway.domain.programs import Program, ProgramTool

TITLE = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
TOOLS = (
    ProgramTool(
        server="git",
        name="create_issue",
        description="Creates.",
        input_schema=TITLE,
        output_schema=NUMBER,
    ),
    ProgramTool(server="git", name="list", input_schema={"type": "object"}, read_only=True),
    ProgramTool(server="logs", name="read", input_schema={"type": "object"}, read_only=True),
)

Answering = Callable[[str, Mapping[str, Any], int], Awaitable[Any]]


class Scripted:
    """Answers each call as it is told to, and notes which were made."""

    who = "alice"

    def __init__(self, answer: Answering | None = None) -> None:
        self._answer = answer
        self.made: list[tuple[int, str, Mapping[str, Any]]] = []
        self.at_once = 0
        self.most_at_once = 0
        self.cancelled: list[int] = []

    async def call(self, server: str, tool: str, arguments: Mapping[str, Any], *, seq: int) -> Any:
        self.made.append((seq, f"{server}/{tool}", arguments))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self._answer is None:
                return {"number": seq}
            return await self._answer(tool, arguments, seq)
        except asyncio.CancelledError:
            self.cancelled.append(seq)
            raise
        finally:
            self.at_once -= 1


def program(code: str) -> Program:
    return Program(code=f"import asyncio\nfrom tools import git, logs\n{code}", tools=TOOLS)


def unchanged(text: str) -> str:
    return text


async def cancelled_twice(run: "asyncio.Task[Any]", turns: int) -> None:
    """Cancel a run, and once more while it ends, after so many turns of the event loop."""
    run.cancel()
    for _ in range(turns):
        await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

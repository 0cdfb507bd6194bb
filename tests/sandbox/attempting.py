"""Tries to escape, and looks at the host afterwards."""

import os
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from gateway.domain.programs import Program, ProgramResult, ProgramTool, SandboxLimits
from gateway.ports.sandbox import Engine
from gateway.sandbox.monty import monty_engine
from tests.sandbox.escapes import Attempt

SECRET = "canary-7c1d04b8"
TOOLS = (ProgramTool(server="notes", name="echo", input_schema={"type": "object"}),)
LIMITS = SandboxLimits(wall_s=20.0, interpreter_s=0.3, calls=20)
SOON = replace(LIMITS, wall_s=1.5)
"""For those that may end with their time; what ends otherwise does so on a busy machine as well."""
_PLAIN = (dict, list, str, int, float, bool, type(None))


@dataclass
class Seen:
    """A broker that answers with what it got."""

    who: ClassVar[str] = "alice"
    calls: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)

    async def call(self, server: str, tool: str, arguments: Mapping[str, Any], *, seq: int) -> Any:
        self.calls.append((server, tool, arguments))
        return arguments


class Host:
    """What a program would have to reach: a file, a path, a port, an environment, a process."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "secret.txt"
        self.file.write_text(SECRET)
        self.made = folder / "made"
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.setblocking(False)
        self.before = sorted(folder.iterdir())
        self.folder = folder

    def code_of(self, attempt: Attempt) -> str:
        here = {
            "{file}": str(self.file),
            "{made}": str(self.made),
            "{port}": str(self.listening.getsockname()[1]),
            "{pid}": str(os.getpid()),
        }
        return re.sub("|".join(here), lambda found: here[found[0]], attempt.code)

    def reached(self, attempt: Attempt, result: ProgramResult, seen: Seen) -> list[str]:
        """Return what the attempt reached that it must not."""
        told = f"{result.value!r}{result.console}{result.error}{seen.calls!r}"
        if attempt.kind == "floods":
            told = told[:100_000]
        found = ["a secret was told"] if SECRET in told else []
        if self.file.read_text() != SECRET or sorted(self.folder.iterdir()) != self.before:
            found.append("files were changed")
        if self._connected():
            found.append("something connected")
        if os.environ["SANDBOX_CANARY"] != SECRET:
            found.append("the environment was changed")
        if any(call[:2] != ("notes", "echo") for call in seen.calls):
            found.append("another tool was called")
        if not all(_is_plain(call[2]) for call in seen.calls) or not _is_plain(result.value):
            found.append("what came out is not JSON")
        return found

    def _connected(self) -> bool:
        try:
            connection, _ = self.listening.accept()
        except BlockingIOError:
            return False
        connection.close()
        return True


@asynccontextmanager
async def unchecked_engine(folder: Path, limits: SandboxLimits = LIMITS) -> AsyncIterator[Engine]:
    """Start an engine that checks no types: a check would stop most attempts before they begin."""
    async with monty_engine(limits, folder, warm=1, type_check=False) as engine:
        yield engine


async def tried(engine: Any, host: Host, attempt: Attempt, *, may_wait: bool = False) -> list[str]:
    """Make an attempt; return what is wrong with how it ended. Some `may_wait` for ever, no harm done."""
    seen = Seen()
    engine._limits = SOON if may_wait or "timeout" in attempt.ends.split() else LIMITS
    program = Program(code=host.code_of(attempt), tools=TOOLS)
    result = await engine.run(program, seen, redact=str)
    wrong = [] if result.status in attempt.ends.split() else [f"ended {result.status}: {result}"]
    if len(result.calls) > LIMITS.calls or len(seen.calls) > LIMITS.calls:
        wrong.append("made more calls than it may")
    return [
        f"{attempt.kind}, {attempt.name}: {what}"
        for what in (*wrong, *host.reached(attempt, result, seen))
    ]


def _is_plain(value: object) -> bool:
    if type(value) is dict:
        return all(type(name) is str and _is_plain(member) for name, member in value.items())
    if type(value) is list:
        return all(map(_is_plain, value))
    return type(value) in _PLAIN

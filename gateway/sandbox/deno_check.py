"""The types of a program in TypeScript, checked before it runs: by the compiler, in a jail.

The compiler reads what a program refers to, whatever it is. So it is given no program where there
is no jail around it, and each gets a process of its own, which has nothing of another in it.
"""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from gateway.domain.programs import ProgramStatus, SandboxLimits
from gateway.errors import RateLimited
from gateway.processes import ended
from gateway.sandbox import jail
from gateway.sandbox.compiler_errors import PROGRAM, lines_of, listed, mistakes, wrapped
from gateway.sandbox.declarations import typescript
from gateway.sandbox.deno_process import NEEDS, end_inside
from gateway.sandbox.ending import End
from gateway.sandbox.endings import Endings
from gateway.sandbox.names import ToolTable

AT_ONCE: Final = 5
"""Checks at once, of all principals: one more than one of them may run by default."""

_CHECK_S: Final = 20.0
"""For one check, at most; of it ten in which it computes (`jail`)."""
_END_S: Final = 1.0
_HEAP: Final = 256
"""MiB of what the compiler holds. A usual program takes less than half."""
_SAID_BYTES: Final = 128 * 1024
_PIECE: Final = 1 << 14
_CONFIG: Final = "/program/deno.json"
_GLOBALS: Final = "/program/globals.d.ts"
_HERE: Final = Path(__file__).parent
_NEEDS: Final = replace(
    NEEDS,
    shown={_CONFIG: _HERE / "deno_check.json", _GLOBALS: _HERE / "deno_globals.d.ts"},
    text=PROGRAM,
)
_ENGINE: Final = f"--single-threaded,--max-old-space-size={_HEAP},--max-semi-space-size=4"
_WORDS: Final = (
    *("check", "--config", _CONFIG, "--no-lock", "--no-remote", "--no-npm", "--cached-only"),
    *("--quiet", f"--v8-flags={_ENGINE}", _GLOBALS, PROGRAM),
)
_FOUND_SOME: Final = 1
"""The exit status of a compiler that is through, and has something to say."""
_TOO_MUCH: Final = (
    "its types took more than 10 seconds or {} MiB to check: write simpler ones, or `any`"
)
_NOT_CHECKED: Final = "its types could not be checked"


class TypeChecker:
    """Checks programs. Of one event loop."""

    def __init__(self, program: Path, *, wait_s: float) -> None:
        """`program` starts the compiler in its jail. Who finds all taken waits `wait_s`."""
        self._program = program
        self._wait_s = wait_s
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._endings = Endings()

    async def refusal(self, code: str, table: ToolTable) -> End | None:
        """Return how a program ends without being run, unless its types are right.

        Raises:
            RateLimited: Too many are checked at once, or nothing can be started.

        """
        try:
            async with asyncio.timeout(self._wait_s):
                await self._turns.acquire()
        except TimeoutError as error:
            raise RateLimited("too many programs run at once; try again later") from error
        try:
            # Of many tools there is much to write.
            declared = await asyncio.to_thread(typescript, table, code)
            status, said = await self._compiled(wrapped(code, declared))
        finally:
            self._turns.release()
        return _refusal(status, said, code)

    async def aclose(self) -> None:
        """Wait for what is being ended."""
        await self._endings.settled()

    async def _compiled(self, text: str) -> tuple[int | None, str]:
        """Return the exit status of the compiler, `None` if it took too long, and what it said."""
        starting = asyncio.get_running_loop().create_task(_started(self._program))
        try:
            # Nothing of it would be known if it were cancelled half started.
            process = await asyncio.shield(starting)
            async with asyncio.timeout(_CHECK_S):
                return await _told(process, text.encode())
        except TimeoutError:
            return None, ""
        except OSError as error:
            raise RateLimited("no interpreter could be started; try again later") from error
        finally:
            await self._endings.of(_ended(starting))


async def checker_of(folder: Path, interpreter: Path, limits: SandboxLimits) -> TypeChecker | None:
    """Write what starts the compiler into `folder`; return what checks, if a jail is to be had."""
    own = folder / "compiler"
    own.mkdir(mode=0o700)
    built = await jail.build(own, interpreter, memory_bytes=0, interpreter_s=0, needs=_NEEDS)
    return TypeChecker(built.program, wait_s=limits.wall_s) if built.confinement.jailed else None


def _refusal(status: int | None, said: str, code: str) -> End | None:
    if status == 0:
        return None
    if status != _FOUND_SOME:
        return End(status=ProgramStatus.TYPES, error=_TOO_MUCH.format(_HEAP))
    found = mistakes(said, lines_of(code))
    # Where not all was read that it says, it may have found more.
    if found is None or (not found and len(said.encode()) > _SAID_BYTES):
        return End(status=ProgramStatus.TYPES, error=_NOT_CHECKED)
    if not found:
        return None
    syntax = any(one.is_syntax for one in found)
    return End(status=ProgramStatus.SYNTAX if syntax else ProgramStatus.TYPES, error=listed(found))


async def _started(program: Path) -> Process:
    return await asyncio.create_subprocess_exec(
        program,
        *_WORDS,
        stdin=PIPE,
        stdout=DEVNULL,
        stderr=PIPE,
        env={},
        cwd="/",
        start_new_session=True,
    )


async def _told(process: Process, octets: bytes) -> tuple[int, str]:
    if process.stdin is None or process.stderr is None:
        raise ValueError("a compiler is told what to check, and says what it finds")
    with suppress(ConnectionError):
        process.stdin.write(octets)
        await process.stdin.drain()
    process.stdin.close()
    said = b""
    while piece := await process.stderr.read(_PIECE):
        said += piece
        if len(said) > _SAID_BYTES:  # more than anybody reads: it is ended
            return _FOUND_SOME, said.decode(errors="replace")
    return await process.wait(), said.decode(errors="replace")


async def _ended(starting: asyncio.Task[Process]) -> None:
    try:
        process = await starting
    except OSError:
        return  # there is none
    end_inside(process)
    try:
        async with asyncio.timeout(_END_S):
            await process.communicate()
    except TimeoutError:
        await ended(process, group=True)

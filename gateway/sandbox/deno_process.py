"""One process of Deno: started without any permission, watched, and ended with all that it wrote."""

import asyncio
import base64
import json
import os
import shutil
import signal
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.nodes import amount, weight
from gateway.domain.programs import KIBIBYTE, MEBIBYTE, SandboxLimits
from gateway.processes import ended, send_if
from gateway.sandbox import jail
from gateway.sandbox.deno_modules import import_map
from gateway.sandbox.endings import Endings
from gateway.sandbox.jail import Jail, Needs
from gateway.turns import QUICK_NODES, Pace, finished
from gateway.wire import jsontext

_HARNESS: Final = Path(__file__).with_name("deno_harness.js")
_START_S: Final = 20.0
_END_S: Final = 1.0
_TOLD_BYTES: Final = 4096
"""Of what it complains of, the last so many are kept."""
_OWN_BYTES: Final = 960 * MEBIBYTE
"""Of data: with less than some 600 MiB it does not start."""
_SCRATCH_BYTES: Final = 16 * MEBIBYTE
_FRAME_BYTES: Final = 256 * KIBIBYTE
"""Of one line, beside what the limits allow to be in it."""
_LEAST_BYTES: Final = 8 * MEBIBYTE
"""What it has resident at least; where less is seen, something else is watched."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICK: Final = os.sysconf("SC_CLK_TCK")
_SCRATCH: Final = "/own"
_SETTINGS: Final = {"NO_COLOR": "1", "DENO_NO_PROMPT": "1", "DENO_NO_UPDATE_CHECK": "1"}

NEEDS: Final = Needs(
    own_bytes=_OWN_BYTES,
    counted="data",
    # It keeps storage and transpiled programs on disk whatever is denied: in memory, of its own.
    file_bytes=_SCRATCH_BYTES // 2,
    scratch=_SCRATCH,
    scratch_bytes=_SCRATCH_BYTES,
    settings={**_SETTINGS, "DENO_DIR": _SCRATCH},
    # It looks for itself there, and for nothing else: no list of processes is shown to it.
    links={"/proc/self/exe": "/interpreter"},
    is_read=True,
)

_DENIED: Final = ("read", "write", "net", "env", "sys", "run", "ffi", "import")
_FLAGS: Final = (
    *("--no-prompt", "--no-config", "--no-lock", "--no-remote", "--no-npm", "--cached-only"),
    *("--no-code-cache", "--quiet", *(f"--deny-{what}" for what in _DENIED)),
)


class NotStarted(Exception):
    """A process did not come to where it could take a program."""


@value
class Usage:
    """What a process has used so far."""

    cpu_s: float
    resident_bytes: int


async def build(folder: Path, interpreter: Path, limits: SandboxLimits) -> Jail:
    """Write what starts `interpreter` into `folder`, in a jail where there can be one."""
    return await jail.build(
        folder,
        interpreter,
        memory_bytes=limits.memory_bytes,
        interpreter_s=limits.interpreter_s,
        needs=NEEDS,
    )


def words(limits: SandboxLimits) -> tuple[str, ...]:
    """Return the arguments with which Deno runs a program of at most `limits`, and nothing else."""
    heap = max(1, limits.memory_bytes // MEBIBYTE)
    # No machine code is made at run time: slower, but most faults of its engine are in what makes it.
    engine = f"--max-old-space-size={heap},--max-semi-space-size=4,--jitless"
    harness = base64.b64encode(_HARNESS.read_bytes()).decode()
    return (
        *("run", *_FLAGS, f"--import-map={import_map()}", f"--v8-flags={engine}"),
        f"data:text/javascript;base64,{harness}",
    )


class DenoProcess:
    """One process, for one program. Of one event loop."""

    def __init__(self, process: Process, scratch: Path) -> None:
        self._process = process
        self._scratch = scratch
        self._pids: tuple[int, ...] = ()
        self._complaints = b""
        self._listening = asyncio.get_running_loop().create_task(self._listen())
        self._writing = asyncio.Lock()
        self._pace = Pace()

    @classmethod
    async def start(
        cls, program: Path, arguments: tuple[str, ...], most: int, endings: Endings
    ) -> "DenoProcess":
        """Start one, and return it when it waits for its program; a line has `most` bytes at most.

        One that nobody waits for any more is ended among `endings`.

        Raises:
            NotStarted: It did not come so far.

        """
        starting = asyncio.get_running_loop().create_task(_begun(program, arguments, most))
        try:
            # Nothing of it would be known if it were cancelled half started.
            process, scratch = await asyncio.shield(starting)
        except OSError as error:
            raise NotStarted(str(error.strerror)) from error
        except asyncio.CancelledError:
            await endings.of(_ended(starting))
            raise
        started = cls(process, scratch)
        try:
            await started._ready()
        except BaseException:
            await endings.of(started.end())
            raise
        return started

    async def _ready(self) -> None:
        try:
            async with asyncio.timeout(_START_S):
                frame = await self.read("")
        except (TimeoutError, ValueError) as error:
            raise NotStarted("it said nothing sensible") from error
        if frame is None or frame.get("t") != "ready":
            raise NotStarted(self.complaints.strip()[-200:] or "it ended at once")
        self._pids = _descendants(self._process.pid)
        if self.usage().resident_bytes < _LEAST_BYTES:
            raise NotStarted("its memory cannot be watched here")

    @property
    def runs(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    @property
    def complaints(self) -> str:
        """The last of what it complained of. A program can write there as well."""
        return self._complaints.decode(errors="replace")

    async def read(self, who: str) -> Mapping[str, Any] | None:
        """Return the next thing it says, whoever says it; `None` where it has ended.

        What is large is read in the turn of `who`, and others have theirs between much that is here.

        Raises:
            ValueError: It is too long, or not what is spoken here.

        """
        if self._process.stdout is None:
            return None
        if self._pace.is_due:
            await self._pace.turn()
        line = await self._process.stdout.readline()
        if not line:
            return None
        self._pace.hand(len(line))
        return await finished(who, weight(line), _frame, line)

    async def write(self, who: str, frame: dict[str, Any]) -> None:
        """Tell it something, unless it has ended; what is large is written in the turn of `who`."""
        if self._process.stdin is None:
            return
        nodes = amount(frame, QUICK_NODES)
        octets = await finished(who, nodes, jsontext.write_octets, frame) + b"\n"
        with suppress(ConnectionError):
            async with self._writing:
                self._process.stdin.write(octets)
                await self._process.stdin.drain()

    def usage(self) -> Usage:
        """Return what it has used so far."""
        found = [one for pid in self._pids if (one := _used(pid)) is not None]
        return Usage(
            cpu_s=sum(one.cpu_s for one in found),
            resident_bytes=sum(one.resident_bytes for one in found),
        )

    async def settled(self) -> None:
        """Wait until it has said all that it had to complain of."""
        await asyncio.wait([self._listening], timeout=1.0)

    async def end(self) -> None:
        """End it, whatever it does, and leave nothing of what it wrote."""
        end_inside(self._process)
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(_END_S):
                await self._emptied()
        except TimeoutError:
            await ended(self._process, group=True)
        await asyncio.wait([self._listening], timeout=_END_S)
        self._listening.cancel()
        shutil.rmtree(self._scratch, ignore_errors=True)

    async def _emptied(self) -> None:
        # It has not ended for us before all that it said is read, and much of it nobody wanted.
        while self._process.stdout is not None and await self._process.stdout.read(_FRAME_BYTES):
            pass
        await self._process.wait()

    async def _listen(self) -> None:
        if self._process.stderr is None:
            return
        while piece := await self._process.stderr.read(_TOLD_BYTES):
            self._complaints = (self._complaints + piece)[-_TOLD_BYTES:]


def _frame(line: bytes) -> Mapping[str, Any]:
    try:
        frame = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return frame if isinstance(frame, dict) else {}


async def _begun(program: Path, arguments: tuple[str, ...], most: int) -> tuple[Process, Path]:
    scratch = Path(tempfile.mkdtemp(prefix="douane-program-"))
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            # Where there is a jail, none of this reaches into it.
            env={**_SETTINGS, "DENO_DIR": str(scratch)},
            cwd="/",
            start_new_session=True,
            limit=most + _FRAME_BYTES,
        )
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return process, scratch


async def _ended(starting: asyncio.Task[tuple[Process, Path]]) -> None:
    try:
        process, scratch = await starting
    except OSError:
        return  # there is none
    await DenoProcess(process, scratch).end()


def end_inside(process: Process) -> None:
    """End all that a process has started; what only waited for it then ends by itself."""
    # Of one that has ended the number may be another's by now, with children of its own.
    inside = _descendants(process.pid)[1:] if process.returncode is None else ()
    began = {pid: _began(pid) for pid in inside}
    # Whose number is another's since they were found is not inside when that one's beginning is read.
    still = _descendants(process.pid) if inside else ()
    # The innermost first: each is then buried by what started it, and none is left for init.
    for pid in reversed([one for one in inside if one in still]):
        send_if(pid, signal.SIGKILL, partial(_began_at, pid, began[pid]))


def _began_at(pid: int, began: str) -> bool:
    return bool(began) and _began(pid) == began


def _began(pid: int) -> str:
    """Return when a process began, as the kernel counts; empty if it is not there."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _descendants(pid: int) -> tuple[int, ...]:
    children: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            children += map(int, task.read_text().split())
    return (pid, *(one for child in children for one in _descendants(child)))


def _used(pid: int) -> Usage | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        resident = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return Usage(
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICK, resident_bytes=int(resident) * _PAGE
    )

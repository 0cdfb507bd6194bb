"""The jail of an interpreter: no network, no file but its own program, bounds that it cannot lift.

The interpreter has no way to reach any of it; the jail is for the day on which it has a fault.
"""

import asyncio
import os
import shlex
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Final

from gateway.domain._value import value
from gateway.domain.programs import MEBIBYTE
from gateway.ports.sandbox import Confinement
from gateway.processes import said_by

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LIBRARIES: Final = ("/lib", "/lib64")
_INSIDE: Final = "/interpreter"
_OWN_CPU_S: Final = 10
_PROBE_S: Final = 10.0
_TOLD: Final = 200
"""Characters of what a program says that does not work here, at most."""
_NOBODY: Final = "65534"
_TEXT: Final = 3
"""The file by which what is told reaches what builds the walls: it closes the one that it reads."""
_FIRST: Final = "{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null"
"""Where memory runs out, the kernel ends what has most of these points: a program, and not us."""
_STANDARD: Final = 2
"""The last of the files that every process has."""

_WALLS: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"),
    *("--disable-userns", "--cap-drop", "ALL", "--clearenv", "--uid", _NOBODY, "--gid", _NOBODY),
    *("--die-with-parent", "--new-session", "--as-pid-1"),
)
"""Namespaces by name, and none of control groups, nor a name for the machine: what nobody needs here
the shipped systemd unit and the usual filters of containers need not allow."""


@value
class Needs:
    """What one interpreter cannot start without, beyond what each of them has."""

    own_bytes: int = 704 * MEBIBYTE
    """Of memory, for itself and its type checker, beside a program's values."""
    counted: str = "as"
    """Which memory that is, by `prlimit`: address space; or `data`, where it reserves much more."""
    file_bytes: int = 0
    """Of one file that it writes."""
    shown: Mapping[str, Path] = field(default_factory=dict)
    """Files of ours that it reads, by where they are in its jail."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Names in its jail by which it looks for something there."""
    scratch: str = ""
    """A folder of its own, in memory: nothing of it is left when it ends."""
    scratch_bytes: int = 0
    text: str = ""
    """Where it finds what it is told, as a file in memory; nothing is left to be read otherwise."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """All of its environment."""
    is_read: bool = False
    """Whether whoever starts it reads what it complains of; if not, nobody does."""


PLAIN: Final = Needs()


@value
class Jail:
    """How an interpreter is started."""

    program: Path
    """What is started in its place."""
    confinement: Confinement


async def build(
    folder: Path,
    interpreter: Path,
    *,
    memory_bytes: int,
    interpreter_s: float,
    needs: Needs = PLAIN,
) -> Jail:
    """Write what starts `interpreter` in a jail into `folder`, and try it.

    Where no jail is to be had, what bounds memory, time and files of a process is still used if it
    works, and the interpreter is started as it is if not; `confinement` says why.
    """
    bounds = _bounds(memory_bytes, interpreter_s, needs)
    walls = _walls(interpreter, needs)
    missing = [name for name in ("bwrap", "prlimit") if _tool(name) is None]
    if missing:
        reason = f"{' and '.join(missing)} not found; install bubblewrap and util-linux"
    else:
        program = _written(folder / "interpreter-jailed", [*bounds, *walls, _INSIDE], needs)
        said = await _problem(program)
        if not said:
            return Jail(program=program, confinement=Confinement(jailed=True))
        reason = f"bwrap does not work here ({said})"
    bounded = _written(folder / "interpreter-bounded", [*bounds, str(interpreter)], needs)
    program = interpreter if await _problem(bounded) else bounded
    return Jail(program=program, confinement=Confinement(jailed=False, reason=reason))


def keep_files_to_ourselves() -> None:
    """See to it that nothing that is open in this process is open in those that it starts.

    Python opens nothing else. What we were started with may be: sockets, pipes of a shell.
    """
    for name in [int(file.name) for file in Path("/dev/fd").iterdir()]:
        if name > _STANDARD:
            with suppress(OSError):  # the folder itself, which is closed by now
                os.set_inheritable(name, False)


def _bounds(memory_bytes: int, interpreter_s: float, needs: Needs) -> list[str]:
    return [
        _tool("prlimit") or "prlimit",
        f"--{needs.counted}={memory_bytes + needs.own_bytes}",
        f"--cpu={int(interpreter_s) + _OWN_CPU_S}",
        *("--nofile=32", f"--fsize={needs.file_bytes}", "--core=0", "--"),
    ]


def _walls(interpreter: Path, needs: Needs) -> list[str]:
    shown = ["--ro-bind", str(interpreter), _INSIDE]
    for library in _LIBRARIES:
        shown += ["--ro-bind-try", library, library]
    for name, path in needs.shown.items():
        shown += ["--ro-bind", str(path), name]
    if needs.text:
        shown += ["--ro-bind-data", str(_TEXT), needs.text]
    for name, target in needs.links.items():
        shown += ["--symlink", target, name]
    if needs.scratch:
        shown += ["--size", str(needs.scratch_bytes), "--tmpfs", needs.scratch]
    for name, setting in needs.settings.items():
        shown += ["--setenv", name, setting]
    return [_tool("bwrap") or "bwrap", *_WALLS, *shown, "--remount-ro", "/", "--chdir", "/", "--"]


def _written(path: Path, words: list[str], needs: Needs) -> Path:
    """Write a program that starts these words with its own arguments, and return where it is.

    The shell stays, as the parent of what it starts. What starts it may be a thread that ends while
    the interpreter still runs, and `--die-with-parent` means the thread.
    """
    path.unlink(missing_ok=True)
    path.touch(mode=0o700)
    # What an interpreter complains of is not for our log; what the attempt below says is.
    quiet = ":" if needs.is_read else '[ "$1" = --version ] || exec 2>/dev/null'
    told = f" {_TEXT}<&0 </dev/null" if needs.text else ""
    path.write_text(f'#!/bin/sh\n{_FIRST}\n{quiet}\n{shlex.join(words)} "$@"{told}\nexit $?\n')
    return path


async def _problem(program: Path) -> str:
    """Try to start the interpreter with `program`; return what went wrong, or nothing."""
    try:
        process = await asyncio.create_subprocess_exec(
            program, "--version", env={}, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
        )
    except OSError as error:
        return str(error.strerror)
    said = await said_by(process, within_s=_PROBE_S)
    if said is None:
        return f"it did not end within {_PROBE_S:g} s"
    if process.returncode == 0:
        return ""
    return said.decode(errors="replace").strip()[:_TOLD] or f"exit status {process.returncode}"


def _tool(name: str) -> str | None:
    return shutil.which(name, path=_PATH)

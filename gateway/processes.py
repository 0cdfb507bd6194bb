"""Ending a process of ours, whatever it does meanwhile: it may end by itself at any moment.

What it has started may hold its pipes for ever, so nothing here waits for those.
"""

import asyncio
import os
import shutil
import signal
import subprocess
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

_KILLED_S = 10.0
"""A killed process is gone sooner, unless the kernel keeps it: then it is not waited for."""
_LOOK_AGAIN_S = 0.02
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def lifeline() -> tuple[str, ...]:
    """Return the words before a command by which it ends with us, however we end.

    It ends with the thread that starts it, so that is one which lasts. Without util-linux there are
    no such words.
    """
    found = shutil.which("setpriv", path=_PATH)
    return () if found is None else (found, "--pdeathsig", "KILL", "--")


def send(process: Process, number: signal.Signals, *, group: bool = False) -> None:
    """Send a signal to a process, or to all of the group that it began; nobody there is no error."""
    # asyncio's own says that a process is not there, and reads that anew between looking and acting.
    with suppress(ProcessLookupError, PermissionError):
        if group:
            os.killpg(process.pid, number)
        elif process.returncode is None:
            process.send_signal(number)


def send_if(pid: int, number: signal.Signals, is_meant: Callable[[], bool]) -> None:
    """Send a signal to `pid`, a process that is no child of ours, if it is still the one that is meant.

    Nobody keeps its number for us: it may have ended since it was found, and be another's by now. A
    handle stays that of one process, so it is taken first.
    """
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if is_meant():
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


async def ended(process: Process | None, *, grace_s: float = 0.0, group: bool = False) -> None:
    """Return once `process` is gone and buried: asked first if it has `grace_s`, then killed.

    A process that has ended, or was never started, is no error. With `group` all of the group that
    it began is killed in the end, also what outlived it. Whoever is cancelled here has killed it.
    """
    if process is None:
        return
    try:
        if grace_s:
            send(process, signal.SIGTERM, group=group)
            await _gone(process, grace_s)
    finally:
        if process.returncode is None:
            send(process, signal.SIGKILL)
        if group:
            send(process, signal.SIGKILL, group=True)
    await _gone(process, _KILLED_S)
    _let_go(process)


async def said_by(process: Process, *, within_s: float) -> bytes | None:
    """Return what `process` said on stderr up to its end; nothing if it took longer, and is ended."""
    try:
        async with asyncio.timeout(within_s):
            _, said = await process.communicate()
            return said
    except TimeoutError:
        return None
    finally:
        await ended(process)


class Waited(Protocol):
    """What is used of a `subprocess.Popen`."""

    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    def wait(self, timeout: float | None = None) -> int: ...


def end_now(process: Waited | None, *, grace_s: float = 0.0) -> None:
    """Do the same in a thread that may wait."""
    if process is None:
        return
    if grace_s:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILLED_S)


async def _gone(process: Process, within_s: float) -> None:
    """Return once it is gone, or that long has passed."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    waiting = asyncio.ensure_future(process.wait())
    try:
        # That wait is for its pipes as well; whether it has ended is known before.
        while process.returncode is None and loop.time() < until:
            await asyncio.wait([waiting], timeout=_LOOK_AGAIN_S)
    finally:
        waiting.cancel()


def _let_go(process: Process) -> None:
    """Close its pipes, which may be in the hands of whoever got away."""
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - there is no other way

"""A process is ended whatever it does meanwhile."""

import asyncio
import os
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path

import pytest

from gateway import processes
from gateway.processes import end_now, ended, said_by, send, send_if
from gateway.sandbox import deno_process

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
"""Hears no SIGTERM, and says when it does not."""
SLEEPS = "import time; print(1, flush=True); time.sleep(600)"
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {SLEEPS!r}])
print(child.pid, flush=True)
"""
"""Ends at once; what it started holds its pipes and goes on."""


async def started(program: str, *, group: bool = False) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=PIPE, stderr=PIPE, start_new_session=group
    )


async def said_first(process: Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


def is_there(pid: int) -> bool:
    """Whether a process runs: who is dead and waits to be buried does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.parametrize("is_meant", [True, False])
async def test_only_the_process_that_is_meant_is_sent_a_signal(is_meant: bool) -> None:
    process = await started(SLEEPS)
    await said_first(process)
    send_if(process.pid, signal.SIGTERM, lambda: is_meant)
    if not is_meant:
        assert process.returncode is None
        send(process, signal.SIGKILL)
    assert await process.wait() == -(signal.SIGTERM if is_meant else signal.SIGKILL)


def test_a_process_that_is_not_there_is_sent_nothing() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    send_if(gone.pid, signal.SIGKILL, lambda: True)


@pytest.mark.parametrize("when", ["before its beginning was read", "after it"])
async def test_whoever_has_the_number_of_what_ended_inside_lives_on(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer, other = await started(SLEEPS), await started(SLEEPS)
    await asyncio.gather(said_first(outer), said_first(other))
    gone = when.startswith("before")
    found = iter([(outer.pid, other.pid), (outer.pid, *([] if gone else [other.pid]))])
    monkeypatch.setattr(deno_process, "_descendants", lambda pid: next(found))
    real, earlier = deno_process._began, iter([] if gone else ["an earlier one's"])
    monkeypatch.setattr(deno_process, "_began", lambda pid: next(earlier, None) or real(pid))
    deno_process.end_inside(outer)
    for one in (outer, other):
        send(one, signal.SIGTERM)
        assert await one.wait() == -signal.SIGTERM  # no other signal was before


async def test_what_was_never_started_has_ended() -> None:
    await ended(None, grace_s=1)
    end_now(None, grace_s=1)


@pytest.mark.parametrize("grace_s", [0.0, 60.0])
@pytest.mark.parametrize("group", [False, True])
async def test_what_has_ended_is_no_error(grace_s: float, group: bool) -> None:
    process = await started("", group=group)
    assert await process.wait() == 0
    await ended(process, grace_s=grace_s, group=group)
    await ended(process, grace_s=grace_s, group=group)
    assert process.returncode == 0


@pytest.mark.parametrize("grace_s", [0.0, 60.0])
async def test_what_ends_just_before_the_signal_is_no_error(
    grace_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await started(SLEEPS)
    await said_first(process)
    send_signal = process.send_signal

    def too_late(number: int) -> None:
        send_signal(signal.SIGKILL)
        raise ProcessLookupError

    monkeypatch.setattr(process, "send_signal", too_late)
    await ended(process, grace_s=grace_s)
    assert process.returncode == -signal.SIGKILL


async def test_what_hears_is_asked_and_not_killed() -> None:
    process = await started(SLEEPS)
    await said_first(process)
    await ended(process, grace_s=60)
    assert process.returncode == -signal.SIGTERM


async def test_what_does_not_hear_is_killed() -> None:
    process = await started(DEAF)
    await said_first(process)
    await ended(process, grace_s=0.05)
    assert process.returncode == -signal.SIGKILL


async def test_pipes_in_others_hands_are_not_waited_for() -> None:
    process = await started(PARENT, group=True)
    grandchild = int(await said_first(process))
    try:
        async with asyncio.timeout(60):
            while process.returncode is None:
                await asyncio.sleep(0)
            await ended(process, grace_s=600)
        assert process.returncode == 0
        assert is_there(grandchild)
    finally:
        send(process, signal.SIGKILL, group=True)


async def test_a_group_ends_with_what_began_it() -> None:
    process = await started(PARENT, group=True)
    grandchild = int(await said_first(process))
    await ended(process, group=True)
    async with asyncio.timeout(60):
        while is_there(grandchild):
            await asyncio.sleep(0)
    assert process.returncode is not None


async def test_whoever_does_not_wait_has_killed_it() -> None:
    process = await started(DEAF)
    await said_first(process)
    ending = asyncio.create_task(ended(process, grace_s=600))
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait([ending])
    assert await process.wait() == -signal.SIGKILL


async def test_a_probe_that_ends_as_its_time_runs_out_is_only_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = await started(SLEEPS)
    await said_first(process)

    def gone(_: int) -> None:
        os.kill(process.pid, signal.SIGKILL)
        raise ProcessLookupError

    monkeypatch.setattr(process, "send_signal", gone)
    assert await said_by(process, within_s=0.01) is None
    assert process.returncode is not None


async def test_what_a_probe_says_is_heard_to_its_end() -> None:
    process = await started("import sys; sys.stderr.write('no')")
    assert (await said_by(process, within_s=60), process.returncode) == (b"no", 0)


@pytest.mark.parametrize(
    ("program", "grace_s", "number"),
    [(SLEEPS, 60.0, signal.SIGTERM), (DEAF, 0.05, signal.SIGKILL), (SLEEPS, 0.0, signal.SIGKILL)],
)
def test_a_thread_that_waits_ends_it_the_same_way(
    program: str, grace_s: float, number: signal.Signals
) -> None:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        end_now(process, grace_s=grace_s)
        end_now(process, grace_s=grace_s)
        assert process.returncode == -number


def test_nothing_else_ends_processes() -> None:
    """`send`, `send_if`, `ended` and `end_now` are where it is done."""
    known = {"gateway/processes.py"}
    root = Path(processes.__file__).parent.parent
    words = (".kill(", ".terminate(", "killpg(", ".send_signal(", "pidfd_send_signal(")
    found = {
        str(path.relative_to(root))
        for path in (root / "gateway").rglob("*.py")
        if any(word in path.read_text() for word in words)
    }
    assert found == known

"""The jail of an interpreter, with a shell in the interpreter's place."""

import asyncio
import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from gateway.domain.programs import SandboxLimits
from gateway.errors import ConfigError
from gateway.ports.sandbox import Confinement
from gateway.sandbox import jail
from gateway.sandbox.jail import Jail
from gateway.sandbox.monty import monty_engine
from tests.sandbox.brokers import Scripted, program, unchanged
from tests.sandbox.test_programs import children_of

BASH = Path("/bin/bash")
_WAITS_S = 20


async def built(folder: Path, interpreter: Path = BASH) -> Jail:
    made = await jail.build(folder, interpreter, memory_bytes=64 * 1024 * 1024, interpreter_s=5.0)
    if interpreter is BASH and not made.confinement.jailed:
        pytest.skip(f"no jail here: {made.confinement.reason}")
    return made


async def said(made: Jail, script: str, **environment: str) -> str:
    process = await asyncio.create_subprocess_exec(
        made.program,
        *("-c", script),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return out.decode()


async def test_it_shows_the_interpreter_its_libraries_and_nothing_else(tmp_path: Path) -> None:
    made = await built(tmp_path)
    names = {"/interpreter", *(name for name in ("/lib", "/lib64") if Path(name).exists())}
    assert set((await said(made, "echo /*")).split()) == names
    secret = tmp_path / "secret"
    secret.write_text("canary")
    tried = f"echo $(<{secret}); echo $(</etc/passwd); echo x > /made; echo x > /lib/made"
    assert "canary" not in await said(made, tried)
    assert "root:" not in await said(made, tried)
    assert not Path("/lib/made").exists()


async def test_it_has_no_network_not_even_loopback(tmp_path: Path) -> None:
    made = await built(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        port = listening.getsockname()[1]
        told = await said(made, f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")
        assert "connected" not in told
        with pytest.raises(BlockingIOError):
            listening.accept()


async def test_it_has_no_environment_and_sees_no_process(
    tmp_path: Path,
) -> None:
    made = await built(tmp_path)
    assert "canary" not in await said(made, "export -p", SANDBOX_CANARY="canary")
    assert await said(made, "echo $$ $UID") == "1 65534\n"
    assert "killed" not in await said(made, f"kill -0 {os.getpid()} && echo killed")


async def test_its_bounds_are_the_limits(tmp_path: Path) -> None:
    made = await built(tmp_path)
    told = await said(made, "ulimit -v; ulimit -t; ulimit -n; ulimit -f; ulimit -c")
    assert told.split() == [str((64 + 704) * 1024), "15", "32", "0", "0"]


async def test_where_memory_runs_out_it_ends_before_the_gateway_does(tmp_path: Path) -> None:
    made = await built(tmp_path)
    process = await asyncio.create_subprocess_exec(
        made.program,
        *("-c", "echo begun; while read line; do :; done"),
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"begun\n"
    inside = children_of(process.pid)
    points = [Path(f"/proc/{pid}/oom_score_adj").read_text() for pid in inside]
    assert points == ["1000\n"] * len(inside) != []
    await process.communicate(b"")


async def test_it_ends_with_what_started_it(tmp_path: Path) -> None:
    made = await built(tmp_path)
    process = await asyncio.create_subprocess_exec(
        made.program,
        *("-c", "echo begun; while read line; do :; done"),
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"begun\n"
    process.kill()
    async with asyncio.timeout(_WAITS_S):
        assert await process.stdout.read() == b""  # nobody holds the other end any more
    await process.communicate()


async def test_it_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    made = await built(tmp_path)
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        argv = [str(made.program), "-c", "echo begun; read line; echo $line"]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(argv, env={}, stdin=pipe, stdout=pipe))
        assert started[0].stdout is not None
        assert started[0].stdout.readline() == b"begun\n"

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    out, _ = await asyncio.to_thread(started[0].communicate, b"alive\n")
    assert out == b"alive\n"


async def test_where_none_is_to_be_had_it_says_so_and_bounds_what_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "prlimit").symlink_to(shutil.which("prlimit") or "/usr/bin/prlimit")
    monkeypatch.setattr(jail, "_PATH", str(tools))
    made = await jail.build(tmp_path, BASH, memory_bytes=64 * 1024 * 1024, interpreter_s=5.0)
    assert made.confinement == Confinement(
        jailed=False, reason="bwrap not found; install bubblewrap and util-linux"
    )
    assert (await said(made, "ulimit -n")).split() == ["32"]


async def test_a_jail_that_does_not_work_is_found_out_by_trying(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bwrap", "prlimit"):
        (tools / name).write_text("#!/bin/sh\necho not permitted >&2\nexit 1\n")
        (tools / name).chmod(0o700)
    monkeypatch.setattr(jail, "_PATH", str(tools))
    made = await jail.build(tmp_path, BASH, memory_bytes=64 * 1024 * 1024, interpreter_s=5.0)
    assert made == Jail(
        program=BASH,
        confinement=Confinement(jailed=False, reason="bwrap does not work here (not permitted)"),
    )


async def test_an_engine_says_how_its_processes_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jail, "_PATH", str(tmp_path))
    async with monty_engine(SandboxLimits(), tmp_path, warm=1) as engine:
        assert engine.language == "python"
        assert engine.confinement == Confinement(
            jailed=False, reason="bwrap and prlimit not found; install bubblewrap and util-linux"
        )
        result = await engine.run(program("1"), Scripted(), redact=unchanged)
    assert result.value == 1
    assert list(tmp_path.iterdir()) == []


async def test_without_the_interpreter_no_engine_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.sandbox.monty.sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="the interpreter `monty` is not installed"):
        async with monty_engine(SandboxLimits(), tmp_path):
            pass

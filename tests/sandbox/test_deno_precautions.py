"""What holds a process of Deno besides its permissions."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.programs import Program, SandboxLimits
from gateway.errors import ConfigError
from gateway.sandbox import deno_process
from gateway.sandbox.deno import deno_engine, installed
from gateway.sandbox.deno_modules import NODE_MODULES
from gateway.sandbox.deno_process import build, words
from tests.sandbox.brokers import TOOLS, Scripted, unchanged
from tests.sandbox.deno_variants import with_all_names, without_jail
from tests.sandbox.test_programs import children_of

LIMITS = SandboxLimits(wall_s=10.0, interpreter_s=2.0)
BASH = Path("/bin/bash")


async def watched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, runs: int = 1
) -> list[dict[str, Any]]:
    """Run programs outside of a jail, and return what their processes were like meanwhile."""
    without_jail(monkeypatch, folder)
    seen: list[dict[str, Any]] = []
    others = children_of(os.getpid())

    async def looks(_: str, __: Mapping[str, Any], ___: int) -> Any:
        for process in (Path(f"/proc/{one}") for one in children_of(os.getpid()) - others):
            if (process / "comm").read_text().strip() == "deno":
                environment = (process / "environ").read_text().split("\0")
                seen.append(
                    {
                        "pid": int(process.name),
                        "limits": (process / "limits").read_text(),
                        "environment": dict(one.split("=", 1) for one in environment if one),
                        "command": (process / "cmdline").read_text().split("\0"),
                        "files": {file.name for file in (process / "fd").iterdir()},
                        "folder": str((process / "cwd").readlink()),
                    }
                )

    async with deno_engine(LIMITS, folder, warm=0, type_check=False) as engine:
        for _ in range(runs):
            program = Program(code="await tools.git.list()", tools=TOOLS)
            await engine.run(program, Scripted(looks), redact=unchanged)
    return seen


async def test_it_is_started_without_any_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (seen,) = await watched(tmp_path, monkeypatch)
    flags = set(seen["command"])
    denied = {
        f"--deny-{what}" for what in ["read", "write", "net", "env", "sys", "run", "ffi", "import"]
    }
    assert denied | {"--no-prompt", "--no-remote", "--no-npm", "--cached-only"} <= flags
    assert not [flag for flag in flags if flag.startswith("--allow") or flag == "-A"]
    assert any("--jitless" in flag for flag in flags)


async def test_its_environment_is_its_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_CANARY", "canary")
    (seen,) = await watched(tmp_path, monkeypatch)
    # The shell that starts it sets the last three.
    shell = {"PWD", "SHLVL", "_", "OLDPWD"}
    assert set(seen["environment"]) - shell == {
        *("DENO_DIR", "DENO_NO_PROMPT", "DENO_NO_UPDATE_CHECK", "NO_COLOR")
    }
    assert "canary" not in str(seen["environment"])
    assert seen["folder"] == "/"


async def test_its_bounds_hold_where_there_is_no_jail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (seen,) = await watched(tmp_path, monkeypatch)
    limits = {line[:25].strip(): line[25:].split()[0] for line in seen["limits"].splitlines()}
    assert limits["Max data size"] == str(1024 * 1024 * 1024)
    assert limits["Max cpu time"] == "12"
    assert limits["Max file size"] == str(8 * 1024 * 1024)
    assert limits["Max core file size"] == "0"
    assert limits["Max open files"] == "32"


async def test_each_program_in_typescript_has_a_process_and_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first, second = await watched(tmp_path, monkeypatch, runs=2)
    assert first["pid"] != second["pid"]
    assert first["environment"]["DENO_DIR"] != second["environment"]["DENO_DIR"]
    assert not Path(f"/proc/{first['pid']}").exists()
    assert not Path(f"/proc/{second['pid']}").exists()
    assert list(tmp_path.glob("douane-program-*")) == []
    assert list(tmp_path.glob("sandbox-*")) == []


async def test_in_its_jail_it_has_a_folder_in_memory_and_nothing_else(tmp_path: Path) -> None:
    made = await build(tmp_path, BASH, LIMITS)
    assert made.confinement.jailed, made.confinement.reason
    process = await asyncio.create_subprocess_exec(
        made.program,
        *("-c", "echo /* /proc/* /proc/self/*; echo x > /own/x && echo written; export -p"),
        *(),
        env={"SANDBOX_CANARY": "canary"},
        stdout=subprocess.PIPE,
    )
    out, _ = await process.communicate()
    shown, *rest = out.decode().splitlines()
    libraries = {name for name in ("/lib", "/lib64") if Path(name).exists()}
    assert set(shown.split()) == {
        *libraries,
        *("/interpreter", "/own", "/proc", "/proc/self", "/proc/self/exe"),
    }
    assert rest[0] == "written"
    assert "canary" not in out.decode()
    assert 'DENO_DIR="/own"' in out.decode()


async def test_modules_that_deno_brings_are_all_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_jail(monkeypatch, tmp_path)
    with monkeypatch.context() as left_in:
        with_all_names(left_in, tmp_path)
        async with deno_engine(LIMITS, tmp_path, type_check=False) as engine:
            code = 'return (await import("node:module")).builtinModules'
            listed = await engine.run(Program(code=code, tools=TOOLS), Scripted(), redact=str)
    known = {name.removeprefix("node:") for name in listed.value}
    assert len(known) > 50
    assert known <= set(NODE_MODULES)
    async with deno_engine(LIMITS, tmp_path, type_check=False) as engine:
        code = (
            f"const found = []; for (const name of {sorted(known)}) for (const one of [name, `node:${{name}}`])\n"
            "  try { await import(one); found.push(one) } catch (e) {\n"
            "    if (!e.message.includes('gone:module')) found.push(e.message) }\nreturn found"
        )
        result = await engine.run(Program(code=code, tools=TOOLS), Scripted(), redact=str)
    assert result.value == []


async def test_names_that_are_not_of_the_language_are_taken_away(tmp_path: Path) -> None:
    code = "return [Object.getOwnPropertyNames(globalThis).sort(), URL.createObjectURL ?? null]"
    async with deno_engine(LIMITS, tmp_path, type_check=False) as engine:
        result = await engine.run(Program(code=code, tools=TOOLS), Scripted(), redact=str)
    names, of_url = result.value
    gone = [
        "Deno",
        "Worker",
        "fetch",
        "navigator",
        "caches",
        "localStorage",
        "sessionStorage",
        "process",
        "Buffer",
        "global",
        "WebSocket",
        "EventSource",
        "BroadcastChannel",
        "MessageChannel",
        "SharedArrayBuffer",
        "WebAssembly",
        "Blob",
        "File",
        "Request",
        "Response",
        "prompt",
        "alert",
        "confirm",
        "close",
        "location",
        "self",
        "name",
        "GPU",
        "Cache",
        "Storage",
    ]
    assert [name for name in gone if name in names] == []
    assert {"tools", "console", "ToolError", "setTimeout", "URL", "structuredClone"} <= set(names)
    assert of_url is None


async def test_what_cannot_be_watched_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deno_process, "_descendants", lambda pid: (pid,))
    with pytest.raises(ConfigError, match="its memory cannot be watched here"):
        async with deno_engine(LIMITS, tmp_path, type_check=False):
            pass


async def test_a_process_that_ended_while_it_waited_is_not_used(tmp_path: Path) -> None:
    async with deno_engine(LIMITS, tmp_path, warm=1, type_check=False) as engine:
        (waits,) = engine._processes._ready
        os.killpg(waits._process.pid, 9)
        await waits._process.wait()
        result = await engine.run(Program(code="return 1", tools=TOOLS), Scripted(), redact=str)
    assert result.value == 1


def test_values_have_the_memory_that_the_limits_say() -> None:
    flags = next(one for one in words(SandboxLimits()) if one.startswith("--v8-flags="))
    assert "--max-old-space-size=64," in flags
    assert installed() is not None

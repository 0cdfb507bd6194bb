"""Engines for TypeScript with some of their walls taken down, to see what the others hold."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.domain.programs import SandboxLimits
from gateway.sandbox import deno_process, jail
from gateway.sandbox.deno import DenoEngine, deno_engine
from tests.sandbox.attempting import LIMITS, SECRET

LOOP = "for (const name of Object.getOwnPropertyNames(globalThis)) {"
"""Of the harness: where names are taken away from programs."""
CONSOLE = "globalThis.console = Object.freeze(console);"
URLS = (("delete URL.createObjectURL;", ""), ("delete URL.revokeObjectURL;", ""))


@asynccontextmanager
async def typescript_engine(
    folder: Path, limits: SandboxLimits = LIMITS
) -> AsyncIterator[DenoEngine]:
    async with deno_engine(limits, folder, type_check=False) as engine:
        yield engine


def without_jail(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    tools = folder / "tools"
    tools.mkdir()
    (tools / "prlimit").symlink_to(shutil.which("prlimit") or "/usr/bin/prlimit")
    monkeypatch.setattr(jail, "_PATH", str(tools))


def with_all_names(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Leave every name and every module of Deno's there for programs."""
    text = deno_process._HARNESS.read_text()
    for taken, left in ((LOOP, "for (const name of []) {"), (CONSOLE, ""), *URLS):
        assert taken in text
        text = text.replace(taken, left)
    harness = folder / "harness.js"
    harness.write_text(text)
    monkeypatch.setattr(deno_process, "_HARNESS", harness)
    monkeypatch.setattr(deno_process, "import_map", lambda: "data:application/json,{}")


def with_all_permissions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow everything, and show it the canary of our environment."""
    monkeypatch.setattr(deno_process, "_FLAGS", ("--quiet", "--no-config", "--no-lock", "-A"))
    settings = {**deno_process._SETTINGS, "SANDBOX_CANARY": SECRET}
    monkeypatch.setattr(deno_process, "_SETTINGS", settings)

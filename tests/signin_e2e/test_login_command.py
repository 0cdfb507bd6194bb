"""`douane login`: the command line signs its person in, in a browser here or on another machine."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.running import DOUANE
from tests.servers.process import ROOT
from tests.signin_e2e.browser import Person
from tests.signin_e2e.house import House


@asynccontextmanager
async def douane(
    house: House, home: Path, *arguments: str
) -> "AsyncIterator[asyncio.subprocess.Process]":
    environment: Mapping[str, str] = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONUNBUFFERED": "1",
    }
    process = await asyncio.create_subprocess_exec(
        *(DOUANE, "--config", str(house.running.config), *arguments),
        cwd=ROOT,
        env=dict(environment),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def line_with(process: asyncio.subprocess.Process, pattern: str) -> "re.Match[str]":
    """Return the next match in what the command prints."""
    assert process.stdout is not None
    printed = []
    async for line in process.stdout:
        printed.append(line.decode())
        if found := re.search(pattern, printed[-1]):
            return found
    raise AssertionError("".join(printed))


async def who_am_i(house: House, home: Path) -> Mapping[str, object]:
    async with douane(house, home, "whoami", "--json") as process:
        printed, _ = await process.communicate()
    assert process.returncode == 0, printed
    found: Mapping[str, object] = json.loads(printed)
    return found


async def test_it_signs_in_with_the_browser_of_this_machine(
    gateway: House, emma: Person, tmp_path: Path
) -> None:
    async with douane(gateway, tmp_path, "login") as process:
        link = await line_with(process, r"http://\S+")
        await emma.follow(link[0])
        await line_with(process, "signed in at")
        assert await process.wait() == 0
    assert emma.clicks == ["sign in", "approve"]
    assert (await who_am_i(gateway, tmp_path))["name"] == "user:emma"


async def test_it_signs_in_with_a_browser_of_another_machine(
    gateway: House, emma: Person, tmp_path: Path
) -> None:
    async with douane(gateway, tmp_path, "login", "--device") as process:
        told = await line_with(process, r"open (\S+) and type (\S+)")
        said = await emma.go_through(told[1], code=told[2])
        assert emma.clicks == ["sign in", "type the code", "approve"], said
        await line_with(process, "signed in at")
        assert await process.wait() == 0
    assert (await who_am_i(gateway, tmp_path))["name"] == "user:emma"


async def test_who_refuses_a_device_keeps_it_out(
    gateway: House, emma: Person, tmp_path: Path
) -> None:
    emma.answer = "deny"
    async with douane(gateway, tmp_path, "login", "--device") as process:
        told = await line_with(process, r"open (\S+) and type (\S+)")
        await emma.go_through(told[1], code=told[2])
        await line_with(process, "not signed in")
        assert await process.wait() == 1

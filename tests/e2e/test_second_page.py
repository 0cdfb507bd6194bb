"""The README's commands for one endpoint in front of five servers, run as they are written."""

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.stage import stage
from tests.docs.pages import blocks
from tests.e2e.own import until
from tests.running import ALL, Running
from tests.servers.process import ROOT

GIT = ("--server", "git")
"""It takes longest to start, and once for each family of revisions."""
PROGRAMS = (".venv/bin/douane", ".venv/bin/python", "for server in ")


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("five")
    with stage(folder, policies=ROOT / "policies", with_files=True) as built:
        built.gateway.client(ALL)
        until(
            lambda: len({row["profile"] for row in built.gateway.rows("pins", "list", *GIT)}) == 2
        )
        yield built.gateway


def commands() -> list[str]:
    """Return the section's commands; a line that ends in a backslash goes on in the next one."""
    (block,) = (text for text in blocks(ROOT / "README.md", "sh") if "demo.client all" in text)
    return block.replace("\\\n", " ").splitlines()


def run(command: str, gateway: Running) -> str:
    """Run a command in a shell, with another folder than `var/demo`; return what it prints."""
    there = command.replace("var/demo", shlex.quote(str(gateway.folder)))
    done = subprocess.run(
        ["bash", "-ec", there],  # a loop ends well only if all in it does
        cwd=ROOT,
        env={**os.environ, "DOUANE_DEMO": str(gateway.folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_are_five_commands() -> None:
    assert len(commands()) == 5
    assert [one for one in commands() if not one.startswith(PROGRAMS)] == []


def test_they_do_what_the_page_says(five: Running) -> None:
    approve, search, details, call, look = commands()
    assert run(approve, five) == ""
    servers = {"everything", "notes", "tickets", "filesystem", "git"}
    approved = five.rows("pins", "list", "--status", "approved")
    assert {row["server"] for row in approved} == servers
    assert five.rows("pins", "list", "--status", "pending") == []
    found = json.loads(run(search, five))["servers"]
    told = json.loads(run(details, five))
    names = [one["definition"]["name"] for one in told["tools"]]
    assert (names, told["unknown"]) == (["notes__read_note"], [])
    assert set(names) <= {one["name"] for one in found["notes"]}
    assert run(call, five).strip() == "This is your first note."
    assert "read_note" in run(look, five)


def test_the_program_that_starts_them_starts_these_five() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "python -m tests.demo.run --all" in makefile
    assert Path(ROOT / "tests/demo/run.py").read_text().count("with_files=everything") == 1

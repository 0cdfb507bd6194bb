"""The README's commands for one endpoint in front of six servers, run as they are written."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.demo.stage import stage
from tests.docs import pages
from tests.docs.pages import blocks
from tests.e2e.own import until
from tests.running import ALL, Running
from tests.servers.process import ROOT

GIT = ("--server", "git")
"""It takes longest to start, and once for each family of revisions."""
PROGRAMS = (".venv/bin/douane", ".venv/bin/python", "for server in ")


ALL_SIX = ("everything", "notes", "tickets", "filesystem", "git", "builds")
QUICK = ("notes",)
"""Each is approved by a command of its own."""


@dataclass(frozen=True)
class Site:
    """A gateway in front of these servers, which have shown what they have."""

    gateway: Running
    servers: tuple[str, ...]


@pytest.fixture(
    scope="module", params=[QUICK, pytest.param(ALL_SIX, marks=pytest.mark.full)], ids=len
)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    servers = request.param
    files = "git" in servers
    with stage(
        folder, policies=ROOT / "policies", with_files=files, with_tickets=not files
    ) as built:
        built.gateway.client(ALL)
        until(
            lambda: (
                not files
                or len({row["profile"] for row in built.gateway.rows("pins", "list", *GIT)}) == 2
            )
        )
        yield Site(built.gateway, servers)


def commands() -> list[str]:
    """Return the section's commands; a line that ends in a backslash goes on in the next one."""
    (block,) = (text for text in blocks(ROOT / "README.md", "sh") if "demo.client all" in text)
    return block.replace("\\\n", " ").splitlines()


def run(command: str, site: Site) -> str:
    """Run a command in a shell, with another folder than `var/demo`; return what it prints."""
    there = command.replace("var/demo", shlex.quote(str(site.gateway.folder)))
    there = there.replace(" ".join(ALL_SIX), " ".join(site.servers))
    done = pages.run(there, folder=site.gateway.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_are_five_commands() -> None:
    assert len(commands()) == 5
    assert f"for server in {' '.join(ALL_SIX)}; do" in commands()[0]
    assert [one for one in commands() if not one.startswith(PROGRAMS)] == []


def test_they_do_what_the_page_says(site: Site) -> None:
    approve, search, details, call, look = commands()
    assert run(approve, site) == ""
    approved = site.gateway.rows("pins", "list", "--status", "approved")
    assert {row["server"] for row in approved} == set(site.servers)
    pending = site.gateway.rows("pins", "list", "--status", "pending")
    assert not {row["server"] for row in pending} & set(site.servers)
    found = json.loads(run(search, site))["servers"]
    told = json.loads(run(details, site))
    names = [one["definition"]["name"] for one in told["tools"]]
    assert (names, told["unknown"]) == (["notes__read_note"], [])
    assert set(names) <= {one["name"] for one in found["notes"]}
    assert run(call, site).strip() == "This is your first note."
    assert "read_note" in run(look, site)


def test_the_program_that_starts_them_starts_these_six() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "python -m tests.demo.run --all" in makefile
    assert Path(ROOT / "tests/demo/run.py").read_text().count("with_files=given.all") == 1


def test_of_two_calls_for_the_desk_one_is_refused_and_one_waits_for_a_person(site: Site) -> None:
    (block,) = (text for text in blocks(ROOT / "README.md", "sh") if "send_note" in text)
    site.gateway.client("notes")
    if site.gateway.rows("pins", "list", "--server", "notes", "--status", "pending"):
        site.gateway.approve_all("notes")
    refused, held = block.replace("\\\n", " ").splitlines()
    assert "something of class api_key that may not go there" in run(refused, site)
    assert "a person must allow this call first" in run(held, site)
    (question,) = site.gateway.rows("approvals", "list")
    assert (question["name"], question["codes"]) == ("send_note", ["sensitive_data"])

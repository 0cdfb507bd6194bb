"""`douane discovery`: a core that the configuration takes as it is, and what lists cost."""

import asyncio
from pathlib import Path

import pytest
import yaml

from gateway.cli.discovery import fragment
from gateway.config import parse
from tests.admin.test_discovery_desk import TOOLS, used
from tests.admin.world import opened
from tests.cli.world import CONFIG, Site


@pytest.fixture
def used_site(site: Site) -> Site:
    async def use() -> None:
        async with opened(site.data_dir, seen=TOOLS) as (_, store):
            await used(store)

    site.data_dir.mkdir(mode=0o700, exist_ok=True)
    asyncio.run(use())
    return site


def test_the_configuration_takes_the_suggestion_as_it_is(used_site: Site) -> None:
    text = used_site.run("discovery", "core", "--suggest").stdout
    assert parse(CONFIG + text, file=Path("douane.yaml")).discovery.core == (
        "mail__search",
        "mail__send",
    )
    assert text.splitlines() == [
        "# 2 tools had 90 % of all calls since 30d (9).",
        "# They cost about 26 tokens.",
        "discovery:",
        "  core:",
        "    - mail__search  # 6 calls, 60.0 %",
        "    - mail__send  # 3 calls, 30.0 %",
    ]


def test_a_name_that_yaml_would_read_as_something_else_is_quoted() -> None:
    row = {"name": "1__2", "calls": 1, "share": 100.0, "tokens": 5}
    lines = "\n".join(fragment([row], "1d"))
    assert yaml.safe_load(lines) == {"discovery": {"core": ["1__2"]}}


def test_how_much_is_covered_and_how_many_there_are_can_be_said(used_site: Site) -> None:
    suggest = ("discovery", "core", "--suggest")
    rows = used_site.rows(*suggest, "--cover", "100", "--most", "3", "--since", "2d")
    assert [(row["name"], row["calls"], row["core"]) for row in rows] == [
        ("mail__search", 6, True),
        ("mail__send", 3, False),
        ("mail__list", 1, False),
    ]
    assert len(used_site.rows(*suggest, "--cover", "1")) == 1
    assert used_site.rows(*suggest, "--since", "1h") == []
    told = used_site.run(*suggest, "--since", "1h")
    assert (told.stdout, told.stderr) == ("", "no tool that is approved was called since 1h\n")
    assert used_site.run(*suggest, "--cover", "0").exit_code == 2
    assert used_site.run(*suggest, "--since", "soon").exit_code == 2


def test_the_core_is_listed(used_site: Site) -> None:
    assert used_site.run("discovery", "core").stdout.splitlines() == [
        "NAME          STATUS    TOKENS",
        "mail__search  approved  13",
        "mail__gone    unknown   -",
    ]


def test_what_lists_cost_is_said_by_server_and_for_all(used_site: Site) -> None:
    assert used_site.run("discovery", "tokens").stdout.splitlines() == [
        "SERVER  TOOLS  TOKENS",
        "files   0      0",
        "mail    3      38",
        "all: about 38 tokens",
    ]
    assert used_site.rows("discovery", "tokens") == [
        {"server": "files", "tools": 0, "tokens": 0},
        {"server": "mail", "tools": 3, "tokens": 38},
    ]

"""docs/replicas.md, gone through as it is written: three gateways, of which one is lost, and then another."""

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.demo.client import connected
from tests.demo.replicas import configured, together
from tests.demo.run import first_link
from tests.demo.stage import Together, stage
from tests.docs import pages
from tests.docs.pages import blocks
from tests.e2e.own import soon, until
from tests.postgres import Postgres
from tests.running import fetch_token, rules_in
from tests.servers.process import NGINX, ROOT

PAGE = ROOT / "docs" / "replicas.md"
WELCOME = "This is your first note."
ASKED = "a person must allow this call first"
MANY, FEW = "for number in 1 2 3 4;", "for number in 1;"

needs_nginx = pytest.mark.skipif(not NGINX, reason="nginx is not installed")
pytestmark = needs_nginx


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Together]:
    folder = tmp_path_factory.mktemp("replicas")
    gateway = partial(together, number=3, address=postgres.fresh())
    policies = rules_in(folder / "policies")
    with stage(folder, policies=policies, gateway=gateway) as built:
        assert isinstance(built.gateway, Together)
        built.gateway.client("notes")
        yield built.gateway


def run(block: str, site: Together) -> str:
    """Run the commands of a block in a shell, with another folder; return what they print."""
    there = block.replace("var/replicas", str(site.folder)).replace(MANY, FEW)
    done = pages.run(there, folder=site.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def carriers(site: Together) -> list[str]:
    """Return which gateway has carried each message of a client's, the newest last."""
    told = [line.split('"')[0].strip() for line in site.carried if '"POST /mcp/notes"' in line]
    return [each.rpartition(" ")[2] for each in told]


def test_whoever_is_first_opens_the_same_link_at_any_of_them(site: Together) -> None:
    assert {first_link(one) for one in site.gateways} == {first_link(site)}
    assert first_link(site).startswith(f"{site.url}/setup?link=")


def test_the_walk_does_what_the_page_says(site: Together) -> None:
    approve, answer, lose, look, _come_back = blocks(PAGE, "sh")
    assert run(approve, site).count(WELCOME) == 1
    said = run(answer, site)
    assert (said.count(ASKED), "sent" in said) == (2, True), said
    assert run(lose, site).count(WELCOME) == 1
    assert site.gateways[0].process.wait(60) != 0
    gone = site.gateways[0].url.removeprefix("http://")
    assert {gone} & set(carriers(site)[-3:]) == set()
    assert "the log is what was signed" in run(look, site)


async def test_a_session_goes_on_where_its_gateway_is_killed(site: Together) -> None:
    """One gateway is left after it: every call that was answered is on record there."""
    left, told = site.gateways[1:], len(carriers(site))
    client = site.client("notes")
    token = fetch_token(site.url, "notes", client)
    async with connected(f"{site.url}/mcp/notes", token, "legacy") as session:
        before = await session.call_tool("read_note", {"name": "welcome"})
        # The session begins by its token, and goes on by its id: with what came after that.
        await soon(lambda: len(carriers(site)) >= told + 3)
        (its,) = [one for one in left if one.url.endswith(carriers(site)[-1])]
        its.process.kill()
        await asyncio.to_thread(its.process.wait, 60)
        # nginx sees that its connections have ended before it is asked for one of them.
        httpx2.get(f"{site.url}/.well-known/oauth-authorization-server", timeout=60)
        after = await session.call_tool("read_note", {"name": "welcome"})
    assert [text(one) for one in (before, after)] == [WELCOME] * 2
    (last,) = [one for one in left if one is not its]
    where = f"client = '{client['client_id']}' AND method = tools/call"
    asked = ("audit", "query", "--tool", "read_note", "--where", where)
    calls = Counter({"intent": 4, "outcome": 4})
    until(lambda: Counter(row["kind"] for row in last.rows(*asked)) == calls)
    done = last.douane("audit", "verify")
    assert done.returncode == 0, done.stdout + done.stderr


def text(result: Any) -> str:
    return " ".join(getattr(block, "text", "") for block in result.content)


@pytest.mark.full
def test_one_that_was_lost_comes_back(site: Together) -> None:
    *_, come_back = blocks(PAGE, "sh")
    first = site.gateways[0]
    here = come_back.replace("http://127.0.0.1:8081", first.admin_url)
    try:
        assert "read_note" in run(here, site)
    finally:
        os.kill(int((first.folder / "pid").read_text()), 15)


def test_nginx_is_configured_by_what_is_shipped(tmp_path: Path) -> None:
    made = configured(tmp_path, 8080, ["http://127.0.0.1:8091", "http://127.0.0.1:8092"])
    assert made.count("    server 127.0.0.1:809") == 2
    assert "10.0.0." not in made
    assert "hash $by_client consistent;" in made
    assert "proxy_next_upstream error;" in made
    assert made.count("{") == made.count("}")

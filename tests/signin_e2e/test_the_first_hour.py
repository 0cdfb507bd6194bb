"""The first hour of README.md, done at the desk from its first step to its last, by somebody new."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from tests.e2e.own import put, soon
from tests.e2e.posting import Poster
from tests.e2e.site import Corridor
from tests.running import fetch_token, rules_in, running_gateway
from tests.servers.process import ROOT, RunningServer
from tests.signin_e2e.browser import Chromium
from tests.signin_e2e.desk_sitting import Sitting, sitting
from tests.signin_e2e.house import PASSWORD

CLOSED = """\
package douane

deny contains {"code": "closed_today", "message": "the notes are closed today"} if {
	input.phase == "call"
	input.target.server == "notes"
}
"""


@pytest.fixture
def fresh(tmp_path: Path, notes: RunningServer) -> Iterator[Corridor]:
    policies = rules_in(tmp_path / "policies")
    with running_gateway(
        tmp_path / "gateway", {"notes": {"url": notes.url}}, policies=policies
    ) as running:
        yield Corridor(running)


def call(corridor: Corridor) -> Any:
    return Poster(corridor, "notes").call("read_note", {"name": "welcome"}).json["result"]


async def approve_all(somebody: Sitting) -> None:
    """Look at each definition, tick it, and say so."""

    async def look(page: Page) -> None:
        for tick in await page.locator("input[type=checkbox]").all():
            await tick.check()
        await page.locator("#note").fill("read them")
        async with page.expect_navigation():
            await page.locator("#approve").click(no_wait_after=True)

    await somebody.on("/desk/pins/together?server=notes", look)


async def test_the_first_hour_is_done_at_the_desk(
    fresh: Corridor, browser: Chromium, tmp_path: Path
) -> None:
    link = re.search(r"http\S+/setup\?link=\S+", fresh.running.shown)
    assert link is not None
    with sitting(fresh, browser, "first", scripts=False) as first:
        said = {"username": "first", "password": PASSWORD, "repeated": PASSWORD}
        await first.person.enter(link[0], said)
        await first.sign_in()

        assert "notes" in await first.read("/desk/servers")  # 1
        assert "notes/read_note" in await first.read("/desk/pins")

        assert call(fresh)["isError"]  # 2

        await approve_all(first)  # 3
        assert "Nothing waits" in await first.read("/desk/pins")
        assert not call(fresh)["isError"]

        assert "first" in await first.read("/desk/people")  # 4, the sign-in itself

        made = {"name": "mine", "resources": "/mcp/notes", "scopes": "tools:list, tools:call"}
        shown = await first.do("/desk/do/clients.add", "do", made)  # 5
        parts = dict(re.findall(r"client (id|secret)\s+(\S+)", shown))
        client = {"client_id": parts["id"], "client_secret": parts["secret"]}
        assert fetch_token(fresh.url, "notes", client)

        put(tmp_path / "policies" / "closed.rego", CLOSED)  # 6
        await soon(lambda: call(fresh).get("isError"))
        assert "closed_today" in await first.read("/desk/policy")

        where = 'reasons.code = "closed_today"'
        assert "A call was refused" in await first.do("/desk/record", "go", {"where": where})  # 7
        (row, *_) = fresh.running.rows("audit", "query", "--where", where, "--limit", "1")
        shown = await first.read(f"/desk/record/{row['id']}")
        assert "the notes are closed today" in shown
        assert "Rule: closed.rego, line 3, deny" in shown

        found = await first.do("/desk/do/audit.verify", "do")  # 8
        assert re.search(r"Intact: \d+ records, up to the checkpoint of", found)
        await soon(
            lambda: fresh.running.douane("audit", "show", row["id"], "--proof").returncode == 0
        )
        await first.take(f"/desk/record/{row['id']}", "take", tmp_path / "record.json")
    (key,) = [one for one in fresh.running.rows("keys", "list") if one["use"] == "audit"]
    words = [str(ROOT / "docs" / "verify_export.py"), str(tmp_path / "record.json"), "--proof"]
    done = subprocess.run(
        [sys.executable, *words, "--key", str(key["public"])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

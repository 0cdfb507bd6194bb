"""Another authorization server signs people in; the gateway takes the tokens that are for it."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.servers.process import RunningServer
from tests.signin_e2e import python_client
from tests.signin_e2e.abroad import AT_A_SERVER, Abroad, external
from tests.signin_e2e.authority import Authority
from tests.signin_e2e.browser import Chromium
from tests.signin_e2e.documents import Documents
from tests.signin_e2e.house import READ


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory,
    notes: RunningServer,
    published: Documents,
    authority: Authority,
) -> Iterator[Abroad]:
    folder = tmp_path_factory.mktemp("external")
    with external(folder, notes, published, authority) as running:
        yield running


async def test_a_client_signs_its_person_in_there_and_calls_here(
    guarded: Abroad, browser: Chromium, tmp_path: Path
) -> None:
    at = guarded.house
    with browser.person("carol", "any") as carol:
        async with python_client.program(at.site, carol, tmp_path) as program:
            assert await program.call(READ)
            assert await program.desk.visits() == (AT_A_SERVER,)
    rows = at.running.rows("audit", "query", "--where", "kind = outcome")
    (named,) = {row["principal"] for row in rows if row["method"] == "tools/call"}
    assert re.fullmatch(r"https?://[^|]+\|carol", named)


async def test_this_gateway_issues_nothing_itself(guarded: Abroad) -> None:
    async with httpx2.AsyncClient(base_url=guarded.house.url) as http:
        for path in ("/oauth/token", "/oauth/register"):
            assert (await http.post(path)).status_code == 404
        found = await http.get("/.well-known/oauth-protected-resource/mcp/notes")
        assert found.json()["authorization_servers"] == [guarded.provider.issuer]

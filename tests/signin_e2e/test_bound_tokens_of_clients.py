"""A real client that holds a key signs a person in where nothing else is taken, and goes on by itself."""

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.process import RunningServer
from tests.signin_e2e.authority import Authority
from tests.signin_e2e.browser import Chromium
from tests.signin_e2e.documents import Documents
from tests.signin_e2e.house import House, egress, house, welcome
from tests.signin_e2e.journeys import COMPLETE
from tests.signin_e2e.node_clients import (
    ClientFailed,
    typescript_that_holds_a_key,
    typescript_v2,
)


@pytest.fixture(scope="module")
def strict(
    tmp_path_factory: pytest.TempPathFactory,
    notes: RunningServer,
    published: Documents,
    authority: Authority,
    browser: Chromium,
) -> Iterator[House]:
    """Takes bound tokens alone."""
    folder = tmp_path_factory.mktemp("strict-gateway")
    settings: dict[str, Any] = {"egress": egress(authority), "auth": {"dpop": "required"}}
    with house(folder, notes, published, **settings) as running:
        asyncio.run(welcome(running.running, browser))
        yield running


async def test_a_client_that_holds_a_key_goes_the_whole_way_and_a_thief_nowhere(
    strict: House, browser: Chromium, tmp_path: Path
) -> None:
    with strict.emma(browser) as emma:
        journey, told = await typescript_that_holds_a_key(strict.site, emma, tmp_path)
    assert journey == COMPLETE
    assert told["kind"] == "DPoP"
    tries = ("asBearer", "withAnotherKey", "forAnotherUrl", "byItsHolder", "onceMore")
    assert [told[name] for name in tries] == [401, 401, 401, 200, 401]
    rows = strict.running.rows("audit", "query", "--where", "kind = auth", "--limit", "4")
    assert "eyJ" not in json.dumps(rows)


async def test_a_client_without_a_key_gets_nothing_and_is_told_before(
    strict: House, browser: Chromium, tmp_path: Path
) -> None:
    url = f"{strict.url}/.well-known/oauth-protected-resource/mcp/notes"
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert json.load(answer)["dpop_bound_access_tokens_required"] is True
    with strict.emma(browser) as emma, pytest.raises(ClientFailed):
        await typescript_v2(strict.site, emma, tmp_path)
    where = "method = oauth/token and code = invalid_dpop_proof"
    rows = strict.running.rows("audit", "query", "--where", where)
    assert "DPoP proof: missing" in json.dumps(rows)

"""The desk of a real gateway on a listener of its own, in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.scripted import raw_in_a_thread
from tests.e2e.site import Corridor
from tests.servers.process import free_port
from tests.signin_e2e.browser import Chromium
from tests.signin_e2e.desk_sitting import desk_gateway
from tests.signin_e2e.house import PASSWORD


@pytest.fixture
def apart(tmp_path: Path, browser: Chromium) -> Iterator[tuple[Corridor, str]]:
    listen = f"127.0.0.1:{free_port()}"
    with (
        raw_in_a_thread() as raw,
        desk_gateway(
            tmp_path, raw, browser, people=("ada",), console={"listen": listen}
        ) as corridor,
    ):
        yield corridor, f"http://{listen}"


async def test_somebody_comes_in_by_consent_and_a_revoked_grant_ends_it(
    apart: tuple[Corridor, str], browser: Chromium
) -> None:
    corridor, url = apart
    with browser.person("ada", PASSWORD) as ada:
        said = await ada.go_through(f"{url}/desk/enter?to=/desk/approvals")
        assert ada.clicks == ["sign in", "approve"]
        assert "No call waits for a person's word." in said
        assert {urlsplit(one.url).netloc for one in ada.seen} == {
            urlsplit(url).netloc,
            urlsplit(corridor.url).netloc,
        }
        assert "Nothing here" in await ada.go_through(f"{corridor.url}/desk")
        (grant,) = corridor.running.rows("users", "grants", "list")
        corridor.running.rows("users", "grants", "revoke", grant["grant"])
        assert "Nothing here" in await ada.go_through(f"{url}/desk/approvals")

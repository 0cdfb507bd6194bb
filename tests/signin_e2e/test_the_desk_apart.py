"""The desk of a real gateway on a listener of its own, in a real browser."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.e2e.scripted import raw_in_a_thread
from tests.e2e.site import Corridor
from tests.servers.process import free_port
from tests.signin_e2e.browser import Chromium
from tests.signin_e2e.desk_sitting import desk_gateway, sitting


@pytest.fixture(scope="module")
def apart(
    tmp_path_factory: pytest.TempPathFactory, browser: Chromium
) -> Iterator[tuple[Corridor, str]]:
    listen = f"127.0.0.1:{free_port()}"
    folder, people = tmp_path_factory.mktemp("apart"), ("ada", "rita")
    console = {"listen": listen}
    with (
        raw_in_a_thread() as raw,
        desk_gateway(folder, raw, browser, people=people, console=console) as corridor,
    ):
        yield corridor, f"http://{listen}"


@pytest.mark.parametrize("scripts", [True, False])
async def test_somebody_comes_in_by_consent_and_an_administrator_revokes_the_grant(
    apart: tuple[Corridor, str], browser: Chromium, scripts: bool
) -> None:
    corridor, url = apart
    way = f"{url}/desk/enter?to=/desk"
    here = Corridor(replace(corridor.running, url=url))
    with (
        sitting(here, browser, "ada", scripts=scripts) as ada,
        sitting(here, browser, "rita", scripts=scripts) as rita,
    ):
        assert "What needs somebody" in await ada.person.go_through(way)
        assert ada.person.clicks[0] == "sign in"
        assert "Nothing here" in await ada.person.go_through(f"{corridor.url}/desk")
        await rita.person.go_through(way)
        (grant,) = corridor.running.rows("users", "grants", "list", "--user", "ada")
        if scripts:
            (person,) = [
                row for row in corridor.running.rows("users", "list") if row["user"] == "ada"
            ]
            said = await rita.by_keyboard(
                "/desk/people",
                (f'a[href$="user={person["user_id"]}"]', "Enter"),
                (f'a[href$="grant={grant["grant"]}"]', "Enter"),
                ("do", "Enter"),
            )
            assert "Who may come" in said
            assert rita.troubles == []
        else:
            await rita.do(f"/desk/do/grants.revoke?grant={grant['grant']}", "do")
        assert corridor.running.rows("users", "grants", "list", "--user", "ada") == []
        assert "Nothing here" in await ada.person.go_through(f"{url}/desk/approvals")

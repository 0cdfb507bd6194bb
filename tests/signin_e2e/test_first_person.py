"""The first person of all comes by a link that the gateway shows once."""

from pathlib import Path

from tests.running import running_gateway
from tests.signin_e2e.browser import Chromium
from tests.signin_e2e.house import NAME, PASSWORD, first_link


async def test_the_link_makes_one_administrator_and_is_spent(
    tmp_path: Path, browser: Chromium
) -> None:
    with running_gateway(tmp_path, {}) as running, browser.person(NAME, PASSWORD) as emma:
        link = first_link(running)
        form = {"username": NAME, "password": PASSWORD, "repeated": PASSWORD}
        welcome = await emma.enter(link, form)
        assert "Your password is set." in welcome
        assert "Sign in and open the desk" in welcome
        (row,) = running.rows("users", "list")
        assert (row["user"], "admin" in row["roles"]) == (NAME, True)
        text = await emma.sign_in(link)
        assert "expired, or was used already" in text
        assert "You are signed in as" in await emma.sign_in(f"{running.url}/account")
    with running_gateway(tmp_path, {}) as running:
        assert running.shown.count("/setup?link=") == 1

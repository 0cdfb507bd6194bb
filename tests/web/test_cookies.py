"""Cookies are read as they stand: whoever sends what is none of ours has nothing done with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.web.cookies import read_cookies
from tests.signin.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.stores.close()


def test_what_stands_in_a_cookie_is_what_it_says() -> None:
    quoted = '"' + "\\" * 8 + '"'
    assert read_cookies([f"a=b; c={quoted};d = e=f ;;g", "h=1; a=2"]) == {
        "a": "2",
        "c": quoted,
        "d": "e=f",
        "": "",
        "g": "",
        "h": "1",
    }
    assert read_cookies([]) == {}


async def test_no_page_undoes_the_quotes_of_strangers(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes Python a look through all of the rest for each backslash: seconds for one head."""

    def undone(_: str) -> str:
        raise AssertionError("quotes of a stranger are undone")

    await house.person()
    browser = await house.signed_in()
    monkeypatch.setattr("http.cookies._unquote", undone)
    for path in ("/sign-in", "/oauth/authorize", "/consent", "/device", "/account", "/sign-out"):
        assert (await browser.get(house.url + path)).status < 500

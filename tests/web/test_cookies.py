"""Cookies are read as they stand: whoever sends what is none of ours has nothing done with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.web import cookies as cookies_module
from gateway.web.cookies import FromBrowser, read_cookies
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


def test_of_very_many_cookies_the_first_are_looked_at() -> None:
    head = "; ".join(f"c{number}=1" for number in range(30_000))
    assert list(read_cookies([head])) == [f"c{number}" for number in range(1_000)]
    assert read_cookies(["a=1;" * 998, "b=2", "c=3"]) == {"a": "1", "": "", "b": "2"}


def test_cookies_are_read_once_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []

    def counted(headers: list[str]) -> dict[str, str]:
        times.append(1)
        return read_cookies(headers)

    monkeypatch.setattr(cookies_module, "read_cookies", counted)
    request = FromBrowser({"type": "http", "headers": [(b"cookie", b"a=1")]})
    assert [request.cookies, request.cookies] == [{"a": "1"}] * 2
    assert times == [1]

"""Pages: every one, errors included, escapes everything and has no power."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.errors import IdentityUnavailable
from gateway.web import pages
from gateway.web.pages import ICON_PATH, STYLE_PATH, Pages, visible, when
from tests.oauth.world import NOW
from tests.signin.browser import Browser, Page
from tests.signin.house import House

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; img-src 'self'; style-src 'self'; form-action 'self'; frame-ancestors 'none';"
        " base-uri 'none'"
    ),
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}
EVIL = "</title><script>alert('1')</script>\" onload=\"x"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.stores.close()


def _powerless(page: Page) -> None:
    assert {name: page.headers.get(name) for name in HEADERS} == HEADERS
    assert not {"script", "iframe", "object", "img"} & page.elements
    assert not [name for name in page.headers if name.startswith("access-control")]


async def test_every_page_is_powerless_whatever_its_status(house: House) -> None:
    alice = await house.person()
    stranger, browser = house.browser(), await house.signed_in()
    seen: dict[str, int] = {}
    for path in (
        "/sign-in",
        "/sign-in?transaction=x",
        "/sign-in?a=1&a=2",
        "/sign-in/corp",
        "/sign-in/corp/callback",
        "/oauth/authorize",
        "/consent",
        "/setup?link=x",
        "/device",
        "/account",
        "/sign-out",
    ):
        for visitor in (stranger, browser):
            page = await visitor.get(house.url + path)
            _powerless(page)
            seen[page.title] = page.status
    for method, path in [("POST", "/consent"), ("DELETE", "/sign-in"), ("OPTIONS", "/account")]:
        _powerless(await stranger.send(method, house.url + path))
    _powerless(await browser.get(house.links.another(alice.id)))
    assert seen == {
        "Sign in · Douane": 200,
        "This did not work · Douane": 400,
        "Connect a device · Douane": 200,
        "Your account · Douane": 200,
        "Sign out · Douane": 200,
    }


async def test_consent_and_what_follows_are_powerless_too(house: House) -> None:
    await house.person()
    house.client()
    browser = await house.signed_in()
    page = await browser.get(house.authorize())
    _powerless(page)
    _powerless(await browser.submit(page.form("consent"), page, action="approve"))
    _powerless(await house.browser().get(house.authorize(code_challenge_method="plain")))


async def test_redirects_between_pages_keep_no_secret_and_are_never_stored(house: House) -> None:
    answer = await house.browser().send("GET", house.url + "/account")
    assert (answer.status, answer.headers["cache-control"]) == (303, "no-store")
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_a_store_that_is_out_of_reach_is_a_page_that_says_so(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: object, **__: object) -> None:
        raise IdentityUnavailable("sign-in is not available", detail="disk I/O error")

    monkeypatch.setattr(house.stores.browsers, "begin", unavailable)
    page = await house.browser().get(house.url + "/sign-in")
    _powerless(page)
    assert (page.status, "disk" in page.body) == (503, False)


async def test_an_error_page_repeats_nothing_of_the_request(house: House) -> None:
    for path in ("/sign-in?transaction=", "/setup?link=", "/sign-in/", "/consent?transaction="):
        page = await house.browser().get(f"{house.url}{path}EVILTEXT")
        assert (page.status, "EVILTEXT" in page.body) == (400, False)


async def test_the_style_sheet_may_be_kept_and_asks_for_nothing(house: House) -> None:
    answer = await house.browser().send("GET", house.url + STYLE_PATH)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert answer.headers["cache-control"] == "public, max-age=3600"
    assert "prefers-color-scheme: dark" in answer.body
    assert "url(" not in answer.body
    assert "@import" not in answer.body


async def test_every_page_has_its_sign_and_a_way_on(house: House) -> None:
    page = await house.browser().get(house.url + "/sign-in?transaction=unknown")
    assert f'<link rel="icon" href="{ICON_PATH}"' in page.body
    assert '<a href="/account">' in page.body
    answer = await house.browser().send("GET", house.url + ICON_PATH)
    assert (answer.status, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert "script" not in answer.body


def test_what_a_template_is_given_cannot_become_markup() -> None:
    answer = Pages().message(EVIL, EVIL, link=(EVIL, EVIL))
    assert b"<script" not in answer.body
    assert b'" onload' not in answer.body
    leave = Pages().page("leave.html", location="https://a.example/?x=\"><script>&y='")
    assert b"<script" not in leave.body
    assert b'content="0;url=https://a.example/?x=&#34;&gt;&lt;script&gt;&amp;y=&#39;"' in leave.body


def test_a_template_that_lacks_something_fails_rather_than_shows_less() -> None:
    with pytest.raises(Exception, match="is undefined"):
        Pages().page("message.html", title="Not all", link=None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zoë & Co", "Zoë & Co"),
        ("a\N{RIGHT-TO-LEFT OVERRIDE}b", "a□202Eb"),
        ("a\N{ZERO WIDTH JOINER}b", "a□200Db"),
        ("a\x1b[0m\r\nb", "a□001B[0m□000D□000Ab"),
        ("a\N{LINE SEPARATOR}b\ue000", "a□2028b□E000"),
        ("x" * 201, "x" * 200 + "…"),
    ],
)
def test_what_would_not_be_seen_is_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_moment_is_told_in_utc() -> None:
    assert when(NOW) == "15 Jan 2027, 08:00 UTC"


async def test_a_browser_keeps_its_secret_from_page_to_page(house: House) -> None:
    browser: Browser = house.browser()
    await browser.get(house.url + "/sign-in")
    kept = dict(browser.cookies["127.0.0.1"])
    await browser.get(house.url + "/account")
    assert browser.cookies["127.0.0.1"] == kept
    assert len(browser.set_cookies) == 1


def test_no_address_and_no_name_that_is_decided_on_is_cut_short() -> None:
    """What a person says yes to ends where it ends: an address may say at its end where it leads."""
    shown = [
        (path.name, line)
        for path in (Path(pages.__file__).parent / "templates").rglob("*.html")
        for line in path.read_text().splitlines()
        if 'class="address"' in line
    ]
    assert len(shown) > 8
    cut = re.compile(r'class="address"[^>]*>[^<]*\| visible')
    assert [one for one in shown if cut.search(one[1])] == []

"""Every refusal of a page is one record, whoever asked, and none of them can fill the log."""

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.domain.throttle import Throttle
from gateway.signin.journal import Event
from gateway.web.guard import UNREAD
from tests.signin.browser import Page
from tests.signin.house import House
from tests.web.asgi import Exchange

FORM = (b"content-type", b"application/x-www-form-urlencoded")
HOSTILE: Mapping[str, bytes] = {
    "forged": b"csrf=0&action=approve&transaction=00000000000000000000000000000000",
    "empty": b"",
    "unreadable": b"%FF=%FE",
    "repeated": b"a=1&a=2",
    "large": b"a=" + b"x" * 20_000,
}


async def put(house: House, method: str, path: str, body: bytes = b"", **more: bytes) -> Exchange:
    headers = [FORM, *((name.encode().replace(b"_", b"-"), text) for name, text in more.items())]
    return await Exchange(chunks=[body]).ask(house.app, method, path, headers)


def refusals(house: House) -> list[tuple[str, str]]:
    records = house.log.records
    return [
        (str(one.fields["method"]), str(one.fields["code"]))
        for one in records
        if one.fields["verdict"] == "deny"
    ]


def routes(house: House) -> list[Any]:
    return list(house.app.routes)


def pages(house: House) -> list[tuple[str, str]]:
    """Every page with a form, found in the routes: its path as it is asked for, and its name."""
    found = []
    for route in routes(house):
        path: str = route.path
        if "POST" in route.app._handlers:
            found.append((path.replace("{id}", "x"), path.partition("/{")[0].strip("/")))
    return found


@pytest.mark.parametrize("body", HOSTILE)
async def test_a_form_that_is_not_ours_is_on_record_at_every_page(house: House, body: str) -> None:
    assert len(pages(house)) >= 6
    for path, name in pages(house):
        before = len(house.log.records)
        answer = await put(house, "POST", path, HOSTILE[body])
        assert answer.status >= 400, path
        assert len(house.log.records) == before + 1, path
        assert refusals(house)[-1][0] == name


async def test_a_form_of_another_site_is_on_record_at_every_page(house: House) -> None:
    for path, name in pages(house):
        await put(house, "POST", path, sec_fetch_site=b"cross-site")
        assert refusals(house)[-1] == (name, "forged_form")
        await put(house, "POST", path, origin=b"https://evil.example")
        assert refusals(house)[-1] == (name, "forged_form")
    assert len(refusals(house)) == 2 * len(pages(house))


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/setup?link=wrong", ("setup", "ended")),
        ("/setup", ("setup", "ended")),
        ("/setup?link=a&link=b", ("setup", "bad_form")),
        ("/sign-in?transaction=wrong", ("sign-in", "ended")),
        ("/sign-in/nobody?transaction=wrong", ("sign-in", "ended")),
        ("/sign-in/nobody/callback?state=x", ("sign-in", "sign_in_refused")),
        ("/consent?transaction=wrong", ("consent", "ended")),
        ("/oauth/authorize?client_id=nobody", ("authorize", "invalid_client")),
    ],
)
async def test_a_link_that_leads_nowhere_is_on_record(
    house: House, path: str, told: tuple[str, str]
) -> None:
    page = await house.browser().get(house.url + path)
    assert page.status >= 400
    (found,) = refusals(house)
    assert found[1] == told[1]
    assert told[0] in found[0]


async def test_a_refusal_names_who_is_signed_in(house: House) -> None:
    await house.person()
    browser = await house.signed_in()
    page: Page = await browser.get(house.url + "/account")
    form = page.form("sign-out")
    await browser.submit(form, page, csrf="0")
    assert house.told[-1][1:] == ("deny", "forged_form", "alice")


async def test_a_password_that_cannot_be_taken_is_on_record(house: House) -> None:
    browser = house.browser()
    page = await browser.get(house.links.first())
    given = {"username": "emma", "password": "a long password", "repeated": "another password"}
    page = await browser.submit(page.form(), page, **given)
    assert refusals(house) == [("setup", "unacceptable")]


async def test_refusals_of_one_address_beyond_so_many_a_minute_are_counted(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    throttle = Throttle(allowed=2, window_s=60.0)
    (route,) = [one for one in routes(house) if one.path == "/setup"]
    monkeypatch.setattr(route.app._visits, "_refusals", throttle)
    marked = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await house.app(scope, receive, send)
        marked.append(scope.get(UNREAD))

    for _ in range(3):
        await Exchange(chunks=[b"a=b"]).ask(app, "POST", "/setup", [FORM])
    assert marked == [None, None, "forged_form"]
    assert len(refusals(house)) == 2


async def test_somebody_of_a_provider_is_named_with_it(house: House) -> None:
    user = await house.person("same", issuer="https://idp.example", password="")
    await house.journal.write(
        Event(code="signed_in", method="sign-in", source_ip="192.0.2.7", user=user)
    )
    assert house.told[-1][3] == "https://idp.example|same"

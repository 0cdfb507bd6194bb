"""What people see of their own, and take back."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.grants import AuthorizationCode, Grant
from gateway.domain.secrets import StoredConnection
from gateway.signin.browser import digest
from gateway.web.pages import Pages
from tests.oauth.world import NOW
from tests.signin.browser import Browser, Form, Page
from tests.signin.house import CALLBACK, House


def _button(page: Page, action: str, which: str = "") -> Form:
    """Return the form of the button with that action, for that thing."""
    found = [
        form
        for form in page.forms
        if ("action", action) in form.buttons and form.fields["which"].startswith(which)
    ]
    (form,) = found
    return form


async def _press(browser: Browser, page: Page, action: str, which: str = "") -> Page:
    return await browser.submit(_button(page, action, which), page, action=action)


async def _with_everything(house: House) -> tuple[Browser, Page]:
    """Return alice's browser on her account, with a client, a connection and another session."""
    alice, bob = await house.person(), await house.person("bob")
    house.client(name="App\N{ZERO WIDTH SPACE}")
    await house.signed_in(**{"user-agent": "<i>Other</i>"})
    browser = await house.signed_in()
    page = await browser.get(house.authorize())
    await browser.submit(page.form("consent"), page, action="approve")
    for user in (alice, bob):
        house.stores.connections.connect(
            StoredConnection(
                user_id=user.id,
                server="mail",
                issuer="https://as.example",
                sealed="sealed",
                scopes=("read",),
                expires_at=None,
                version=1,
                connected_at=NOW,
            )
        )
    return browser, await browser.get(house.url + "/account")


async def test_an_account_is_put_together_beside_the_loop(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: dict[str, int] = {}
    made = Pages.page

    def page(pages: Pages, template: str, /, *args: Any, **context: Any) -> Any:
        noted[template] = threading.get_ident()
        return made(pages, template, *args, **context)

    monkeypatch.setattr(Pages, "page", page)
    await _with_everything(house)
    assert noted["account.html"] != threading.get_ident()


async def test_a_person_sees_their_browsers_clients_and_connections(house: House) -> None:
    _, page = await _with_everything(house)
    assert page.ids["access"] == (
        "App□200B (its own word for itself) /mcp/mail"
        " See which tools there are; Use tools. Since 15 Jan 2027, 08:00 UTC. Withdraw"
    )
    assert page.ids["connections"] == (
        "mail By https://as.example, since 15 Jan 2027, 08:00 UTC. Disconnect"
    )
    assert page.ids["sessions"].count("This browser") == 1
    assert page.ids["sessions"].count("Another browser") == 1
    assert "<i>Other</i>" in page.text


async def test_withdrawing_forgets_the_consent_and_revokes_what_came_of_it(house: House) -> None:
    browser, page = await _with_everything(house)
    (grant,) = house.stores.grants.grants()
    page = await _press(browser, page, "withdraw", "dcr_app")
    assert (page.url, page.ids["access"]) == (house.url + "/account", "")
    assert house.stores.browsers.consents() == []
    assert house.stores.grants.is_revoked(grant.id, "")
    assert house.told[-1] == ("auth", "allow", "consent_withdrawn", "alice")
    assert house.log.records[-1].fields["client"] == "dcr_app"
    page = await browser.get(house.authorize())
    assert page.shows("consent")


async def test_a_client_without_a_remembered_consent_can_be_withdrawn_too(house: House) -> None:
    await house.person()
    browser = await house.signed_in()
    grant = Grant(
        id="g1",
        user_id="id-of-alice",
        client_id="douane-cli",
        endpoint="/api/v1",
        scopes=frozenset({"admin"}),
        created_at=NOW,
        expires_at=NOW + 60,
    )
    code = AuthorizationCode(
        code_hash="c",
        grant_id="g1",
        client_id="douane-cli",
        redirect_uri=CALLBACK,
        code_challenge="x",
        expires_at=NOW + 60,
    )
    house.stores.grants.issue_code(grant, code)
    page = await browser.get(house.url + "/account")
    assert page.ids["access"].startswith("Douane command line /api/v1 Administer this gateway")
    await _press(browser, page, "withdraw")
    assert house.stores.grants.is_revoked("g1", "")


async def test_disconnecting_forgets_ones_own_tokens_only(house: House) -> None:
    browser, page = await _with_everything(house)
    await _press(browser, page, "disconnect", "mail")
    assert [one.user_id for one in house.stores.connections.connections()] == ["id-of-bob"]
    assert house.told[-1] == ("auth", "allow", "disconnected", "alice")
    assert house.log.records[-1].fields["server"] == "mail"


async def test_another_browser_can_be_signed_out(house: House) -> None:
    browser, page = await _with_everything(house)
    here = digest(browser.cookies["127.0.0.1"]["douane-session"])
    (other,) = {one.id_hash for one in house.stores.browsers.sessions()} - {here}
    page = await _press(browser, page, "end-session", other)
    assert [one.id_hash for one in house.stores.browsers.sessions()] == [here]
    assert page.ids["sessions"].startswith("This browser")
    assert house.told[-1] == ("auth", "allow", "session_ended", "alice")


async def test_nobody_elses_session_can_be_ended(house: House) -> None:
    await house.person("bob")
    await house.signed_in("bob")
    (bobs,) = house.stores.browsers.sessions()
    await house.person()
    browser = await house.signed_in()
    page = await browser.get(house.url + "/account")
    form = _button(page, "end-session")
    refused = await browser.submit(form, page, action="end-session", which=bobs.id_hash)
    assert refused.status == 400
    assert bobs in house.stores.browsers.sessions()


@pytest.mark.parametrize(
    ("action", "which"),
    [
        ("withdraw", "https://payroll.example/agent"),
        ("withdraw", "x" * 9_000),
        ("withdraw", "dcr_of_bob"),
        ("disconnect", "payments"),
        ("disconnect", "calendar"),
        ("end-session", "none"),
    ],
)
async def test_what_is_not_ones_own_is_not_told_to_have_been_taken_back(
    house: House, action: str, which: str
) -> None:
    browser, page = await _with_everything(house)
    grant = Grant(
        id="g_bob",
        user_id="id-of-bob",
        client_id="dcr_of_bob",
        endpoint="/mcp/mail",
        scopes=frozenset({"tools:call"}),
        created_at=NOW,
        expires_at=NOW + 60,
    )
    house.stores.grants.begin_family(grant, None)
    (one,) = house.stores.connections.connections("id-of-bob")
    house.stores.connections.connect(replace(one, server="calendar"))
    before = len(house.log.records)
    form = _button(page, "withdraw")
    assert (await browser.submit(form, page, action=action, which=which)).status == 400
    told = house.log.records[before:]
    assert [record.fields["verdict"] for record in told] == ["deny"]
    assert which not in str([record.fields for record in told])
    assert house.stores.grants.grant("g_bob") == grant
    assert len(house.stores.connections.connections("id-of-bob")) == 2


async def test_a_form_of_the_account_is_worth_nothing_elsewhere_or_later(house: House) -> None:
    browser, page = await _with_everything(house)
    form = _button(page, "withdraw")
    for change in ({"csrf": "0" * 64}, {"csrf": page.form("sign-out").fields["csrf"]}):
        assert (await browser.submit(form, page, action="withdraw", **change)).status == 403
    stranger = await house.signed_in("bob")
    assert (await stranger.submit(form, page, action="withdraw")).status == 403
    await house.enter(browser, await browser.get(house.url + "/sign-in"))
    assert (await browser.submit(form, page, action="withdraw")).status == 403
    assert len(house.stores.browsers.consents()) == 1


async def test_a_button_that_there_is_not_does_nothing(house: House) -> None:
    browser, page = await _with_everything(house)
    assert (await browser.submit(_button(page, "withdraw"), page, action="all")).status == 400


async def test_nothing_is_taken_back_unless_that_can_be_recorded(house: House) -> None:
    browser, page = await _with_everything(house)
    house.log.failure = "disk full"
    for action in ("withdraw", "disconnect"):
        assert (await _press(browser, page, action)).status == 503
    assert len(house.stores.browsers.consents()) == 1
    assert len(house.stores.connections.connections()) == 2


async def test_an_account_is_shown_to_its_person_only(house: House) -> None:
    browser, page = await _with_everything(house)
    form = _button(page, "withdraw")
    house.stores.browsers.end_sessions("id-of-alice")
    assert (await browser.submit(form, page, action="withdraw")).status == 403
    page = await browser.get(house.url + "/account")
    assert page.shows("sign-in")


async def test_the_account_leads_to_the_desk_whoever_has_one(house: House) -> None:
    await house.person()
    browser = await house.signed_in()
    assert "desk" not in (await browser.get(house.url + "/account")).links
    house.desks["alice"] = "/desk"
    assert (await browser.get(house.url + "/account")).links["desk"] == "/desk"

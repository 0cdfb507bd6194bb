"""A person is asked, sent away from a page of ours, and taken back in the same browser."""

from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from starlette.routing import Router

from gateway.broker import Broker, PersonalConnection, client_metadata
from gateway.oauth.held_keys import HeldKeys
from gateway.oauth.metadata import CLIENT_METADATA_PATH
from gateway.web.connect import ConnectPages
from gateway.web.cookies import BrowserCookies
from gateway.web.pages import Pages
from gateway.web.visits import Visits
from tests.broker.world import a_world
from tests.signin.house import HTTPS, PASSWORD, Envelope, House

CONNECT = f"{HTTPS}/connect/mail"


@pytest.fixture
async def other(tmp_path):
    (tmp_path / "other").mkdir()
    async with a_world(tmp_path / "other") as made:
        yield made


@pytest.fixture
async def house(tmp_path, other):
    house = House(tmp_path, url=HTTPS)
    broker = Broker(
        {"mail": PersonalConnection(server="mail", url=other.provider.resource)},
        connections=house.stores.connections,
        transactions=house.stores.browsers,
        users=house.stores.users,
        sealer=Envelope(),
        fetcher=other.fetcher,
        signer=other.signer,
        audit=house.log,
        clock=house.clock,
        random=house.random,
        new_id=house.new_id,
        public_url=HTTPS,
        keys=HeldKeys(),
    )
    cookies = BrowserCookies(
        house.names, lambda scope: scope["client"][0], random=house.random, session_s=3600
    )
    visits = Visits(
        Pages(), cookies, origin=HTTPS, journal=house.journal, user_of=house.sessions.user_of
    )
    pages = ConnectPages(visits, house.sign_in, broker.connecting)
    house.app = Router([*house.app.routes, *pages.routes], redirect_slashes=False)
    await house.person()
    await house.person("bob")
    yield house
    await broker.aclose()
    house.stores.close()


async def signed_in(house, name="alice", url=CONNECT):
    """Return a browser that signed in on its way to `url`, and the page it got to."""
    browser = house.browser()
    page = await browser.get(url)
    page = await browser.submit(
        page.form(), page, username=name, password=PASSWORD, action="password"
    )
    return browser, page


async def sent_off(browser, page):
    """Agree; return the state with which the browser stands at the authorization server."""
    left = await browser.submit(page.form("connect"), page, action="approve")
    (state,) = parse_qs(urlsplit(left.leaves_for).query)["state"]
    return left, state


def callback(other, state, **changes):
    query = {"code": "c", "state": state, "iss": other.provider.url, **changes}
    return f"{HTTPS}/connect/callback?{urlencode(query)}"


async def test_a_person_signs_in_agrees_and_is_connected(house, other):
    browser, page = await signed_in(house)
    assert page.url == CONNECT
    assert (page.ids["issuer"], page.ids["resource"]) == (
        other.provider.url,
        other.provider.resource,
    )
    left, state = await sent_off(browser, page)
    assert left.leaves_for.startswith(f"{other.provider.url}/authorize?")
    assert (left.status, left.headers["cache-control"]) == (200, "no-store")
    back = await browser.get(callback(other, state))
    assert (back.status, back.title) == (200, "Connected · Douane")
    (kept,) = house.stores.connections.connections()
    assert (kept.user_id, kept.server) == ("id-of-alice", "mail")


async def test_nothing_is_asked_of_anybody_before_a_person_is_known(house, other):
    await house.browser().get(CONNECT)
    assert other.provider.paths == []


async def test_scopes_of_a_wider_connection_survive_the_sign_in(house, other):
    browser, page = await signed_in(house, url=f"{CONNECT}?scope=read+write")
    assert page.ids["scopes"] == "read write"
    left, _ = await sent_off(browser, page)
    assert parse_qs(urlsplit(left.leaves_for).query)["scope"] == ["read write"]


async def test_nobody_is_sent_for_more_than_their_page_said(house, other):
    other.provider.protected = {"scopes_supported": ["read"]}
    browser, page = await signed_in(house)
    other.provider.protected = {"scopes_supported": ["read", "write"]}
    left = await browser.submit(page.form("connect"), page, action="approve")
    assert (left.status, left.leaves_for, other.provider.registered) == (400, "", [])


async def test_a_no_leaves_everything_as_it_was(house, other):
    browser, page = await signed_in(house)
    refused = await browser.submit(page.form("connect"), page, action="deny")
    assert (refused.status, refused.leaves_for) == (200, "")
    assert other.provider.registered == []
    fields = house.log.records[-1].fields
    assert (fields["method"], fields["code"], fields["verdict"]) == ("connect", "refused", "deny")
    assert (fields["server"], fields["principal"]) == ("mail", "alice")
    assert other.provider.url in fields["reasons"][0]["message"]
    assert fields["source_ip"]


async def test_a_no_that_cannot_be_recorded_says_so(house, other):
    browser, page = await signed_in(house)
    house.log.failure = "disk full"
    refused = await browser.submit(page.form("connect"), page, action="deny")
    assert (refused.status, "Not connected" in refused.title) == (503, False)


@pytest.mark.parametrize("field", ["csrf", "issuer", "resource", "asked", "scope"])
async def test_a_form_that_was_changed_is_refused(house, other, field):
    browser, page = await signed_in(house)
    form = page.form("connect")
    refused = await browser.submit(form, page, action="approve", **{field: "https://evil.example"})
    assert (refused.status, refused.leaves_for) == (403, "")


async def test_a_form_of_another_persons_page_is_refused(house, other):
    _, page = await signed_in(house, "bob")
    browser, _ = await signed_in(house)
    refused = await browser.submit(page.form("connect"), page, action="approve")
    assert refused.status == 403


async def test_another_browser_cannot_bring_the_answer(house, other):
    browser, page = await signed_in(house)
    _, state = await sent_off(browser, page)
    for name in ("alice", "bob"):
        elsewhere, _ = await signed_in(house, name)
        assert (await elsewhere.get(callback(other, state))).status == 400
    assert (await house.browser().get(callback(other, state))).status == 403
    assert other.provider.forms == []
    assert (await browser.get(callback(other, state))).status == 200


async def test_an_answer_of_another_issuer_is_refused(house, other):
    browser, page = await signed_in(house)
    _, state = await sent_off(browser, page)
    back = await browser.get(callback(other, state, iss="https://evil.example"))
    assert (back.status, "evil" in back.body) == (400, False)
    assert other.provider.forms == []


async def test_an_answer_that_does_not_say_whose_it_is_comes_to_its_servers_own_address(
    house, other
):
    other.provider.metadata = {"authorization_response_iss_parameter_supported": None}
    browser, page = await signed_in(house)
    _, state = await sent_off(browser, page)
    back = await browser.get(f"{HTTPS}/connect/callback/mail?code=c&state={state}")
    assert (back.status, back.title) == (200, "Connected · Douane")


async def test_a_fault_of_the_other_side_is_a_page_too(house, other):
    other.provider.gone = {"/.well-known/oauth-authorization-server"}
    _, page = await signed_in(house)
    assert page.status == 503


async def test_a_server_that_nobody_connects_to_is_no_reason_to_sign_in(house):
    page = await house.browser().get(f"{HTTPS}/connect/news")
    assert (page.status, page.forms) == (400, [])


async def test_what_an_authorization_server_is_called_is_shown_harmlessly(house, other):
    other.provider.protected = {"scopes_supported": ["<b>&"]}
    _, page = await signed_in(house)
    assert page.ids["scopes"] == "<b>&"
    assert "<b>" not in page.body


def test_the_document_that_describes_us_names_itself_by_where_it_is_served():
    assert client_metadata(HTTPS)["client_id"] == f"{HTTPS}{CLIENT_METADATA_PATH}"

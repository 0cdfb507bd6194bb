"""The desk on a listener of its own, where it is a client of the authorization server like any other."""

from collections.abc import Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from starlette.routing import Router

from gateway.domain.identity import AuthMethod
from gateway.oauth.clients import DESK_ID, desk_client
from gateway.oauth.gate import TokenGate
from gateway.oauth.intake import Intake
from gateway.oauth.revocation import RevocationEndpoint
from gateway.oauth.token_endpoint import TokenEndpoint
from gateway.signin.browser import CookieNames
from gateway.web.cookies import BrowserCookies
from gateway.web.desk import desk_routes
from gateway.web.desk.as_client import ENTERED_PATH, AsClient, Own, Seats
from gateway.web.desk.frame import RECENT_S, elsewhere
from gateway.web.pages import Pages
from gateway.web.visits import Visits
from tests.oauth.world import KEYS
from tests.signin.browser import Browser, to_app
from tests.signin.house import HTTP
from tests.storage.memory_calls import MemoryScriptStore
from tests.web.desk_site import desk_house

APART = "http://127.0.0.1:8082"
SECRET = "a secret of this process"
DESK = f"{APART}/desk"


class Apart:
    """A house whose desk has a listener of its own."""

    def __init__(self, house):
        self.house = house
        self.reached = (HTTP, APART)
        """What browsers are led to; before the rest they stand still."""
        house.open_desk(enabled=False)
        names = CookieNames.of(APART, kind="-desk")
        visits = Visits(
            Pages(),
            BrowserCookies(
                names, lambda scope: scope["client"][0], random=house.random, session_s=3600
            ),
            origin=APART,
            journal=house.journal,
            user_of=house.sessions.user_of,
        )
        intake = Intake(
            directory=house.directory, audit=house.log, clock=house.clock, new_id=house.new_id
        )
        gate = TokenGate(
            resources=house.server.resources,
            keys=KEYS,
            clients=house.stores.clients,
            users=house.stores.users,
            is_revoked=house.stores.grants.is_revoked,
            scripts=MemoryScriptStore(),
            clock=house.clock,
            epoch=house.stores.epoch,
            people=lambda: house.stores.people,
            desk=desk_client(APART + ENTERED_PATH, SECRET),
        )
        self.tokens = TokenEndpoint(server=house.server, intake=intake)
        self.seats = Seats()
        entrance = AsClient(
            visits,
            Own(url=APART, issuer=HTTP, client_id=DESK_ID, secret=SECRET, lifetime_s=3600),
            self.seats,
            token=self.tokens.answer,
            revoke=RevocationEndpoint(server=house.server, intake=intake).answer,
            authenticator=gate,
            find_user=house.stores.users.find,
            clock=house.clock,
            random=house.random,
        )
        frame = house.frame(visits, entrance)
        routes = [
            *visits.assets,
            *entrance.routes,
            *desk_routes(frame),
            *elsewhere(visits, frame),
        ]
        self.app = Router(routes, redirect_slashes=False)

    def browser(self):
        there, here = to_app(self.house.app), to_app(self.app)

        async def transport(sent):
            return await (here if sent.url.startswith(APART) else there)(sent)

        return Browser(transport, reaches=lambda url: url.startswith(self.reached))

    async def enters(self, browser, name="ada", path="/desk/approvals", way="", answer="approve"):
        """Follow the way in to a page, as somebody does who is signed in nowhere."""
        page = await browser.get(way or f"{DESK}/enter?{urlencode({'to': path})}")
        page = await self.house.enter(browser, page, name)
        if "action" in dict(page.forms[0].buttons if page.forms else ()):
            page = await browser.submit(page.forms[0], page, action=answer)
        return page


@pytest.fixture
async def apart(tmp_path):
    async with apart_in(tmp_path) as apart:
        yield apart


@asynccontextmanager
async def apart_in(folder):
    async with desk_house(folder, desk=desk_client(APART + ENTERED_PATH, SECRET)) as house:
        yield Apart(house)


async def test_somebody_signs_in_says_yes_once_and_is_at_the_desk(apart):
    browser = apart.browser()
    page = await apart.enters(browser)
    assert (page.url, page.title) == (f"{DESK}/approvals", "Calls that wait · Douane")
    assert (await browser.get(f"{HTTP}/desk/approvals")).status == 404
    again = apart.browser()
    page = await again.get(f"{HTTP}/sign-in")
    await apart.house.enter(again, page, "ada")
    page = await again.get(f"{DESK}/enter?to=/desk/pins")
    assert page.url == f"{DESK}/pins"


async def test_no_token_reaches_the_browser(apart):
    browser = apart.browser()
    await apart.enters(browser)
    kept = str(browser.cookies)
    (seat,) = [apart.seats.of(secret, now=apart.house.clock()) for secret in sessions_of(browser)]
    assert seat.access not in kept
    assert seat.refresh not in kept


def sessions_of(browser):
    return [
        told
        for jar in browser.cookies.values()
        for name, told in jar.items()
        if name == "douane-desk-session"
    ]


async def test_nobody_else_learns_that_there_is_a_desk_there(apart):
    stranger, uma = apart.browser(), apart.browser()
    nowhere = await stranger.get(f"{DESK}/no/such/page")
    page = await apart.enters(uma, "uma")
    assert (page.status, page.body) == (404, nowhere.body)


async def test_a_person_who_says_no_has_no_desk(apart):
    browser = apart.browser()
    page = await apart.enters(browser, answer="deny")
    assert page.status == 400
    assert (await browser.get(f"{DESK}/approvals")).status == 404


@pytest.mark.parametrize("ending", ["grant", "person", "role"])
async def test_what_ends_the_grant_the_person_or_the_role_ends_the_desk(apart, ending):
    browser, house = apart.browser(), apart.house
    await apart.enters(browser)
    assert (await browser.get(f"{DESK}/approvals")).status == 200
    user = house.stores.users.by_subject(HTTP, "ada")
    at = house.clock()
    if ending == "grant":
        (grant,) = house.stores.grants.grants(user_id=user.id)
        house.stores.grants.revoke_grant(grant.id, "a test", at=at)
    elif ending == "person":
        house.stores.users.change(user.id, disabled=True, at=at)
    else:
        house.stores.users.change(user.id, groups=frozenset({"users"}), at=at)
    assert (await browser.get(f"{DESK}/approvals")).status == 404


async def test_a_token_that_ran_out_is_refreshed_and_nobody_notices(apart):
    browser = apart.browser()
    await apart.enters(browser)
    apart.house.clock.now += apart.house.server.lifetimes.access_s + 1
    assert (await browser.get(f"{DESK}/approvals")).status == 200


async def test_a_refresh_that_gives_an_access_token_alone_is_one(apart):
    browser = apart.browser()
    await apart.enters(browser)
    house = apart.house
    house.clock.now += house.server.lifetimes.access_s + 1
    asked: list[Mapping[str, Any]] = []
    for _ in range(2):
        # The second one comes too soon after the first for another refresh token.
        assert (await browser.get(f"{DESK}/approvals")).status == 200
        asked = [r.fields for r in house.log.records if r.fields["method"] == "oauth/token"]
        until = house.clock.now + house.server.lifetimes.access_s
        house.stores.grants.revoke_token(asked[-1]["token_id"], until=until)
    assert asked[-1]["reasons"][0]["code"] == "refresh_paced"


async def test_a_change_wants_a_sign_in_of_late_as_the_server_tells_it(apart):
    await apart.house.ask()
    browser = apart.browser()
    page = await apart.enters(browser, path="/desk/approvals/a")
    assert "once" in page.ids
    apart.house.clock.now += RECENT_S
    page = await browser.get(f"{DESK}/approvals/a")
    assert "once" not in page.ids
    # Once more without being asked anew: the person is signed in since then, and that is told.
    page = await browser.get(f"{DESK}/enter?to=/desk/approvals/a")
    assert (page.url, "once" in page.ids) == (f"{DESK}/approvals/a", False)
    way = APART + page.links["again"]
    page = await apart.enters(browser, way=way)
    assert "once" in page.ids


async def test_an_answer_of_another_browsers_sign_in_is_none(apart):
    mine, theirs = apart.browser(), apart.browser()
    page = await theirs.get(f"{DESK}/enter?to=/desk")
    page = await apart.house.enter(theirs, page, "ada")
    apart.reached = (HTTP,)
    page = await theirs.submit(page.forms[0], page, action="approve")
    answer = page.leaves_for
    assert parse_qs(urlsplit(answer).query)["code"]
    assert (await mine.get(answer)).status == 403
    assert (await mine.get(f"{DESK}/approvals")).status == 404


async def test_an_answer_of_another_server_is_none(apart):
    browser = apart.browser()
    page = await browser.get(f"{DESK}/enter?to=/desk")
    page = await apart.house.enter(browser, page, "ada")
    apart.reached = (HTTP,)
    page = await browser.submit(page.forms[0], page, action="approve")
    apart.reached = (HTTP, APART)
    forged = page.leaves_for.replace(urlencode({"iss": HTTP}), "iss=https%3A%2F%2Fevil.example")
    assert forged != page.leaves_for
    assert (await browser.get(forged)).status == 403


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "/deskevil", "/desk%0d%0ax:y"]
)
async def test_the_way_in_leads_nowhere_but_to_the_desk(apart, to):
    browser = apart.browser()
    page = await apart.enters(browser, way=f"{DESK}/enter?to={to}")
    assert urlsplit(page.url).netloc == "127.0.0.1:8082"
    assert page.url.startswith(f"{DESK}")
    assert "evil" not in page.url


async def test_whoever_leaves_gives_the_tokens_back(apart):
    browser = apart.browser()
    await apart.enters(browser)
    page = await browser.get(f"{DESK}/leave")
    page = await browser.submit(page.form("sign-out"), page)
    assert page.title.startswith("Signed out")
    user = apart.house.stores.users.by_subject(HTTP, "ada")
    assert not apart.house.stores.grants.grants(user_id=user.id)
    assert (await browser.get(f"{DESK}/approvals")).status == 404


async def test_whoever_comes_again_and_again_takes_nobody_elses_place(apart):
    """Also somebody who has no role, and whose browser says nothing of where they sat before."""
    ada, uma = apart.browser(), apart.browser()
    await apart.enters(ada)
    await apart.enters(uma, "uma")
    (first,) = sessions_of(uma)
    for _ in range(8):
        for jar in uma.cookies.values():
            jar.pop("douane-desk-session", None)
        await uma.get(f"{DESK}/enter?to=/desk")
    now = apart.house.clock()
    assert apart.seats.of(first, now=now) is None
    assert apart.seats.of(*sessions_of(uma), now=now) is not None
    assert len(apart.seats) == 8 + 1
    assert (await ada.get(f"{DESK}/approvals")).status == 200


def test_no_other_program_can_be_that_client():
    client = desk_client(APART + ENTERED_PATH, SECRET)
    assert client.auth_methods == {AuthMethod.BASIC}
    assert not client.is_public

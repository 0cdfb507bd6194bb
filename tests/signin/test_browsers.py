"""Cookies, form tokens, transactions and sessions: what keeps browsers apart."""

import asyncio
from dataclasses import replace

import pytest

from gateway.domain.grants import AuthorizationRequest, Transaction
from gateway.signin.browser import Browser, CookieNames, digest
from gateway.signin.errors import Ended, Forged, NotSignedIn, Throttled, WrongBrowser
from gateway.signin.transactions import Purpose
from tests.oauth.world import NOW
from tests.signin.house import HTTP, HTTPS, House

MINE = Browser(secret="m" * 43, session="s" * 43, source_ip="192.0.2.7")
THEIRS = Browser(secret="t" * 43, source_ip="192.0.2.8")
ACCOUNT = Purpose(name="account")


def test_cookies_are_host_cookies_on_https_and_plain_ones_on_loopback_http() -> None:
    assert CookieNames.of(HTTPS) == CookieNames(
        session="__Host-douane-session", browser="__Host-douane-browser", secure=True
    )
    assert CookieNames.of(HTTP) == CookieNames(
        session="douane-session", browser="douane-browser", secure=False
    )


def test_on_https_a_cookie_without_the_prefix_counts_for_nothing() -> None:
    planted = {"douane-session": "s" * 43, "douane-browser": "m" * 43}
    browser = Browser.of(CookieNames.of(HTTPS), planted, source_ip="", user_agent="")
    assert (browser.session, browser.secret) == ("", "")


@pytest.mark.parametrize("cookie", ["", "short", "m" * 44, "m" * 42 + "=", "m" * 42 + "\n"])
def test_a_cookie_that_we_cannot_have_set_is_none(cookie: str) -> None:
    planted = {"douane-browser": cookie}
    assert not Browser.of(CookieNames.of(HTTP), planted, source_ip="", user_agent="").secret


def test_what_a_browser_calls_itself_is_cut_to_what_can_be_shown() -> None:
    browser = Browser.of(
        CookieNames.of(HTTP), {}, source_ip="", user_agent="Fire\x1b[31mfox" + "x" * 500
    )
    assert browser.user_agent == ("Fire[31mfox" + "x" * 500)[:200]


def test_secrets_of_a_browser_are_in_no_repr() -> None:
    assert "mmm" not in repr(MINE)
    assert "sss" not in repr(MINE)


def test_a_form_token_is_good_for_its_form_its_browser_and_what_it_is_bound_to() -> None:
    token = MINE.token("consent", "session", "transaction")
    MINE.require(token, "consent", "session", "transaction")
    for other, bound in [
        (THEIRS, ("consent", "session", "transaction")),
        (MINE, ("device", "session", "transaction")),
        (MINE, ("consent", "session", "another")),
        (MINE, ("consent", "sessiontransaction", "")),
    ]:
        with pytest.raises(Forged):
            other.require(token, *bound)


def test_a_browser_without_a_cookie_has_no_valid_token() -> None:
    nobody = Browser()
    with pytest.raises(Forged):
        nobody.require(nobody.token("consent"), "consent")


async def test_a_transaction_is_stored_with_the_hash_of_its_browser_alone(house: House) -> None:
    begun = await house.transactions.begin(MINE, ACCOUNT)
    assert await house.transactions.of(begun.id, MINE) == begun
    assert begun == Transaction(
        id=begun.id,
        browser_hash=digest(MINE.secret),
        purpose="account",
        created_at=NOW,
        expires_at=NOW + 600,
    )


async def test_another_browser_cannot_go_on_with_a_transaction(house: House) -> None:
    begun = await house.transactions.begin(MINE, ACCOUNT)
    for other in (THEIRS, Browser()):
        with pytest.raises(WrongBrowser):
            await house.transactions.of(begun.id, other)


async def test_a_browser_without_a_secret_begins_nothing(house: House) -> None:
    with pytest.raises(WrongBrowser):
        await house.transactions.begin(Browser(source_ip="192.0.2.7"), ACCOUNT)


@pytest.mark.parametrize("id_", ["", "x" * 32, "a" * 33, "\ud800"])
async def test_what_is_no_id_of_ours_is_no_transactions(house: House, id_: str) -> None:
    with pytest.raises(Ended):
        await house.transactions.of(id_, MINE)


async def test_a_transaction_ends_after_ten_minutes(house: House) -> None:
    begun = await house.transactions.begin(MINE, ACCOUNT)
    house.clock.now += 600
    with pytest.raises(Ended):
        await house.transactions.of(begun.id, MINE)
    with pytest.raises(Ended):
        await house.transactions.finish(begun)


@pytest.mark.parametrize("unknown", ["", "0" * 32, "0" * 31, "../" + "0" * 29, "O" * 32])
async def test_what_is_no_transaction_has_ended(house: House, unknown: str) -> None:
    with pytest.raises(Ended):
        await house.transactions.of(unknown, MINE)


async def test_a_transaction_is_finished_by_exactly_one(house: House) -> None:
    begun = await house.transactions.begin(MINE, ACCOUNT)
    done = await asyncio.gather(
        *(house.transactions.finish(begun) for _ in range(8)), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in done) == ["Ended"] * 7 + ["NoneType"]
    with pytest.raises(Ended):
        await house.transactions.of(begun.id, MINE)
    with pytest.raises(Ended):
        await house.transactions.update(replace(begun, user_id="somebody"))


async def test_one_address_cannot_fill_the_disk_with_transactions(house: House) -> None:
    for _ in range(300):
        await house.transactions.begin(MINE, ACCOUNT)
    with pytest.raises(Throttled):
        await house.transactions.begin(MINE, ACCOUNT)
    await house.transactions.begin(THEIRS, ACCOUNT)


async def test_a_session_is_a_fresh_secret_of_which_the_hash_is_stored(house: House) -> None:
    alice = await house.person()
    cookie = await house.sessions.open(alice, MINE)
    assert cookie != MINE.session
    (stored,) = house.stores.browsers.sessions(alice.id)
    assert (stored.id_hash, stored.expires_at) == (digest(cookie), NOW + 3600)
    assert await house.sessions.user_of(replace(MINE, session=cookie)) == alice
    assert await house.sessions.user_of(replace(MINE, session=stored.id_hash[:43])) is None


async def test_nobody_is_signed_in_or_consents_who_was_removed_meanwhile(house: House) -> None:
    alice = await house.person()
    house.stores.users.remove(alice.id, at=NOW)
    with pytest.raises(NotSignedIn):
        await house.sessions.open(alice, MINE)
    request = AuthorizationRequest(
        client_id="dcr_app",
        redirect_uri="https://app.example/cb",
        endpoint="/mcp",
        scopes=frozenset(),
        code_challenge="x",
    )
    with pytest.raises(NotSignedIn):
        await house.consents.remember(alice, request)


async def test_signing_in_again_ends_the_session_that_was_there(house: House) -> None:
    alice = await house.person()
    first = await house.sessions.open(alice, MINE)
    second = await house.sessions.open(alice, replace(MINE, session=first))
    assert await house.sessions.user_of(replace(MINE, session=first)) is None
    assert await house.sessions.user_of(replace(MINE, session=second)) == alice


async def test_a_session_ends_in_time(house: House) -> None:
    alice = await house.person()
    browser = replace(MINE, session=await house.sessions.open(alice, MINE))
    house.clock.now += 3599
    assert await house.sessions.user_of(browser) == alice
    house.clock.now += 1
    assert await house.sessions.user_of(browser) is None


async def test_whoever_is_disabled_or_gone_is_signed_in_nowhere(house: House) -> None:
    alice = await house.person()
    browser = replace(MINE, session=await house.sessions.open(alice, MINE))
    house.stores.users.change(alice.id, disabled=True, at=NOW)
    assert await house.sessions.user_of(browser) is None
    house.stores.users.change(alice.id, disabled=False, at=NOW)
    browser = replace(MINE, session=await house.sessions.open(alice, MINE))
    house.stores.users.remove(alice.id, at=NOW)
    assert await house.sessions.user_of(browser) is None

"""Signing in with a user name and a password, form by form."""

import asyncio

import pytest

from gateway.signin import passwords
from gateway.signin.errors import Throttled, Unacceptable, WrongCredentials
from gateway.signin.people import user_name
from gateway.signin.transactions import Purpose
from tests.oauth.world import NOW
from tests.signin.house import PASSWORD, SOURCE, House
from tests.signin.test_browsers import MINE, THEIRS
from tests.signin.test_passwords import CHEAP, GOOD

REFUSED = ("auth", "deny", "wrong_credentials", "")


async def test_a_person_signs_in_and_sees_their_account(house: House) -> None:
    await house.person()
    browser = await house.signed_in()
    page = await browser.get(house.url + "/account")
    assert (page.status, page.ids["sign-out"]) == (200, "Sign out")
    assert "Alice (alice)" in page.text
    assert house.told == [("auth", "allow", "signed_in", "alice")]
    assert house.log.records[0].fields["source_ip"] == SOURCE


async def test_case_and_spaces_around_a_user_name_do_not_matter(house: House) -> None:
    await house.person()
    proven = await house.check.person(" Alice ", PASSWORD, MINE)
    assert proven.user == house.stores.users.all()[0]


async def test_a_session_of_the_old_password_does_not_outlive_a_new_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await house.person()
    users, opens = house.stores.users, house.sign_in._sessions.open

    async def opened_after_a_reset(*given, **more):
        users.add_link(alice.id, "link", until=NOW + 60)
        assert users.redeem_link("link", "$argon2id$another", now=NOW) is not None
        return await opens(*given, **more)

    monkeypatch.setattr(house.sign_in._sessions, "open", opened_after_a_reset)
    browser = house.browser()
    page = await browser.get(house.url + "/sign-in")
    page = await house.enter(browser, page, "alice", PASSWORD)
    assert (page.status, house.stores.browsers.sessions()) == (403, [])
    assert house.log.records[-1].fields["code"] == "wrong_credentials"


@pytest.mark.parametrize(
    ("name", "password", "detail"),
    [
        ("alice", PASSWORD + "x", "wrong password for alice"),
        ("alice", "", "wrong password for alice"),
        ("mallory", PASSWORD, "unknown user"),
        ("", "", "unknown user"),
        ("carol", PASSWORD, "carol has no password yet"),
        ("dave", PASSWORD, "dave is disabled"),
    ],
)
async def test_whatever_is_wrong_is_told_alike_and_recorded_apart(
    house: House, name: str, password: str, detail: str
) -> None:
    await house.person()
    await house.person("carol", "")
    dave = await house.person("dave")
    house.stores.users.change(dave.id, disabled=True, at=NOW)
    browser = house.browser()
    page = await browser.get(house.url + "/sign-in")
    page = await house.enter(browser, page, name, password)
    assert (page.status, page.ids["problem"]) == (403, "The user name or the password is wrong.")
    assert "douane-session" not in str(browser.set_cookies)
    assert house.told == [REFUSED]
    assert house.log.records[0].fields["reasons"][0]["message"] == detail
    page = await house.enter(browser, page)
    assert page.url == house.url + "/account"


async def test_an_unknown_user_costs_as_much_as_a_known_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []

    async def matches(password: str, phc: str) -> bool:
        compared.append(phc)
        return False

    await house.person()
    monkeypatch.setattr(house.passwords, "matches", matches)
    for name in ("alice", "mallory"):
        with pytest.raises(WrongCredentials):
            await house.check.person(name, PASSWORD, MINE)
    assert len(compared) == 2


async def test_what_was_typed_is_in_no_record(house: House) -> None:
    await house.person()
    browser = house.browser()
    page = await browser.get(house.url + "/sign-in")
    await house.enter(browser, page, "my secret in the wrong field", "hunter2 hunter2")
    assert b"hunter2" not in house.log.entries[0].body
    assert b"wrong field" not in house.log.entries[0].body


async def test_guessing_at_one_account_is_slowed_down_from_everywhere(house: House) -> None:
    await house.person()
    for _ in range(3):
        with pytest.raises(WrongCredentials):
            await house.check.person("alice", "wrong", MINE)
    with pytest.raises(Throttled):
        await house.check.person("alice", PASSWORD, THEIRS)
    assert house.told[-1] == ("auth", "deny", "rate_limited", "")
    house.clock.now += 300
    assert (await house.check.person("alice", PASSWORD, THEIRS)).user.subject == "alice"


async def test_guessing_from_one_address_is_slowed_down_for_every_account(house: House) -> None:
    await house.person()
    browser = house.browser()
    page = await browser.get(house.url + "/sign-in")
    for number in range(6):
        page = await house.enter(browser, page, f"user{number}", "wrong")
    page = await house.enter(browser, page)
    assert (page.status, page.headers["retry-after"]) == (429, "300")
    assert "too many attempts" in page.ids["problem"]


async def test_guesses_at_the_same_moment_do_not_all_pass(house: House) -> None:
    await house.person()
    done = await asyncio.gather(
        *(house.check.person("alice", "wrong", MINE) for _ in range(6)), return_exceptions=True
    )
    assert [type(one) for one in done].count(Throttled) == 3


async def test_of_a_name_that_is_too_long_for_anybody_little_is_kept(house: House) -> None:
    with pytest.raises(WrongCredentials):
        await house.check.person("a" * 10_000, PASSWORD, MINE)
    assert [len(name) for name in house.attempts._by_target._times] == [32]


async def test_a_password_kept_too_cheaply_is_kept_anew_at_the_next_sign_in(house: House) -> None:
    alice = await house.person()
    users = house.stores.users
    assert users.rehash(alice.id, users.password_of(alice.id), CHEAP)
    session = await house.sessions.open(alice, MINE)
    assert (await house.check.person("alice", GOOD, MINE)).user == alice
    now = f"$argon2id$v=19$m={passwords._MEMORY_KIB},t=2,p=1$"
    assert users.password_of(alice.id).startswith(now)
    assert len(house.stores.browsers.sessions(alice.id)) == 1, session
    assert not users.rehash(alice.id, CHEAP, "something older")


async def test_a_wrong_password_is_never_kept_anew(house: House) -> None:
    alice = await house.person()
    users = house.stores.users
    users.rehash(alice.id, users.password_of(alice.id), CHEAP)
    with pytest.raises(WrongCredentials):
        await house.check.person("alice", "wrong", MINE)
    assert users.password_of(alice.id) == CHEAP


async def test_nobody_is_signed_in_unless_that_can_be_recorded(house: House) -> None:
    await house.person()
    browser = house.browser()
    page = await browser.get(house.url + "/sign-in")
    house.log.failure = "disk full"
    page = await house.enter(browser, page)
    assert (page.status, page.title) == (503, "Not available · Douane")
    assert "douane-session" not in str(browser.set_cookies)
    assert house.stores.browsers.sessions() == []


async def test_a_sign_in_is_used_once(house: House) -> None:
    await house.person()
    browser = house.browser()
    form_page = await browser.get(house.url + "/sign-in")
    await house.enter(browser, form_page)
    page = await house.enter(browser, form_page)
    assert page.status == 400


async def test_the_form_of_one_browser_is_worth_nothing_in_another(house: House) -> None:
    await house.person()
    mine, theirs = house.browser(), house.browser()
    page = await mine.get(house.url + "/sign-in")
    await theirs.get(house.url + "/sign-in")
    refused = await house.enter(theirs, page)
    assert (refused.status, "another browser" in refused.text) == (403, True)
    stranger = house.browser()
    assert (await house.enter(stranger, page)).status == 403
    assert house.stores.browsers.sessions() == []


async def test_every_purpose_goes_on_where_it_should(house: House) -> None:
    await house.person()
    for purpose, path in [
        (Purpose(name="account"), "/account"),
        (Purpose(name="device", detail="BCDF&x=1"), "/device?user_code=BCDF%26x%3D1"),
        (Purpose(name="connect", detail="mail/../x"), "/connect/mail%2F..%2Fx"),
        (Purpose(name="connect", detail="mail?scope=a+b"), "/connect/mail?scope=a+b"),
    ]:
        transaction = await house.sign_in.begin(purpose, MINE)
        entered = await house.sign_in.with_password(transaction, "alice", PASSWORD, MINE)
        assert entered.path == path


async def test_what_may_lead_to_another_site_follows_no_form(house: House) -> None:
    # Browsers hold each hop behind a form to its page's form-action.
    await house.person()
    browser = house.browser()
    await browser.get(house.url + "/sign-in")
    transaction = await house.sign_in.begin(
        Purpose(name="connect", detail="mail"), house.cookies(browser)
    )
    page = await browser.get(house.url + house.sign_in.path_to(transaction))
    answer = await browser.send(
        "POST",
        house.url + "/sign-in",
        body=(
            f"csrf={page.form().fields['csrf']}&transaction={transaction.id}"
            f"&username=alice&password={PASSWORD.replace(' ', '+')}"
        ).encode(),
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert (answer.status, answer.refresh) == (200, "/connect/mail")


@pytest.mark.parametrize("csrf", ["", "0" * 64])
async def test_nobody_is_signed_in_or_out_by_a_form_that_is_not_ours(
    house: House, csrf: str
) -> None:
    await house.person()
    browser = house.browser()
    page = await browser.get(house.url + "/sign-in")
    form = page.form("sign-in")
    fields = {"username": "alice", "password": PASSWORD, "csrf": csrf}
    assert (await browser.submit(form, page, **fields)).status == 403
    assert house.stores.browsers.sessions() == []
    browser = await house.signed_in()
    page = await browser.get(house.url + "/sign-out")
    assert (await browser.submit(page.form(), page, csrf=csrf)).status == 403
    assert len(house.stores.browsers.sessions()) == 1


async def test_signing_out_ends_the_session_and_takes_the_cookie(house: House) -> None:
    await house.person()
    browser = await house.signed_in()
    kept = dict(browser.cookies["127.0.0.1"])
    page = await browser.get(house.url + "/sign-out")
    page = await browser.submit(page.form(), page)
    assert page.title == "Signed out · Douane"
    assert "douane-session" not in browser.cookies["127.0.0.1"]
    browser.cookies["127.0.0.1"] = kept
    page = await browser.get(house.url + "/account")
    assert page.shows("sign-in")
    assert house.told[-1] == ("auth", "allow", "signed_out", "alice")


@pytest.mark.parametrize("name", ["alice", "a", "a.b-c_d@example.com", "9lives", "A" * 64])
def test_a_user_name_has_one_spelling(name: str) -> None:
    assert user_name(f" {name} ") == name.lower()


@pytest.mark.parametrize("name", ["", "-a", "a b", "a\nb", "é", "a" * 65, "os:root", "<b>"])
def test_what_cannot_be_a_user_name_is_refused(name: str) -> None:
    with pytest.raises(Unacceptable):
        user_name(name)

"""One-time links: the very first person, and everybody whom an administrator invites."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from gateway.domain.identity import User
from gateway.signin.errors import Ended, Throttled, Unacceptable
from gateway.signin.links import NOBODY_YET, Chosen, SetupLinks
from gateway.storage.identity.database import DATABASE
from tests.oauth.world import NOW
from tests.signin.browser import Browser, Page
from tests.signin.house import HTTP, PASSWORD, House
from tests.signin.test_browsers import MINE, THEIRS

DAY = 24 * 3600
CHOSEN = Chosen(name="Root", password=PASSWORD, repeated=PASSWORD)
CAROL = User(
    id="ca401",
    issuer=HTTP,
    subject="carol",
    name="Carol",
    groups=frozenset({"users"}),
    created_at=NOW,
    created_by="os:root",
)


async def _set(browser: Browser, page: Page, name: str = "root", **fields: str) -> Page:
    chosen = {"password": PASSWORD, "repeated": PASSWORD, **fields}
    given = {**chosen, "username": name} if name else chosen
    return await browser.submit(page.form("setup"), page, **given)


def _sharing(house: House) -> SetupLinks:
    return SetupLinks(
        house.stores.users,
        house.passwords,
        house.journal,
        public_url=HTTP,
        first_groups=lambda: frozenset({"admins"}),
        clock=house.clock,
        random=house.random,
        new_id=house.new_id,
        first_secret=lambda: "the same at each",
    )


def _secret(url: str) -> str:
    return dict(parse_qsl(urlsplit(url).query))["link"]


async def test_the_first_person_chooses_a_name_and_a_password_and_has_every_role(
    house: House,
) -> None:
    browser = house.browser()
    page = await browser.get(house.links.first())
    assert "first person" in page.text
    page = await _set(browser, page)
    assert page.title == "Welcome · Douane"
    (root,) = house.stores.users.all()
    assert root == User(
        id=root.id,
        issuer=HTTP,
        subject="root",
        name="root",
        groups=frozenset({"admins", "users"}),
        created_at=NOW,
        created_by="setup link",
    )
    assert house.told == [("admin", "allow", "first_person", "root")]
    page = await house.enter(browser, await browser.follow(page, "next"), "root")
    assert page.url == house.url + "/account"


async def test_whoever_has_a_desk_is_led_to_it_and_nobody_else_learns_of_one(house: House) -> None:
    house.desks["carol"] = "/desk"
    for name, link, words in (
        ("carol", "/sign-in?to=%2Fdesk", "Sign in and open the desk"),
        ("dan", "/sign-in", "Sign in"),
    ):
        browser = house.browser()
        page = await browser.get(house.links.for_new(replace(CAROL, id=f"u_{name}", subject=name)))
        page = await _set(browser, page, name="")
        assert (page.links["next"], page.ids["next"]) == (link, words)


async def test_a_link_is_to_our_own_address_and_only_its_hash_is_kept(
    house: House, tmp_path: Path
) -> None:
    url = house.links.for_new(CAROL)
    assert url.startswith(f"{HTTP}/setup?link=")
    assert len(_secret(url)) == 43
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        everything = "".join(connection.iterdump())
    assert "carol" in everything
    assert _secret(url) not in everything


async def test_there_is_no_first_person_once_there_is_anybody(house: House) -> None:
    url = house.links.first()
    await house.person()
    assert house.links.first() == ""
    with pytest.raises(Ended):
        await house.links.redeem(_secret(url), CHOSEN, MINE)
    assert [user.subject for user in house.stores.users.all()] == ["alice"]


async def test_the_first_link_ends_after_a_day_and_with_the_next_one(house: House) -> None:
    older, newer = house.links.first(), house.links.first()
    with pytest.raises(Ended):
        await house.links.invitation(_secret(older), MINE)
    house.clock.now += DAY - 1
    await house.links.invitation(_secret(newer), MINE)
    house.clock.now += 1
    with pytest.raises(Ended):
        await house.links.invitation(_secret(newer), MINE)


async def test_one_link_makes_one_first_person(house: House) -> None:
    secret = _secret(house.links.first())
    done = await asyncio.gather(
        *(
            house.links.redeem(
                secret, Chosen(name=f"root{n}", password=PASSWORD, repeated=PASSWORD), MINE
            )
            for n in range(4)
        ),
        return_exceptions=True,
    )
    assert sorted(type(one).__name__ for one in done) == ["Ended", "Ended", "Ended", "User"]
    assert len(house.stores.users.all()) == 1


async def test_whoever_came_first_in_another_process_stays_the_first(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = house.links.first()
    await house.person("emma")
    monkeypatch.setattr(house.stores.users, "all", list)  # not seen here yet
    with pytest.raises(Ended):
        await house.links.redeem(_secret(url), CHOSEN, MINE)


async def test_a_spent_first_link_stays_spent_also_once_everybody_was_removed(house: House) -> None:
    """Of gateways that share who there is each holds the same one."""
    here, there = (_sharing(house) for _ in range(2))
    link = _secret(here.first())
    assert _secret(there.first()) == link
    first = await here.redeem(link, CHOSEN, MINE)
    house.stores.users.remove(first.id, at=NOW)
    with pytest.raises(Ended):
        await there.redeem(link, CHOSEN, THEIRS)
    assert house.stores.users.all() == []


async def test_looking_at_a_link_does_not_use_it_up_and_redeeming_it_does(house: House) -> None:
    url = house.links.for_new(CAROL)
    browser = house.browser()
    await browser.get(url)
    page = await browser.get(url)
    assert "Carol (carol)" in page.text
    assert (await _set(browser, page, "")).status == 200
    assert (await browser.get(url)).status == 400
    assert (await _set(browser, page, "")).status == 400
    wrong = ("auth", "deny", "ended", "")
    assert house.told == [("admin", "allow", "password_set", "carol"), wrong, wrong]
    assert (await house.check.person("carol", PASSWORD, MINE)).user.id == CAROL.id


async def test_of_two_who_redeem_a_link_at_the_same_moment_one_does(house: House) -> None:
    link = _secret(house.links.for_new(CAROL))
    both = (house.links.redeem(link, CHOSEN, MINE) for _ in range(2))
    done = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(type(one).__name__ for one in done) == ["Ended", "User"]


async def test_whoever_has_a_link_cannot_choose_whose_it_is(house: House) -> None:
    browser = house.browser()
    page = await browser.get(house.links.for_new(CAROL))
    hers = dict.fromkeys(("password", "repeated"), "carolcarolcarol")
    assert (await _set(browser, page, "root", **hers)).status == 400
    await _set(browser, page, "root")
    assert [user.subject for user in house.stores.users.all()] == ["carol"]


async def test_another_link_ends_the_one_before_and_the_sessions_of_before(house: House) -> None:
    alice = await house.person()
    session = await house.sessions.open(alice, MINE)
    first = house.links.another(alice.id)
    second = house.links.another(alice.id)
    with pytest.raises(Ended):
        await house.links.redeem(_secret(first), CHOSEN, MINE)
    await house.links.redeem(_secret(second), CHOSEN, MINE)
    assert house.stores.browsers.sessions(alice.id) == [], session


async def test_a_link_ends_after_a_day(house: House) -> None:
    url = house.links.for_new(CAROL)
    house.clock.now += DAY
    with pytest.raises(Ended):
        await house.links.redeem(_secret(url), CHOSEN, MINE)


@pytest.mark.parametrize(
    ("name", "fields", "problem"),
    [
        ("root", {"repeated": PASSWORD + "x"}, "The two passwords are not the same."),
        ("root", {"password": "short", "repeated": "short"}, "A password has 12 to 256"),
        ("root user", {}, "A user name is"),
        ("administrators", dict.fromkeys(("password", "repeated"), "administrators1"), "user name"),
    ],
)
async def test_what_cannot_be_taken_is_chosen_anew_with_the_same_link(
    house: House, name: str, fields: dict[str, str], problem: str
) -> None:
    browser = house.browser()
    page = await _set(browser, await browser.get(house.links.first()), name, **fields)
    assert (page.status, problem in page.ids["problem"]) == (400, True)
    assert house.stores.users.all() == []
    assert (await _set(browser, page)).status == 200


async def test_a_setup_form_is_good_in_its_browser_only(house: House) -> None:
    page = await house.browser().get(house.links.first())
    other = house.browser()
    await other.get(house.url + "/sign-in")
    assert (await _set(other, page)).status == 403
    assert house.stores.users.all() == []


async def test_no_password_is_set_unless_that_can_be_recorded(house: House) -> None:
    house.log.failure = "disk full"
    browser = house.browser()
    first = house.links.first()
    page = await browser.get(first)
    assert (await _set(browser, page)).status == 503
    assert house.stores.users.all() == []
    house.log.failure = ""
    assert (await _set(browser, page)).status == 200


async def test_links_cannot_be_guessed_in_a_row(house: House) -> None:
    for number in range(20):
        with pytest.raises(Ended):
            await house.links.invitation(f"guess{number}", MINE)
    with pytest.raises(Throttled):
        await house.links.invitation("guess", MINE)
    with pytest.raises(Ended):
        await house.links.invitation("guess", THEIRS)


async def test_passwords_are_compared_before_they_are_weighed(house: House) -> None:
    with pytest.raises(Unacceptable, match="same"):
        await house.links.redeem(
            _secret(house.links.first()), Chosen(name="root", password="a", repeated="b"), MINE
        )


@pytest.mark.parametrize("link", ["", "?link=of-somebody-else"])
async def test_a_link_that_is_none_says_who_makes_another(house: House, link: str) -> None:
    house.links.first()
    page = await house.browser().get(f"{HTTP}/setup{link}")
    assert (page.status, NOBODY_YET in page.ids["message"]) == (400, True)
    await house.person()
    page = await house.browser().get(f"{HTTP}/setup{link}")
    assert page.ids["message"] == (
        "This link is not whole, has expired, or was used already. An administrator makes another:"
        " douane users link NAME"
    )


async def test_before_anybody_the_sign_in_page_says_who_comes_first_and_how(house: House) -> None:
    secret = _secret(house.links.first())
    page = await house.browser().get(f"{HTTP}/sign-in")
    assert (page.status, page.ids["nobody"], page.forms) == (200, NOBODY_YET, [])
    assert secret not in page.body
    await house.person()
    page = await house.browser().get(f"{HTTP}/sign-in")
    assert "nobody" not in page.ids
    assert page.shows("sign-in")


async def test_where_no_first_link_was_made_none_is_spoken_of(house: House) -> None:
    page = await house.browser().get(f"{HTTP}/setup")
    assert NOBODY_YET not in page.ids["message"]


async def test_those_who_come_without_a_link_keep_nobody_else_waiting(house: House) -> None:
    for number in range(25):
        browser = replace(MINE, source_ip=f"192.0.2.{number}")
        with pytest.raises(Ended):
            await house.links.invitation("", browser)

"""Who comes to the desk, what a stranger learns of it, and what a change needs."""

from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from gateway.signin.links import NOBODY_YET
from gateway.web.desk.frame import RECENT_S
from tests.signin.browser import Sent, to_app
from tests.signin.house import HTTP, Provider, Vouched
from tests.web.desk_site import PEOPLE, desk_house

DESK = f"{HTTP}/desk"


@pytest.fixture
async def house(tmp_path):
    async with desk_house(tmp_path) as house:
        yield house


def seen(page):
    """What a page lets anybody tell apart."""
    headers = {name: told for name, told in page.headers.items() if name != "set-cookie"}
    return page.status, page.body, headers


async def test_nobody_else_learns_that_there_is_a_desk(house, tmp_path):
    stranger = house.browser()
    uma = await house.signed_in("uma")
    nowhere = seen(await stranger.get(f"{DESK}/no/such/page"))
    assert nowhere[0] == 404
    for browser in (stranger, uma):
        for path in ("", "/approvals", "/approvals/a", "/no/such/page"):
            assert seen(await browser.get(DESK + path)) == nowhere


@pytest.mark.parametrize("path", ["", "/approvals", "/do/policy.stop", "/no/such/page"])
async def test_whoever_is_turned_away_at_the_desk_is_on_record(house, path):
    uma, stranger = await house.signed_in("uma"), house.browser()
    before = len(house.told)
    await uma.get(DESK + path)
    assert [told[1:] for told in house.told[before:]] == [("deny", "forbidden", "uma")]
    await stranger.get(DESK + path)
    assert len(house.told) == before + 1  # who has claimed nothing was refused nothing
    form = {"content-type": "application/x-www-form-urlencoded", "host": "127.0.0.1:8080"}
    sent = Sent(method="POST", url=DESK + path, headers=form, body=b"csrf=x")
    assert (await to_app(house.app)(sent)).status == 404
    assert [told[1:3] for told in house.told[before + 1 :]] == [("deny", "not_signed_in")]


async def test_a_person_with_a_role_is_refused_nothing_where_there_is_nothing(house):
    ada = await house.signed_in("ada")
    before = len(house.told)
    assert (await ada.get(f"{DESK}/no/such/page")).status == 404
    assert len(house.told) == before


@pytest.mark.parametrize("octets", [1, 20_000, 100_000])
@pytest.mark.parametrize("method", ["POST", "PUT", "HEAD", "DELETE"])
async def test_no_method_tells_a_stranger_what_is_there(house, method, octets):
    async def answered(path):
        headers = {
            "host": "127.0.0.1:8080",
            "content-type": "application/x-www-form-urlencoded",
            "cookie": f"{house.names.session}={'a' * 43}",
        }
        transport = to_app(house.app)
        sent = Sent(method=method, url=DESK + path, headers=headers, body=b"csrf=" + octets * b"x")
        answer = await transport(sent)
        kept = [pair for pair in answer.headers if pair[0] != "set-cookie"]
        return answer.status, answer.body, kept

    nowhere = await answered("/no/such/page")
    for path in (
        "",
        "/approvals",
        "/approvals/a",
        "/pins/one",
        "/pins/together",
        "/do/policy.stop",
    ):
        assert await answered(path) == nowhere


async def test_a_desk_that_is_switched_off_looks_like_none_to_anybody(tmp_path):
    async with desk_house(tmp_path / "on") as on:
        without_role = seen(await (await on.signed_in("uma")).get(DESK))
    async with desk_house(tmp_path / "off", enabled=False) as off:
        for name in PEOPLE:
            assert seen(await (await off.signed_in(name)).get(DESK)) == without_role


@pytest.mark.parametrize("name", ["ada", "otto", "root"])
async def test_whoever_has_a_role_comes_in(house, name):
    _, page = await house.sits_down(name)
    assert (page.status, page.title) == (200, "Calls that wait · Douane")


async def test_a_sign_in_leads_to_the_page_that_was_asked_for(house):
    browser = house.browser()
    page = await browser.get(f"{DESK}/approvals?state=all")
    page = await browser.get(f"{HTTP}/sign-in?to=/desk/approvals%3Fstate%3Dall")
    page = await house.enter(browser, page, "ada")
    assert page.url == f"{DESK}/approvals?state=all"


@pytest.mark.parametrize(
    "to", ["//evil.example", "/deskevil", "https://evil.example/desk", "/account"]
)
async def test_a_sign_in_leads_nowhere_but_to_the_desk(house, to):
    browser = house.browser()
    page = await house.enter(browser, await browser.get(f"{HTTP}/sign-in?to={to}"), "ada")
    assert page.url == f"{HTTP}/account"


async def test_a_role_that_is_taken_away_ends_the_desk_at_the_next_request(house):
    browser, page = await house.sits_down("ada")
    assert page.status == 200
    user = house.stores.users.by_subject(HTTP, "ada")
    house.stores.users.change(user.id, groups=frozenset({"users"}), at=house.clock())
    assert (await browser.get(f"{DESK}/approvals")).status == 404


async def test_whoever_is_disabled_has_no_desk(house):
    browser, _ = await house.sits_down("ada")
    user = house.stores.users.by_subject(HTTP, "ada")
    house.stores.users.change(user.id, disabled=True, at=house.clock())
    assert (await browser.get(f"{DESK}/approvals")).status == 404


async def test_a_change_wants_a_sign_in_of_the_last_quarter_of_an_hour(house):
    await house.ask()
    browser, page = await house.sits_down("ada", "/desk/approvals/a")
    house.clock.now += RECENT_S
    page = await browser.submit(page.form("answer-question"), page, action="once")
    assert (page.status, page.ids["again"]) == (409, "Sign in again")
    page = await browser.get(f"{DESK}/approvals/a")
    assert "once" not in page.ids
    page = await house.enter(browser, await browser.follow(page, "again"), "ada")
    assert page.url == f"{DESK}/approvals/a"
    page = await browser.submit(page.form("answer-question"), page, action="once")
    assert page.ids["answered"].startswith("allowed by user:ada")


@pytest.mark.parametrize(("ago", "recent"), [(5, True), (1000, False), (None, False)])
async def test_of_who_signs_in_elsewhere_the_provider_says_when_that_was(tmp_path, ago, recent):
    provider = Provider()
    async with desk_house(tmp_path, federation=provider, providers={"idp": "idp"}) as house:
        proven_at = 0.0 if ago is None else house.clock() - ago
        provider.identity = Vouched(groups=frozenset({"security"}), proven_at=proven_at)
        await house.ask()
        browser = house.browser()
        page = await browser.get(f"{HTTP}/sign-in?to=/desk/approvals/a")
        state = parse_qs(urlsplit(page.leaves_for).query)["state"][0]
        page = await browser.get(f"{HTTP}/sign-in/idp/callback?{urlencode({'state': state})}")
        assert page.url == f"{DESK}/approvals/a"
        assert ("once" in page.ids) is recent


async def test_a_no_never_waits_for_another_sign_in(house):
    await house.ask()
    browser, page = await house.sits_down("ada", "/desk/approvals/a")
    house.clock.now += RECENT_S
    page = await browser.submit(
        page.form("answer-question"), page, action="deny", note="nobody meant it"
    )
    assert page.ids["answered"].startswith("denied by user:ada")
    assert page.ids["note-said"] == "nobody meant it"


async def test_where_the_desk_only_shows_things_it_changes_none(tmp_path):
    async with desk_house(tmp_path / "here") as house:
        await house.ask()
        browser, page = await house.sits_down("ada", "/desk/approvals/a")
        form = page.form("answer-question")
        house.open_desk(read_only=True)
        cookies, browser = browser.cookies, house.browser()
        browser.cookies = cookies
        shown = await browser.get(f"{DESK}/approvals/a")
        assert not shown.shows("answer-question")
        refused = await browser.submit(form, page, action="deny", note="no")
        assert (refused.status, refused.ids["problem"]) == (
            409,
            "this desk only shows things; use the command line",
        )


async def test_every_page_forbids_frames_what_is_elsewhere_and_scripts_but_one_of_ours(house):
    _, page = await house.sits_down("ada")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert page.body.count("<script") == 1
    assert '<script src="/assets/desk.js" defer></script>' in page.body
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-frame-options"] == "DENY"


async def test_what_cannot_be_recorded_is_not_shown(house, monkeypatch):
    await house.ask()
    browser, _ = await house.sits_down("ada")

    async def full(record):
        from gateway.errors import AuditUnavailable

        raise AuditUnavailable("the disk is full")

    monkeypatch.setattr(house.store.audit, "append", full)
    page = await browser.get(f"{DESK}/approvals/a")
    assert page.status == 503
    assert "eve@outside.example" not in page.body


async def test_before_anybody_it_says_who_comes_first_and_still_not_whether_there_is_a_desk(
    tmp_path,
):
    seen_by = []
    for enabled in (True, False):
        async with desk_house(tmp_path / str(enabled), people={}, enabled=enabled) as house:
            link = house.links.first().partition("link=")[2]
            page = await house.browser().get(DESK)
            assert page.ids["message"].endswith(NOBODY_YET)
            assert "next" not in page.ids
            assert link not in page.body
            seen_by += [seen(page), seen(await house.browser().get(f"{DESK}/no/such/page"))]
            await house.person("ada")
            page = await house.browser().get(DESK)
            assert NOBODY_YET not in page.body
    assert seen_by == seen_by[:1] * 4


async def test_a_client_that_calls_itself_as_its_person_does_not_act_for_itself(house):
    await house.ask(subject="alice", client_name="alice")
    _, page = await house.sits_down("ada")
    assert "for itself" not in page.text
    assert "alice by alice" in page.text

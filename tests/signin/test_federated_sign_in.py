"""Signing in at an identity provider: the way there and back, in one browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.audit import AuditRecord
from gateway.domain.identity import User
from tests.oauth.world import NOW
from tests.signin.browser import Browser
from tests.signin.house import House, Provider, Vouched, answer_in

IDP = "https://idp.example/corp"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path, federation=Provider(), providers={"corp": "Example Corp"})
    yield house
    house.stores.close()


async def _at_provider(house: House, browser: Browser, url: str = "/sign-in") -> str:
    """Let the browser be sent to the provider, and return the state that it carries there."""
    page = await browser.get(house.url + url)
    assert page.leaves_for.startswith(IDP), page.text
    return answer_in(page.leaves_for)["state"]


def _back(house: House, state: str, provider: str = "corp") -> str:
    return f"{house.url}/sign-in/{provider}/callback?code=c&state={state}"


async def test_a_person_comes_back_from_the_provider_signed_in(house: House) -> None:
    browser = house.browser()
    page = await browser.get(_back(house, await _at_provider(house, browser)))
    assert (page.url, "Bob (bob@idp)" in page.text) == (house.url + "/account", True)
    (bob,) = house.stores.users.all()
    assert (bob.issuer, bob.subject, bob.groups, bob.created_by) == (
        "https://idp.example",
        "bob@idp",
        frozenset({"users"}),
        "https://idp.example",
    )
    assert house.told == [("auth", "allow", "signed_in", "https://idp.example|bob@idp")]


async def test_a_person_is_known_again_by_issuer_and_subject(house: House) -> None:
    for name in ("Bob", "Robert"):
        browser = house.browser()
        house.sign_in._federation.identity = Vouched(name=name)  # type: ignore[union-attr]
        await browser.get(_back(house, await _at_provider(house, browser)))
    (bob,) = house.stores.users.all()
    assert bob.name == "Robert"


@pytest.mark.parametrize("comes_back", [False, True])
async def test_that_a_provider_cannot_be_used_is_on_record_and_not_on_the_page(
    house: House, comes_back: bool
) -> None:
    browser = house.browser()
    state = await _at_provider(house, browser) if comes_back else ""
    house.sign_in._federation.outage = "status 500"  # type: ignore[union-attr]
    url = _back(house, state) if comes_back else f"{house.url}/sign-in"
    page = await browser.get(url)
    assert (page.status, "status 500" in page.text) == (503, False)
    assert [record.fields["reasons"] for record in house.log.records] == [
        [{"code": "identity_unavailable", "message": "status 500"}]
    ]
    assert house.log.records[0].fields["method"] == "sign-in/corp"
    assert house.stores.users.all() == []


async def test_what_is_kept_for_the_way_back_is_sealed_for_its_row(house: House) -> None:
    browser = house.browser()
    state = await _at_provider(house, browser)
    kept = house.stores.browsers.transaction(state.partition(".")[0], now=NOW)
    assert kept is not None
    assert kept.secrets.startswith(f"transactions:{kept.id}:secrets|")


async def test_a_victim_who_is_sent_the_providers_url_finishes_nothing(house: House) -> None:
    # The attacker consents in their own browser and lets somebody else finish the other leg.
    attacker, victim = house.browser(), house.browser()
    state = await _at_provider(house, attacker)
    await victim.get(house.url + "/account")
    for browser in (victim, house.browser()):
        page = await browser.get(_back(house, state))
        assert (page.status, page.leaves_for) == (403, "")
    assert house.stores.users.all() == []
    assert house.told == [("auth", "deny", "wrong_browser", "")] * 2


@pytest.mark.parametrize("state", ["", "0" * 32 + ".x", "x"])
async def test_an_answer_that_nobody_asked_for_is_refused(house: House, state: str) -> None:
    browser = house.browser()
    await _at_provider(house, browser)
    page = await browser.get(_back(house, state))
    assert (page.status, page.title) == (400, "This did not work · Douane")
    assert house.told == [("auth", "deny", "ended", "")]


async def test_an_answer_without_a_state_is_refused(house: House) -> None:
    browser = house.browser()
    await _at_provider(house, browser)
    assert (await browser.get(f"{house.url}/sign-in/corp/callback?code=c")).status == 400


async def test_an_answer_counts_once(house: House) -> None:
    browser = house.browser()
    house.client()
    page = await browser.get(house.authorize())
    state = answer_in(page.leaves_for)["state"]
    page = await browser.get(_back(house, state))
    assert page.shows("consent")
    assert (await browser.get(_back(house, state))).status == 400


async def test_an_answer_to_a_wrong_state_uses_the_attempt_up(house: House) -> None:
    browser = house.browser()
    state = await _at_provider(house, browser)
    assert (await browser.get(_back(house, state + "x"))).status == 400
    assert (await browser.get(_back(house, state))).status == 400
    assert house.stores.users.all() == []


async def test_an_answer_ten_minutes_later_is_refused(house: House) -> None:
    browser = house.browser()
    state = await _at_provider(house, browser)
    house.clock.now += 600
    assert (await browser.get(_back(house, state))).status == 400


async def test_an_answer_at_another_providers_address_is_refused(tmp_path: Path) -> None:
    house = House(
        tmp_path, federation=Provider(), providers={"corp": "Example Corp", "other": "Other"}
    )
    browser = house.browser()
    page = await browser.get(house.url + "/sign-in")
    assert set(page.links) == {"/account", "provider-corp", "provider-other"}
    page = await browser.follow(page, "provider-corp")
    state = answer_in(page.leaves_for)["state"]
    assert (await browser.get(_back(house, state, "other"))).status == 400
    assert (await browser.get(_back(house, state))).url == house.url + "/account"
    house.stores.close()


async def test_an_unknown_provider_is_no_way_in(house: House) -> None:
    browser = house.browser()
    state = await _at_provider(house, browser)
    transaction = state.partition(".")[0]
    for path in (
        f"/sign-in/else?transaction={transaction}",
        f"/sign-in/else/callback?state={state}",
    ):
        page = await browser.get(house.url + path)
        assert (page.status, page.text.endswith("There is no such identity provider.")) == (
            400,
            True,
        )


async def test_whoever_is_disabled_does_not_come_in_by_a_provider(house: House) -> None:
    browser = house.browser()
    await browser.get(_back(house, await _at_provider(house, browser)))
    (bob,) = house.stores.users.all()
    house.stores.users.change(bob.id, disabled=True, at=NOW)
    page = await browser.get(_back(house, await _at_provider(house, browser)))
    assert (page.status, "You may not sign in here." in page.text) == (400, True)
    assert house.stores.browsers.sessions() == []
    assert house.told[-1] == ("auth", "deny", "sign_in_refused", "")


async def test_nobody_has_a_password_where_people_sign_in_at_a_provider(house: House) -> None:
    browser = house.browser()
    state = await _at_provider(house, browser)
    transaction = state.partition(".")[0]
    page = await browser.get(f"{house.url}/sign-in?transaction={transaction}&choose=yes")
    assert (page.forms, set(page.links)) == ([], {"/account", "provider-corp"})
    token = house.cookies(browser).token("sign-in", transaction)
    answer = await browser.send(
        "POST",
        house.url + "/sign-in",
        body=f"csrf={token}&transaction={transaction}&username=bob&password=x".encode(),
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert answer.status == 400


async def test_a_sign_in_that_cannot_be_recorded_does_not_happen(house: House) -> None:
    browser = house.browser()
    state = await _at_provider(house, browser)
    house.log.failure = "disk full"
    assert (await browser.get(_back(house, state))).status == 503
    assert house.stores.browsers.sessions() == []
    assert house.stores.users.all() == []


async def test_groups_of_a_provider_count_once_they_are_on_record(house: House) -> None:
    said: list[list[str]] = []
    for groups in (["users"], ["users"], ["users", "security"], []):
        browser = house.browser()
        house.sign_in._federation.identity = Vouched(groups=frozenset(groups))  # type: ignore[union-attr]
        await browser.get(_back(house, await _at_provider(house, browser)))
        (bob,) = house.stores.users.all()
        assert bob.groups == frozenset(groups)
        said.append([one["message"] for one in house.log.records[-1].fields["reasons"]])
    assert said == [
        ["by corp; groups users"],
        ["by corp"],
        ["by corp; groups security, users"],
        ["by corp; groups none"],
    ]
    browser = house.browser()
    state = await _at_provider(house, browser)
    house.sign_in._federation.identity = Vouched(groups=frozenset({"admins"}))  # type: ignore[union-attr]
    house.log.failure = "disk full"
    assert (await browser.get(_back(house, state))).status == 503
    (bob,) = house.stores.users.all()
    assert bob.groups == frozenset()


@pytest.mark.parametrize("meanwhile", ["came", "disabled"])
async def test_what_changes_of_a_person_while_it_is_recorded_counts(
    house: House, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    browser = house.browser()
    state = await _at_provider(house, browser)
    bob = User(
        id="u_bob",
        issuer="https://idp.example",
        subject="bob@idp",
        name="Bob",
        groups=frozenset(),
        created_at=NOW,
        created_by="https://idp.example",
    )
    if meanwhile == "disabled":
        house.stores.users.signed_in(bob)
    append = house.log.append

    async def appends(record: AuditRecord) -> Any:
        if meanwhile == "came":
            house.stores.users.signed_in(bob)
        else:
            house.stores.users.change(bob.id, disabled=True, at=NOW)
        return await append(record)

    monkeypatch.setattr(house.log, "append", appends)
    assert (await browser.get(_back(house, state))).status in {400, 403}
    assert house.stores.browsers.sessions() == []

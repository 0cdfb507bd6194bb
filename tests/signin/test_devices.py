"""A person says yes or no to a device that shows them a code."""

import asyncio
from dataclasses import replace

import pytest

from gateway.domain.grants import DeviceStatus, Grant
from gateway.domain.identity import ClientKind
from gateway.signin.browser import digest
from gateway.signin.device import user_code
from tests.oauth.world import NOW
from tests.signin.browser import Browser, Page
from tests.signin.house import House
from tests.signin.test_browsers import MINE

DEVICE = digest("device")


async def _at_question(house: House, code: str = "bcdf-ghjk") -> tuple[Browser, Page]:
    """Return alice's browser with the question of the device."""
    await house.person()
    browser = await house.signed_in()
    page = await browser.get(house.url + "/device")
    page = await browser.submit(page.form("device"), page, user_code=code, action="check")
    return browser, page


def _status(house: House) -> DeviceStatus:
    device = house.stores.grants.device(DEVICE)
    assert device is not None
    return device.status


async def test_a_device_gets_what_its_person_allows(house: House) -> None:
    house.device()
    browser, page = await _at_question(house)
    assert page.ids["shown-code"] == "BCDF-GHJK"
    assert "Douane command line It is registered with this gateway." in page.text
    assert page.ids["resource"] == house.url + "/api/v1"
    assert page.ids["scopes"] == "Administer this gateway with all of your roles"
    assert "Whoever sent you a code" in page.ids["warning"]
    page = await browser.submit(page.form("device-question"), page, action="approve")
    assert page.ids["message"] == "Your device is signed in. Go back to it."
    (grant,) = house.stores.grants.grants()
    assert grant == Grant(
        id=grant.id,
        user_id="id-of-alice",
        client_id="douane-cli",
        endpoint="/api/v1",
        scopes=frozenset({"admin"}),
        created_at=NOW,
        expires_at=NOW + 90 * 86400,
    )
    assert _status(house) is DeviceStatus.APPROVED
    assert house.told[1:] == [("auth", "allow", "device_approved", "alice")]
    record = house.log.records[-1].fields
    assert (record["client"], record["endpoint"]) == ("douane-cli", "/api/v1")


async def test_an_answer_is_to_the_client_as_it_was_shown(house: House) -> None:
    client = house.client(
        id="https://app.example/client", kind=ClientKind.DOCUMENT, fresh_until=NOW + 900
    )
    house.device(client_id=client.id, endpoint="/mcp/mail", scopes=frozenset({"tools:list"}))
    browser, page = await _at_question(house)
    house.clock.now += 60
    other = replace(client, name="Company Agent", created_at=house.clock.now)
    house.stores.clients.refresh(other)
    page = await browser.submit(page.form("device-question"), page, action="approve")
    assert (page.status, _status(house)) == (400, DeviceStatus.PENDING)
    assert house.stores.grants.grants() == []


async def test_a_device_that_its_person_refuses_gets_nothing(house: House) -> None:
    house.device()
    browser, page = await _at_question(house)
    page = await browser.submit(page.form("device-question"), page, action="deny")
    assert page.ids["message"] == "Your device was not signed in."
    assert _status(house) is DeviceStatus.DENIED
    assert house.stores.grants.grants() == []
    assert house.told[1:] == [("auth", "deny", "device_denied", "alice")]


async def test_a_code_in_the_link_is_filled_in_but_never_taken_as_confirmed(house: House) -> None:
    house.device()
    await house.person()
    browser = house.browser()
    page = await browser.get(house.url + "/device?user_code=bcdf-ghjk")
    page = await house.enter(browser, page)
    assert page.form("device").fields["user_code"] == "BCDFGHJK"
    assert _status(house) is DeviceStatus.PENDING


async def test_the_name_of_the_client_behind_a_device_is_only_a_name(house: House) -> None:
    house.client(name="<b>Official</b>", kind=ClientKind.DYNAMIC)
    house.device(client_id="dcr_app", endpoint="/mcp/mail", scopes=frozenset({"tools:list"}))
    _, page = await _at_question(house)
    assert "<b>Official</b>" in page.text
    assert "It chose this name itself." in page.text


async def test_a_wrong_code_is_typed_again_and_recorded(house: House) -> None:
    house.device()
    browser, page = await _at_question(house, "zzzz-zzzz")
    assert (page.status, "No device waits" in page.ids["problem"]) == (400, True)
    assert house.told[1:] == [("auth", "deny", "no_such_code", "alice")]
    page = await browser.submit(page.form("device"), page, user_code="BCDFGHJK", action="check")
    assert page.shows("device-question")


async def test_a_device_whose_client_is_gone_waits_in_vain(house: House) -> None:
    house.device(client_id="gone")
    _, page = await _at_question(house)
    assert (page.status, "No device waits" in page.ids["problem"]) == (400, True)


async def test_codes_cannot_be_guessed_in_a_row(house: House) -> None:
    house.device()
    browser, page = await _at_question(house, "zzzz-0000")
    for number in range(1, 10):
        page = await browser.submit(
            page.form("device"), page, user_code=f"zzzz-{number:04}", action="check"
        )
    refused = await browser.submit(page.form("device"), page, user_code="BCDFGHJK", action="check")
    assert (refused.status, refused.headers["retry-after"]) == (429, "300")
    assert house.told[-1] == ("auth", "deny", "rate_limited", "alice")


async def test_a_device_is_answered_once(house: House) -> None:
    house.device()
    browser, page = await _at_question(house)
    form = page.form("device-question")
    assert (await browser.submit(form, page, action="deny")).status == 200
    assert (await browser.submit(form, page, action="approve")).status == 400
    assert house.stores.grants.grants() == []


async def test_of_answers_at_the_same_moment_one_counts_and_the_others_are_told_so(
    house: House,
) -> None:
    request = house.device()
    alice = await house.person()
    done = await asyncio.gather(
        *(house.devices.answer(request, alice, MINE, yes=True) for _ in range(4)),
        return_exceptions=True,
    )
    assert sorted(type(one).__name__ for one in done) == ["NoSuchCode"] * 3 + ["NoneType"]
    assert len(house.stores.grants.grants()) == 1


async def test_a_device_that_waited_too_long_gets_nothing(house: House) -> None:
    house.device()
    browser, page = await _at_question(house)
    house.clock.now += 600
    answer = await browser.submit(page.form("device-question"), page, action="approve")
    assert answer.status == 400
    assert house.stores.grants.grants() == []


@pytest.mark.parametrize(
    "change", [{"csrf": "0" * 64}, {"user_code": "QQQQQQQQ"}, {"action": "maybe"}]
)
async def test_an_answer_that_is_not_to_the_question_shown_is_refused(
    house: House, change: dict[str, str]
) -> None:
    house.device()
    house.device(device_hash=digest("other"), user_code="QQQQQQQQ")
    browser, page = await _at_question(house)
    answer = await browser.submit(
        page.form("device-question"), page, **{"action": "approve", **change}
    )
    assert answer.status in {400, 403}
    assert house.stores.grants.grants() == []


async def test_the_code_form_gives_no_token_for_an_answer(house: House) -> None:
    house.device()
    await house.person()
    browser = await house.signed_in()
    page = await browser.get(house.url + "/device")
    answer = await browser.submit(page.form("device"), page, user_code="BCDFGHJK", action="approve")
    assert answer.status == 403


async def test_a_code_is_looked_up_only_for_a_form_of_ours(house: House) -> None:
    house.device()
    await house.person()
    browser = await house.signed_in()
    page = await browser.get(house.url + "/device")
    fields = {"user_code": "BCDFGHJK", "action": "check", "csrf": "0" * 64}
    assert (await browser.submit(page.form("device"), page, **fields)).status == 403


async def test_nobody_who_is_not_signed_in_answers_a_device(house: House) -> None:
    house.device()
    browser, page = await _at_question(house)
    house.stores.browsers.end_sessions("id-of-alice")
    answer = await browser.submit(page.form("device-question"), page, action="approve")
    assert (answer.status, _status(house)) == (403, DeviceStatus.PENDING)


async def test_a_device_gets_nothing_unless_that_can_be_recorded(house: House) -> None:
    house.device()
    browser, page = await _at_question(house)
    house.log.failure = "disk full"
    answer = await browser.submit(page.form("device-question"), page, action="approve")
    assert (answer.status, _status(house)) == (503, DeviceStatus.PENDING)


@pytest.mark.parametrize("typed", ["bcdf-ghjk", " BCDF GHJK ", "BCDFGHJK", "b-c-d-f-g-h-j-k"])
def test_a_code_may_be_typed_as_people_do(typed: str) -> None:
    assert user_code(typed) == "BCDFGHJK"

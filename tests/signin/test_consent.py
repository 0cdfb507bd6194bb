"""From a client's request to a person's yes or no."""

import asyncio
from dataclasses import replace

import pytest

from gateway.domain.grants import Consent
from gateway.domain.identity import AuthMethod, ClientKind
from gateway.oauth.resources import SCOPES
from gateway.signin.consent import in_words
from gateway.web.forms import LARGEST_BYTES
from tests.oauth.world import NOW
from tests.signin.browser import Browser, Page
from tests.signin.house import CALLBACK, HTTPS, House, answer_in

FORM = {"content-type": "application/x-www-form-urlencoded"}
HIDDEN = "\N{RIGHT-TO-LEFT OVERRIDE}"


async def _asked(
    house: House, browser: Browser | None = None, **changes: str
) -> tuple[Browser, Page]:
    """Return a browser with alice's consent page."""
    if not house.stores.users.all():
        await house.person()
    if browser is None:
        browser = await house.signed_in()
    page = await browser.get(house.authorize(**changes))
    assert page.shows("consent"), page.text
    return browser, page


async def _answer(browser: Browser, page: Page, action: str = "approve") -> Page:
    return await browser.submit(page.form("consent"), page, action=action)


async def test_a_person_allows_a_client_what_it_asks_for(house: House) -> None:
    house.client()
    await house.person()
    browser = house.browser()
    page = await browser.get(house.authorize())
    page = await house.enter(browser, page)
    assert page.ids["resource"] == house.url + "/mcp/mail"
    assert page.ids["scopes"] == "See which tools there are Use tools"
    assert page.ids["redirect-host"] == "app.example"
    assert "Alice (alice)" in page.text
    page = await _answer(browser, page)
    answer = answer_in(page.leaves_for)
    assert page.leaves_for.startswith(CALLBACK + "?")
    assert (set(answer), answer["state"]) == ({"code", "state", "iss"}, "x y/z&1")
    assert house.told == [
        ("auth", "allow", "signed_in", "alice"),
        ("auth", "allow", "consent_given", "alice"),
        ("token", "allow", "code_issued", "alice"),
    ]
    assert house.stores.browsers.consents() == [
        Consent(
            user_id="id-of-alice",
            client_id="dcr_app",
            endpoint="/mcp/mail",
            redirect_uri=CALLBACK,
            scopes=frozenset({"tools:list", "tools:call"}),
            given_at=NOW,
        )
    ]


async def test_the_answer_to_a_form_is_a_page_that_leads_on_and_never_a_redirect(
    house: House,
) -> None:
    # A redirect would be held to form-action, and 307 would send the form on to the client.
    house.client()
    browser, page = await _asked(house)
    answer = await _answer(browser, page)
    assert (answer.status, "location" in answer.headers) == (200, False)
    assert answer.refresh == answer.links["next"] == answer.leaves_for
    assert "&amp;state=x+y%2Fz%261&amp;" in answer.body


async def test_no_code_is_in_a_record(house: House) -> None:
    house.client()
    browser, page = await _asked(house)
    code = answer_in((await _answer(browser, page)).leaves_for)["code"]
    assert not [entry for entry in house.log.entries if code.encode() in entry.body]


async def test_a_no_is_told_to_the_client_and_remembered_by_nobody(house: House) -> None:
    house.client()
    browser, page = await _asked(house)
    answer = answer_in((await _answer(browser, page, "deny")).leaves_for)
    assert (answer["error"], answer["iss"], answer["state"]) == (
        "access_denied",
        house.url,
        "x y/z&1",
    )
    assert house.told[1:] == [
        ("auth", "deny", "consent_refused", "alice"),
        ("token", "deny", "access_denied", "alice"),
    ]
    assert house.stores.browsers.consents() == []


async def test_a_remembered_yes_is_not_asked_for_again(house: House) -> None:
    house.client()
    browser, page = await _asked(house)
    await _answer(browser, page)
    page = await browser.get(house.authorize(scope="tools:list"))
    assert set(answer_in(page.leaves_for)) == {"code", "state", "iss"}
    # Behind a sign-in form it is a page that leads on, as after any form.
    other = house.browser()
    page = await other.get(house.authorize())
    page = await house.enter(other, page)
    assert (page.status, "code" in answer_in(page.leaves_for)) == (200, True)
    assert (await other.get(page.url)).status == 400
    assert "consent_given" not in [code for _, _, code, _ in house.told[3:]]


@pytest.mark.parametrize(
    "changes",
    [
        {"scope": "tools:list tools:call tools:write"},
        {"resource": "http://127.0.0.1:8080/mcp/web"},
        {"redirect_uri": "https://app.example/other"},
        {"client_id": "dcr_other"},
        {"prompt": "consent"},
    ],
)
async def test_a_yes_to_something_else_is_no_yes(house: House, changes: dict[str, str]) -> None:
    redirects = (CALLBACK, "https://app.example/other")
    house.client(redirect_uris=redirects)
    house.client(id="dcr_other", name="Other", redirect_uris=redirects)
    browser, page = await _asked(house)
    await _answer(browser, page)
    await _asked(house, browser, **changes)


async def test_a_yes_of_one_person_is_not_anothers(house: House) -> None:
    house.client()
    await house.person("bob")
    browser, page = await _asked(house, await house.signed_in("bob"))
    await _answer(browser, page)
    await house.person()
    await _asked(house)


async def test_a_yes_that_is_older_than_what_the_client_is_now_is_no_yes(house: House) -> None:
    house.client(created_at=NOW + 1)
    browser, page = await _asked(house)
    await _answer(browser, page)
    await _asked(house, browser)


async def test_an_answer_is_to_the_client_as_it_was_shown(house: House) -> None:
    client = house.client(
        id="https://app.example/client", kind=ClientKind.DOCUMENT, fresh_until=NOW + 900
    )
    browser, page = await _asked(house, client_id=client.id)
    house.clock.now += 60
    other = replace(client, name="Company Agent", created_at=house.clock.now)
    house.stores.clients.refresh(other)
    house.clock.now += 60
    refused = await _answer(browser, page)
    assert (refused.status, refused.leaves_for) == (403, "")
    assert house.stores.browsers.consents() == []
    await _asked(house, browser, client_id=client.id)


async def test_a_yes_from_before_the_clock_went_back_is_no_yes(house: House) -> None:
    await house.person()
    house.clock.now = NOW + 3000
    browser, page = await _asked(house, client_id=house.client(created_at=NOW + 1).id)
    await _answer(browser, page)
    house.clock.now = NOW + 2
    await _asked(house, browser)


async def test_a_client_that_wants_to_ask_gets_to_ask_after_a_sign_in_too(house: House) -> None:
    house.client()
    browser, page = await _asked(house)
    await _answer(browser, page)
    other = house.browser()
    page = await other.get(house.authorize(prompt="consent"))
    page = await house.enter(other, page)
    assert page.shows("consent")


async def test_a_client_that_wants_a_sign_in_gets_one_though_somebody_is_signed_in(
    house: House,
) -> None:
    house.client()
    browser, page = await _asked(house)
    await _answer(browser, page)
    page = await browser.get(house.authorize(prompt="login"))
    assert page.shows("sign-in")


@pytest.mark.parametrize(
    ("redirect", "shown"),
    [
        ("http://127.0.0.1:49152/callback", "127.0.0.1:49152"),
        ("http://localhost:3000/callback", "localhost:3000"),
        ("cursor://anysphere.cursor-mcp/oauth/callback", "cursor:"),
    ],
)
async def test_a_program_on_the_device_is_warned_of_and_asked_about_every_time(
    house: House, redirect: str, shown: str
) -> None:
    house.client(redirect_uris=(redirect,))
    browser, page = await _asked(house, redirect_uri=redirect)
    assert page.ids["redirect-host"] == shown
    assert "Allow this only if you have just started" in page.ids["warning"]
    assert (await _answer(browser, page)).leaves_for.startswith(redirect)
    await _asked(house, browser, redirect_uri=redirect)


async def test_ports_of_this_machine_do_not_pile_up_in_what_is_remembered(house: House) -> None:
    house.client(redirect_uris=("http://127.0.0.1/callback",))
    browser = None
    for port in (49152, 49153):
        browser, page = await _asked(
            house, browser, redirect_uri=f"http://127.0.0.1:{port}/callback"
        )
        await _answer(browser, page)
    (consent,) = house.stores.browsers.consents()
    assert consent.redirect_uri == "http://127.0.0.1/callback"


async def test_a_client_on_the_web_is_not_warned_of(house: House) -> None:
    house.client()
    _, page = await _asked(house)
    assert "warning" not in page.ids


async def test_the_name_of_a_client_cannot_be_more_than_a_name(house: House) -> None:
    house.client(name=f"<script>alert(1)</script>{HIDDEN}Trusted\x1b[2J{{{{ csrf }}}}")
    _, page = await _asked(house)
    assert "script" not in page.elements
    assert "<script>alert(1)</script>□202ETrusted□001B[2J{{ csrf }}" in page.text
    assert "It chose this name itself. Nobody has checked it." in page.text


async def test_of_a_document_the_host_is_certain_and_the_name_its_own_word(house: House) -> None:
    house.client(
        id="https://client.example/oauth/client.json",
        name="Your Bank",
        kind=ClientKind.DOCUMENT,
        fresh_until=NOW + 3600,
    )
    _, page = await _asked(house, client_id="https://client.example/oauth/client.json")
    assert "client.example It calls itself Your Bank . Only the host above is certain" in (
        page.text.replace("Your Bank.", "Your Bank .")
    )


async def test_an_administrators_word_for_a_client_is_told_as_such(house: House) -> None:
    house.client(
        kind=ClientKind.REGISTERED,
        resources=frozenset({"/mcp/mail"}),
        scopes=frozenset({"tools:list"}),
        auth_methods=frozenset({AuthMethod.BASIC}),
    )
    _, page = await _asked(house)
    assert "App It is registered with this gateway." in page.text
    assert page.ids["scopes"] == "See which tools there are"


def test_every_scope_has_words_and_an_unknown_one_stands_for_itself() -> None:
    told = in_words(frozenset(SCOPES) | {"<new>"})
    assert (len(told), told[-1]) == (len(SCOPES) + 1, "<new>")
    assert not set(told[:-1]) & set(SCOPES)


async def test_another_browser_cannot_answer(house: House) -> None:
    house.client()
    _, page = await _asked(house)
    stranger = house.browser()
    assert (await _answer(stranger, page)).status == 403
    also_alice = await house.signed_in()
    refused = await _answer(also_alice, page)
    assert (refused.status, refused.leaves_for) == (403, "")
    assert (await also_alice.get(page.url)).status == 403
    assert house.stores.browsers.consents() == []


async def test_another_person_in_the_same_browser_cannot_answer(house: House) -> None:
    house.client()
    await house.person()
    await house.person("bob")
    browser, page = await _asked(house)
    await house.enter(browser, await browser.get(house.url + "/sign-in?choose=yes"), "bob")
    assert (await _answer(browser, page)).status == 403
    assert (await browser.get(page.url)).status == 403
    assert house.stores.browsers.consents() == []


async def test_a_person_can_switch_before_they_answer(house: House) -> None:
    house.client()
    await house.person()
    await house.person("bob")
    browser, page = await _asked(house)
    page = await browser.follow(page, "switch")
    page = await house.enter(browser, page, "bob")
    assert "Bob (bob)" in page.text
    await _answer(browser, page)
    (consent,) = house.stores.browsers.consents()
    assert consent.user_id == "id-of-bob"


async def test_an_answer_counts_once(house: House) -> None:
    house.client()
    browser, page = await _asked(house)
    done = await asyncio.gather(*(_answer(browser, page) for _ in range(4)))
    assert sorted(answer.status for answer in done) == [200, 400, 400, 400]
    assert (await _answer(browser, page, "deny")).status == 400
    assert (await browser.get(page.url)).status == 400
    assert [code for _, _, code, _ in house.told].count("code_issued") == 1


async def test_an_answer_ten_minutes_later_is_too_late(house: House) -> None:
    house.client()
    browser, page = await _asked(house)
    house.clock.now += 600
    assert (await _answer(browser, page)).status == 400


async def test_a_signed_out_person_answers_nothing(house: House) -> None:
    house.client()
    browser, page = await _asked(house)
    house.stores.browsers.end_sessions("id-of-alice")
    refused = await _answer(browser, page)
    assert (refused.status, refused.links["next"]) == (403, "/sign-in")
    page = await browser.get(page.url)
    assert page.shows("sign-in")
    page = await house.enter(browser, page)
    assert "code" in answer_in((await _answer(browser, page)).leaves_for)


@pytest.mark.parametrize(
    "change",
    [
        {"csrf": ""},
        {"csrf": "0" * 64},
        {"csrf": "é"},
        {"action": ""},
        {"action": "approve please"},
        {"transaction": "0" * 32},
        {"transaction": ""},
    ],
)
async def test_a_form_that_is_not_as_we_made_it_is_refused(
    house: House, change: dict[str, str]
) -> None:
    house.client()
    browser, page = await _asked(house)
    answer = await browser.submit(page.form("consent"), page, **{"action": "approve", **change})
    assert (answer.status, answer.leaves_for) in [(403, ""), (400, "")]
    assert house.stores.browsers.consents() == []


async def test_the_token_of_one_consent_is_worth_nothing_at_another(house: House) -> None:
    house.client()
    browser, first = await _asked(house)
    _, second = await _asked(house, browser)
    forged = await browser.submit(
        second.form("consent"), second, action="approve", csrf=first.form("consent").fields["csrf"]
    )
    assert forged.status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "https://evil.example", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "null"},
        {"origin": "null"},
        {"origin": "null", "sec-fetch-site": "none"},
    ],
)
async def test_a_form_from_another_sites_page_is_refused_even_with_the_right_token(
    house: House, headers: dict[str, str]
) -> None:
    house.client()
    browser, page = await _asked(house)
    fields = page.form("consent").fields
    body = f"csrf={fields['csrf']}&transaction={fields['transaction']}&action=approve".encode()
    answer = await browser.send(
        "POST", house.url + "/consent", body=body, headers={**FORM, **headers}
    )
    assert answer.status == 403
    for own in ({"origin": house.url}, {"origin": "null", "sec-fetch-site": "same-origin"}):
        answer = await browser.send("POST", house.url + "/account", headers={**FORM, **own})
        assert "This form is not valid here any more." in answer.text


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"content-type": "multipart/form-data; boundary=x"}, b"action=approve", 415),
        ({"content-type": "text/plain"}, b"action=approve", 415),
        ({}, b"action=approve", 415),
        ({**FORM, "content-encoding": "gzip"}, b"action=approve", 415),
        (FORM, b"action=" + b"a" * LARGEST_BYTES, 413),
        (FORM, b"action=approve&action=deny", 400),
        (FORM, b"action", 400),
        (FORM, b"action=%ff", 400),
        (FORM, "action=é".encode(), 400),
        (FORM, b"&".join(b"f%d=1" % n for n in range(17)), 400),
    ],
)
async def test_what_no_form_of_ours_can_be_is_not_read(
    house: House, headers: dict[str, str], body: bytes, status: int
) -> None:
    answer = await house.browser().send("POST", house.url + "/consent", body=body, headers=headers)
    assert (answer.status, "cannot be read" in answer.text) == (status, status == 400)
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


async def test_a_form_that_says_yes_and_no_says_neither(house: House) -> None:
    house.client()
    browser, page = await _asked(house)
    fields = page.form("consent").fields
    body = (
        f"csrf={fields['csrf']}&transaction={fields['transaction']}&action=deny&action=approve"
    ).encode()
    answer = await browser.send("POST", house.url + "/consent", body=body, headers=FORM)
    assert (answer.status, answer.ids["message"]) == (400, "This form cannot be read.")
    assert house.stores.browsers.consents() == []


async def test_nothing_is_granted_unless_the_yes_can_be_recorded(house: House) -> None:
    house.client()
    browser, page = await _asked(house)
    house.log.failure = "disk full"
    answer = await _answer(browser, page)
    assert (answer.status, answer.leaves_for) == (503, "")
    assert house.stores.browsers.consents() == []
    assert house.stores.grants.grants() == []


async def test_a_client_that_is_gone_when_the_person_answers_gets_nothing(house: House) -> None:
    house.client()
    browser, page = await _asked(house)
    house.stores.clients.remove("dcr_app")
    assert (await _answer(browser, page)).status == 400


async def test_an_error_goes_to_the_client_at_once_only_for_somebody_we_know(house: House) -> None:
    # Anybody can register a client: without a person this would redirect wherever they like.
    house.client()
    await house.person()
    url = house.authorize(code_challenge_method="plain")
    page = await house.browser().get(url)
    assert (page.status, page.leaves_for) == (400, "")
    assert answer_in(page.links["next"])["error"] == "invalid_request"
    assert "go back to app.example" in page.text
    page = await (await house.signed_in()).get(url)
    assert answer_in(page.leaves_for)["error"] == "invalid_request"


@pytest.mark.parametrize(
    "changes",
    [{"client_id": "nobody"}, {"redirect_uri": "https://evil.example/cb"}, {"redirect_uri": ""}],
)
async def test_whoever_cannot_be_told_from_an_attacker_is_never_redirected_to(
    house: House, changes: dict[str, str]
) -> None:
    house.client()
    await house.person()
    for browser in (house.browser(), await house.signed_in()):
        page = await browser.get(house.authorize(**changes))
        assert (page.status // 100, page.leaves_for, "evil.example" in page.body) == (4, "", False)


async def test_an_authorization_request_is_made_by_get(house: House) -> None:
    browser = house.browser()
    answer = await browser.send("POST", house.url + "/oauth/authorize", headers=FORM)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_on_https_every_cookie_is_a_host_cookie(tmp_path) -> None:
    house = House(tmp_path, url=HTTPS)
    house.client()
    browser, page = await _asked(house)
    assert "code" in answer_in((await _answer(browser, page)).leaves_for)
    assert browser.set_cookies
    for line in browser.set_cookies:
        name, _, attributes = line.partition("=")
        assert name in {"__Host-douane-session", "__Host-douane-browser"}
        assert {"httponly", "path=/", "samesite=lax", "secure"} <= {
            part.strip().lower() for part in attributes.split(";")
        }
        assert "domain" not in line.lower()
    house.stores.close()


async def test_on_https_a_planted_cookie_without_the_prefix_is_no_consent(tmp_path) -> None:
    house = House(tmp_path, url=HTTPS)
    house.client()
    browser, page = await _asked(house)
    jar = browser.cookies["gateway.example"]
    for name in list(jar):
        jar[name.removeprefix("__Host-")] = jar.pop(name)
    assert (await _answer(browser, page)).status == 403
    assert house.stores.browsers.consents() == []
    house.stores.close()

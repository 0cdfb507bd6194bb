"""What Chromium makes of the pages' rules: policies, frames, cookies, forms of other sites."""

import asyncio
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import pytest
from playwright.async_api import BrowserContext

from tests.servers.process import free_port
from tests.signin_e2e.browser import Chromium, NoWayOn, Person, query_of
from tests.signin_e2e.callback import callback
from tests.signin_e2e.elsewhere import elsewhere
from tests.signin_e2e.house import House, asked

BLOCKED = "chrome-error://chromewebdata/"


async def signed_in(house: House, person: Person) -> None:
    async with callback() as back:
        await person.follow(await asyncio.to_thread(asked, house, back.uri))


async def consent_page(person: Person, url: str) -> str:
    """Open an authorization request in a signed-in browser; return the URL of its consent page."""

    async def open_it(context: BrowserContext) -> str:
        page = await context.new_page()
        try:
            await page.goto(url)
            assert await page.locator("button[name=action][value=approve]").count() == 1
            return page.url
        finally:
            await page.close()

    return await person.run(open_it)


async def test_the_answer_reaches_the_client_although_forms_may_lead_nowhere_else(
    gateway: House, emma: Person
) -> None:
    complaints: list[str] = []

    async def listen(context: BrowserContext) -> None:
        context.on("console", lambda message: complaints.append(message.text))

    await emma.run(listen)
    async with callback() as back:
        url = await asyncio.to_thread(asked, gateway, back.uri)
        end = await emma.follow(url)
        answer = await back.answer()
    assert end.startswith(f"{back.uri}?")
    assert (set(answer), answer["state"], answer["iss"]) == (
        {"code", "state", "iss"},
        "a state",
        gateway.url,
    )
    pages = [seen for seen in emma.seen if seen.url.startswith(gateway.url)]
    for seen in pages:
        assert "form-action 'self'" in seen.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in seen.headers["content-security-policy"]
        assert seen.headers["x-frame-options"] == "DENY"
        assert seen.headers["referrer-policy"] == "no-referrer"
        assert seen.headers["cache-control"] == "no-store"
    # The answer to the form is a page; what follows it is no redirect of the form.
    assert [seen.status for seen in emma.seen[-2:]] == [200, 200]
    assert complaints == []


async def test_the_page_says_where_the_answer_goes(gateway: House, emma: Person) -> None:
    async with callback() as back:
        await emma.follow(await asyncio.to_thread(asked, gateway, back.uri))
    assert emma.clicks[-1] == "approve"
    assert urlsplit(back.uri).netloc in emma.texts[-2]


async def test_a_framed_page_does_not_show(gateway: House, emma: Person) -> None:
    await signed_in(gateway, emma)
    async with callback() as back:
        url = await consent_page(emma, await asyncio.to_thread(asked, gateway, back.uri))
    frames = f'<iframe src="{gateway.url}/sign-in"></iframe><iframe src="{url}"></iframe>'

    async def look(context: BrowserContext) -> list[tuple[str, str]]:
        page = await context.new_page()
        try:
            async with page.expect_event("load"):
                await page.goto(trap)
            framed = page.frames[1:]
            return [(frame.url, await frame.inner_text("body")) for frame in framed]
        finally:
            await page.close()

    async with elsewhere("127.0.0.1", frames) as trap:
        shown = await emma.run(look)
    assert [url for url, _ in shown] == [BLOCKED, BLOCKED]
    assert not any("Allow" in text or "Password" in text for _, text in shown)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_another_sites_form_is_refused(gateway: House, emma: Person, host: str) -> None:
    """From another port, which is the same site and gets the cookies, and from another host."""
    await signed_in(gateway, emma)
    async with callback() as back:
        url = await consent_page(emma, await asyncio.to_thread(asked, gateway, back.uri))
    transaction = query_of(url)["transaction"]
    form = (
        f'<form method=post action="{gateway.url}/consent">'
        f'<input name=transaction value="{transaction}"><input name=csrf value=guessed>'
        "<button name=action value=approve>A kitten</button></form>"
    )

    async def fall_for_it(context: BrowserContext) -> tuple[int, str]:
        page = await context.new_page()
        try:
            await page.goto(trap)
            async with page.expect_navigation() as landed:
                await page.click("button")
            response = await landed.value
            assert response is not None
            return response.status, await page.inner_text("body")
        finally:
            await page.close()

    async with elsewhere(host, form) as trap:
        status, text = await emma.run(fall_for_it)
    assert status == 403
    assert "One moment" not in text


async def test_a_consent_of_another_browser_cannot_be_answered(
    gateway: House, emma: Person, browser: Chromium
) -> None:
    await signed_in(gateway, emma)
    async with callback() as back:
        url = await consent_page(emma, await asyncio.to_thread(asked, gateway, back.uri))
    with gateway.emma(browser) as elsewhere_:
        await signed_in(gateway, elsewhere_)
        with pytest.raises(NoWayOn, match=r"^40\d"):
            await elsewhere_.follow(url)
    assert "approve" not in elsewhere_.clicks


async def test_an_answer_is_given_once(gateway: House, emma: Person) -> None:
    """With the page open twice; whoever goes back finds no question any more."""

    async def answer_twice(context: BrowserContext) -> tuple[int, int]:
        first, second = [await context.new_page() for _ in range(2)]
        for page in (first, second):
            await page.goto(url)
        await first.click("#approve")
        await first.wait_for_url(f"{back.uri}?*")
        async with second.expect_navigation() as landed:
            await second.click("#approve")
        response = await landed.value
        assert response is not None
        await first.go_back()
        questions = await first.locator("#approve").count()
        for page in (first, second):
            await page.close()
        return response.status, questions

    await signed_in(gateway, emma)
    async with callback() as back:
        url = await consent_page(emma, await asyncio.to_thread(asked, gateway, back.uri))
        status, questions = await emma.run(answer_twice)
        assert 400 <= status < 500
        assert questions == 0
        await back.answer()
        assert back.answers.empty()


async def test_nobody_is_sent_to_an_address_that_the_client_has_not_registered(
    gateway: House, emma: Person
) -> None:
    registered = f"http://127.0.0.1:{free_port()}/callback"
    async with callback("/elsewhere") as other:
        url = await asyncio.to_thread(asked, gateway, registered, redirect_uri=other.uri)
        with pytest.raises(NoWayOn, match=r"^400"):
            await emma.follow(url)
        assert other.answers.empty()


def kept(cookies: Sequence[Mapping[str, object]]) -> set[tuple[object, ...]]:
    return {
        tuple(cookie[key] for key in ("name", "domain", "path", "httpOnly", "secure", "sameSite"))
        for cookie in cookies
    }


async def test_over_http_on_the_loopback_the_cookies_are_the_hosts_alone(
    gateway: House, emma: Person
) -> None:
    await signed_in(gateway, emma)
    assert kept(await emma.cookies()) == {
        ("douane-browser", "127.0.0.1", "/", True, False, "Lax"),
        ("douane-session", "127.0.0.1", "/", True, False, "Lax"),
    }


async def test_over_https_chromium_keeps_the_host_cookies(
    secure_gateway: House, browser: Chromium
) -> None:
    with secure_gateway.emma(browser) as emma:
        assert "You are signed in as" in await emma.sign_in(f"{secure_gateway.url}/account")
        assert kept(await emma.cookies()) == {
            ("__Host-douane-browser", "127.0.0.1", "/", True, True, "Lax"),
            ("__Host-douane-session", "127.0.0.1", "/", True, True, "Lax"),
        }

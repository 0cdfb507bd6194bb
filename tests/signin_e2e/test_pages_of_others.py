"""A program that is itself a page in a browser: what it may read across origins, and what not."""

import secrets
from collections.abc import Mapping
from typing import Any

from playwright.async_api import BrowserContext, Page
from playwright.async_api import Error as Refused

from tests.signin_e2e.browser import Person, query_of
from tests.signin_e2e.elsewhere import elsewhere
from tests.signin_e2e.house import House, challenge

_FETCH = """async ([url, options]) => {
  const response = await fetch(url, options);
  return [response.status, await response.json()];
}"""


async def fetched(page: Page, url: str, **options: Any) -> tuple[int, Mapping[str, Any]]:
    status, content = await page.evaluate(_FETCH, [url, options])
    return status, content


async def blocked(page: Page, url: str, **options: Any) -> bool:
    """Whether the browser keeps the answer from the page."""
    try:
        await page.evaluate(_FETCH, [url, options])
    except Refused as error:
        return "Failed to fetch" in str(error)
    return False


async def test_a_page_registers_itself_and_redeems_its_code(gateway: House, emma: Person) -> None:
    verifier = secrets.token_urlsafe(48)

    async def register(context: BrowserContext) -> tuple[str, str]:
        page = await context.new_page()
        await page.goto(home)
        where = f"{gateway.url}/.well-known/oauth-protected-resource/mcp/notes"
        _, resource = await fetched(page, where)
        (issuer,) = resource["authorization_servers"]
        _, server = await fetched(page, f"{issuer}/.well-known/oauth-authorization-server")
        status, client = await fetched(
            page,
            server["registration_endpoint"],
            method="POST",
            headers={"Content-Type": "application/json"},
            body=f'{{"redirect_uris": ["{home}"], "token_endpoint_auth_method": "none"}}',
        )
        assert status == 201
        await page.close()
        return server["authorization_endpoint"], client["client_id"]

    async def redeem(context: BrowserContext) -> Mapping[str, Any]:
        page = await context.new_page()
        await page.goto(home)
        form = (
            f"grant_type=authorization_code&code={answer['code']}&client_id={client_id}"
            f"&redirect_uri={home}&code_verifier={verifier}"
        )
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        status, token = await fetched(
            page, f"{gateway.url}/oauth/token", method="POST", headers=kind, body=form
        )
        assert status == 200, token
        await page.close()
        return token

    async with elsewhere("localhost", "a program") as home:
        endpoint, client_id = await emma.run(register)
        request = (
            f"response_type=code&client_id={client_id}&redirect_uri={home}&state=x"
            f"&scope=tools:list&resource={gateway.site.endpoint}&code_challenge_method=S256"
            f"&code_challenge={challenge(verifier)}"
        )
        answer = query_of(await emma.follow(f"{endpoint}?{request}"))
        token = await emma.run(redeem)
    assert (token["token_type"], token["scope"]) == ("Bearer", "tools:list")


async def test_a_page_of_another_site_reads_nothing_that_is_a_persons(
    gateway: House, emma: Person
) -> None:
    assert "You are signed in as" in await emma.sign_in(f"{gateway.url}/account")

    async def look(context: BrowserContext) -> list[bool]:
        page = await context.new_page()
        await page.goto(home)
        found = [
            await blocked(page, f"{gateway.url}{path}", credentials="include")
            for path in ("/account", "/sign-in", "/consent", "/oauth/authorize")
        ]
        probe = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
        headers = {"Content-Type": "application/json"}
        mcp = {"method": "POST", "headers": headers, "body": probe}
        found.append(await blocked(page, gateway.site.endpoint, **mcp))
        await page.close()
        return found

    async with elsewhere("localhost", "a page") as home:
        assert all(await emma.run(look))

"""People who have signed in meet questions about their own calls, and about others'."""

import json
import secrets
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.e2e.own import own_gateway
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw
from tests.e2e.site import Corridor
from tests.signin.browser import Browser, over_http
from tests.signin_e2e.house import challenge, register

POLICY = """\
package douane

decision := {"verdict": "ask", "reasons": [{"code": "outside", "message": "it goes outside"}]} if {
	input.phase == "call"
	not is_object(input.approval)
} else := {"verdict": "allow", "reasons": []}

default self_approval := false

self_approval if startswith(input.arguments.text, "mine")
"""
CALLBACK = "http://127.0.0.1:9/callback"
PASSWORD = "four quite common words"
URL_MODE: dict[str, Any] = {
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}
}
FORM_MODE: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}


@pytest.fixture(scope="module")
def corridor(tmp_path_factory: pytest.TempPathFactory, session_raw: Raw) -> Iterator[Corridor]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "policies").mkdir()
    (folder / "policies" / "asks.rego").write_text(POLICY)
    with own_gateway(folder / "gateway", session_raw, folder / "policies") as corridor:
        yield corridor


async def person(corridor: Corridor, name: str, *groups: str) -> Browser:
    """Add a person, in whose browser they are signed in."""
    options = [option for group in groups for option in ("--group", group)]
    (row,) = corridor.running.rows("users", "add", name, *options)
    browser = Browser(over_http(), reaches=lambda url: url.startswith(f"{corridor.url}/"))
    page = await browser.get(row["setup_url"])
    page = await browser.submit(page.form(), page, password=PASSWORD, repeated=PASSWORD)
    page = await browser.get(f"{corridor.url}/account")
    await browser.submit(page.form("sign-in"), page, username=name, password=PASSWORD)
    return browser


async def poster_of(corridor: Corridor, browser: Browser) -> Poster:
    """Let a client in; return what calls for the person."""
    verifier, client = secrets.token_urlsafe(48), register(corridor.url, CALLBACK)
    grant = {"client_id": client, "redirect_uri": CALLBACK, "resource": corridor.endpoint("raw")}
    asked = {
        **grant,
        "response_type": "code",
        "scope": "tools:list tools:call",
        "state": "s",
        "code_challenge": challenge(verifier),
        "code_challenge_method": "S256",
    }
    page = await browser.get(f"{corridor.url}/oauth/authorize?{urlencode(asked)}")
    left = await browser.submit(page.form("consent"), page, action="approve")
    (code,) = parse_qs(urlsplit(left.leaves_for).query)["code"]
    form = {**grant, "grant_type": "authorization_code", "code": code, "code_verifier": verifier}
    data = urlencode(form).encode()
    with urllib.request.urlopen(f"{corridor.url}/oauth/token", data, timeout=60) as answer:
        token = json.load(answer)["access_token"]
    poster = Poster(corridor, "raw")
    poster.token = token
    return poster


def call(poster: Poster, text: str, meta: dict[str, Any] | None = None, **more: Any) -> Any:
    params = {"name": "allowed", "arguments": {"text": text}, "_meta": meta or {}, **more}
    return poster.modern("tools/call", params).json["result"]


def refusal(result: Any) -> Any:
    return result["_meta"]["douane/refusal"]


async def test_people_answer_for_themselves_only_where_policy_says_so(
    corridor: Corridor, session_raw: Raw
) -> None:
    session_raw.forget()
    emma = await person(corridor, "emma", "users", "security")
    poster = await poster_of(corridor, emma)

    # Nothing is offered, and the approver who asks is not the one who answers.
    refused = call(poster, "others decide", URL_MODE)
    assert (refused["isError"], "url" in refusal(refused)) == (True, False)
    id_ = refusal(refused)["approval_id"]
    page = await emma.get(f"{corridor.url}/approve/{id_}")
    assert (page.status, page.forms) == (400, [])

    # Somebody else who approves lets it out, on the same page.
    ada = await person(corridor, "ada", "users", "security")
    page = await ada.get(f"{corridor.url}/approve/{id_}")
    assert page.ids["arguments"] == "text others decide"
    done = await ada.submit(page.form("approve-question"), page, action="once")
    assert done.title == "Allowed · Douane"
    assert "isError" not in call(poster, "others decide")

    # What policy leaves to the person is offered in band, and their yes is enough.
    offered = call(poster, "mine", URL_MODE)
    asked = offered["inputRequests"]["douane-approval"]["params"]
    assert (offered["resultType"], asked["mode"]) == ("input_required", "url")
    page = await emma.get(asked["url"])
    await emma.submit(page.form("approve-question"), page, action="once")
    back = {"douane-approval": {"action": "accept"}}
    assert "isError" not in call(poster, "mine", URL_MODE, inputResponses=back)
    assert session_raw.methods.count("tools/call") == 2

    # And to nobody who neither made the call nor approves.
    id_ = refusal(call(poster, "mine again"))["approval_id"]
    bob = await person(corridor, "bob", "users")
    page = await bob.get(f"{corridor.url}/approve/{id_}")
    assert (page.status, page.forms) == (400, [])

    rows = corridor.running.rows("audit", "query", "--where", "code = 'allowed'")
    assert sorted(row["principal"] for row in rows) == ["user:ada", "user:emma"]


async def test_a_client_that_shows_forms_asks_the_person_itself(
    corridor: Corridor, session_raw: Raw
) -> None:
    session_raw.forget()
    poster = await poster_of(corridor, await person(corridor, "fred", "users"))
    offered = call(poster, "mine in a form", FORM_MODE)
    assert offered["inputRequests"]["douane-approval"]["params"]["mode"] == "form"
    yes = {"douane-approval": {"action": "accept", "content": {"approve": True}}}
    state = offered["requestState"]
    forged = call(poster, "mine, too", FORM_MODE, inputResponses=yes, requestState=state)
    assert refusal(forged)["code"] == "approval_required"
    done = call(poster, "mine in a form", FORM_MODE, inputResponses=yes, requestState=state)
    assert "isError" not in done
    again = call(poster, "mine in a form", FORM_MODE, inputResponses=yes, requestState=state)
    assert refusal(again)["code"] == "approval_required"
    rows = corridor.running.rows("audit", "query", "--where", "method = 'approvals.form'")
    assert [(row["principal"], row["code"]) for row in rows] == [("fred", "allowed")]

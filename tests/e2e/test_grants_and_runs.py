"""No road to another grant sheds what a run has read; a person's tick on the consent page does."""

import base64
import json
import secrets
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.e2e.own import own_gateway
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw
from tests.e2e.site import Corridor
from tests.running import ALL, endpoint_of
from tests.servers.process import ROOT
from tests.signin.browser import Browser, Page, over_http
from tests.signin_e2e.house import challenge, register

LOOPBACK = "http://127.0.0.1:9/callback"
REMOTE = "https://app.example/callback"
PASSWORD = "four quite common words"
READS = "tools:list tools:call"
WRITES = f"{READS} tools:write"


@pytest.fixture(scope="module")
def corridor(tmp_path_factory: pytest.TempPathFactory, session_raw: Raw) -> Iterator[Corridor]:
    folder = tmp_path_factory.mktemp("grants")
    with own_gateway(folder, session_raw, ROOT / "policies") as corridor:
        yield corridor


class Signed:
    """A client that somebody lets in, again and again, and its session."""

    def __init__(
        self, at: Corridor, browser: Browser, *, client: Mapping[str, str], uri: str, server: str
    ) -> None:
        self.at, self.browser, self.client, self.uri = at, browser, client, uri
        self.tool = "raw__{}" if server == ALL else "{}"
        self.poster = Poster(at, server)
        self.session: tuple[str, str] | None = None

    async def asks(self, scope: str, **more: str) -> Page:
        """Send the person's browser here for a grant; return the page that it ends at."""
        self.verifier = secrets.token_urlsafe(48)
        return await self.browser.get(
            f"{self.at.url}/oauth/authorize?"
            + urlencode(
                {
                    **self._named,
                    "response_type": "code",
                    "scope": scope,
                    "state": "s",
                    "code_challenge": challenge(self.verifier),
                    "code_challenge_method": "S256",
                    **more,
                }
            )
        )

    async def let_in(self, scope: str, **fields: str) -> None:
        page = await self.asks(scope)
        page = await self.browser.submit(page.form("consent"), page, action="approve", **fields)
        self.redeems(page.leaves_for)

    def redeems(self, location: str) -> None:
        """Have a new grant's token, and go on in the same session."""
        (code,) = parse_qs(urlsplit(location).query)["code"]
        form = {
            **self._named,
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": self.verifier,
        }
        request = urllib.request.Request(f"{self.at.url}/oauth/token", urlencode(form).encode())
        if secret := self.client.get("client_secret"):
            basic = base64.b64encode(f"{self.client['client_id']}:{secret}".encode()).decode()
            request.add_header("Authorization", f"Basic {basic}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.poster.token = json.load(answer)["access_token"]
        if self.session is None:
            self.session = ("Mcp-Session-Id", self.poster.session())

    @property
    def _named(self) -> dict[str, str]:
        return {
            "client_id": self.client["client_id"],
            "redirect_uri": self.uri,
            "resource": self.poster.url,
        }

    def calls(self, tool: str) -> Any:
        """Call it in the session; return the refusal, or `None`."""
        assert self.session is not None
        params = {"name": self.tool.format(tool), "arguments": {}}
        answered = self.poster.legacy("tools/call", params, self.session)
        if answered.status == 403:
            return {"code": "insufficient_scope"}
        result = answered.json["result"]
        return result["_meta"]["douane/refusal"] if result.get("isError") else None

    def must_ask(self) -> str:
        refused = self.calls("remove")
        assert refused["code"] == "approval_required", refused
        found: str = refused["approval_id"]
        return found


async def person(corridor: Corridor, *options: str) -> Browser:
    """Add somebody, by default a user and nothing more; return where they are signed in."""
    name = f"emma-{secrets.token_hex(4)}"
    (row,) = corridor.running.rows("users", "add", name, *(options or ("--group", "users")))
    browser = Browser(over_http(), reaches=lambda url: url.startswith(f"{corridor.url}/"))
    page = await browser.get(row["setup_url"])
    await browser.submit(page.form(), page, password=PASSWORD, repeated=PASSWORD)
    page = await browser.get(f"{corridor.url}/account")
    await browser.submit(page.form("sign-in"), page, username=name, password=PASSWORD)
    return browser


async def public(at: Corridor, server: str = "raw", uri: str = LOOPBACK) -> Signed:
    client = {"client_id": register(at.url, uri)}
    return Signed(at, await person(at), client=client, uri=uri, server=server)


async def confidential(at: Corridor, server: str = "raw") -> Signed:
    (made,) = at.running.rows(
        *("clients", "add", f"web-{secrets.token_hex(4)}", "--grant", "authorization_code"),
        *("--redirect-uri", REMOTE, "--resource", endpoint_of(server)),
        *(part for scope in WRITES.split() for part in ("--scope", scope)),
    )
    return Signed(at, await person(at), client=made, uri=REMOTE, server=server)


@pytest.mark.parametrize("server", ["raw", ALL])
async def test_step_up_waits_for_the_person_who_should_look_and_sheds_nothing(
    corridor: Corridor, session_raw: Raw, server: str
) -> None:
    session_raw.forget()
    signed = await public(corridor, server)
    await signed.let_in(READS)
    assert signed.calls("remove") == {"code": "insufficient_scope"}  # nothing else is against it
    assert signed.calls("page") is None
    asked = signed.must_ask()
    await signed.let_in(WRITES)
    assert signed.must_ask() == asked
    assert session_raw.methods.count("tools/call") == 1


@pytest.mark.parametrize("server", ["raw", ALL])
async def test_a_yes_before_the_step_up_lets_one_call_out_after_it(
    corridor: Corridor, session_raw: Raw, server: str
) -> None:
    session_raw.forget()
    signed = await public(corridor, server)
    await signed.let_in(READS)
    assert signed.calls("page") is None
    corridor.running.rows("approvals", "allow", signed.must_ask())
    for _ in range(2):
        assert signed.calls("remove") == {"code": "insufficient_scope"}
    await signed.let_in(WRITES)
    assert signed.calls("remove") is None
    signed.must_ask()
    assert session_raw.methods.count("tools/call") == 2


@pytest.mark.parametrize("kind", ["public", "confidential"])
async def test_a_remembered_consent_joins_the_live_run(
    corridor: Corridor, session_raw: Raw, kind: str
) -> None:
    session_raw.forget()
    signed = await (confidential(corridor) if kind != "public" else public(corridor, uri=REMOTE))
    await signed.let_in(WRITES)
    assert signed.calls("remove") is None  # this run has read nothing
    assert signed.calls("page") is None
    signed.must_ask()
    for more in ({}, {"scope": READS}, {"scope": WRITES, "new_task": "yes"}):
        page = await signed.asks(**{"scope": WRITES, **more})
        assert page.leaves_for.startswith(REMOTE)  # nobody was asked
        signed.redeems(page.leaves_for)
        if more.get("scope") != READS:
            signed.must_ask()
    assert session_raw.methods.count("tools/call") == 2


async def test_a_call_that_needs_another_scope_leads_to_no_clean_run(
    corridor: Corridor, session_raw: Raw
) -> None:
    session_raw.forget()
    signed = await public(corridor)
    await signed.let_in(WRITES)
    assert signed.calls("page") is None
    assert signed.session is not None
    assert signed.poster.legacy("resources/list", {}, signed.session).status == 403
    await signed.let_in(f"{WRITES} resources")
    signed.must_ask()
    # Neither does one that registers itself anew, under the name that it had.
    signed.client = {"client_id": register(corridor.url, LOOPBACK)}
    signed.session = None
    await signed.let_in(WRITES)
    signed.must_ask()
    assert session_raw.methods.count("tools/call") == 1


@pytest.mark.parametrize("server", ["raw", ALL])
async def test_a_person_says_on_the_page_that_a_new_task_begins(
    corridor: Corridor, session_raw: Raw, server: str
) -> None:
    session_raw.forget()
    signed = await public(corridor, server)
    await signed.let_in(WRITES)
    assert signed.calls("page") is None
    signed.must_ask()
    page = await signed.asks(WRITES)
    assert "untrusted, private data for you from raw" in page.ids["has-read"]
    await signed.let_in(WRITES, new_task="yes")
    assert signed.calls("remove") is None
    (row,) = corridor.running.rows(
        *(
            "audit",
            "query",
            "--where",
            f"code = 'new_task' and client = '{signed.client['client_id']}'",
        )
    )
    assert (row["kind"], row["label_before"]["integrity"]) == ("run", "untrusted")
    assert row["run"] in {run["run"] for run in corridor.running.rows("runs", "list")}

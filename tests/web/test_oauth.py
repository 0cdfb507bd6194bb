"""The OAuth routes over HTTP, and clients of the MCP SDK that find their own way in."""

import time
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2
import orjson
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gateway.domain.identity import BearerToken
from gateway.errors import IdentityUnavailable, Unauthenticated
from gateway.oauth.authorization import AuthorizationEndpoint
from gateway.oauth.builtin import with_builtin
from gateway.oauth.documents import ClientDirectory, DocumentRules
from gateway.oauth.metadata import Metadata, Offers
from gateway.oauth.protocol import token_hash
from gateway.oauth.registration import (
    LARGEST_METADATA_BYTES,
    RegistrationEndpoint,
    RegistrationRules,
)
from gateway.web.guard import UNREAD
from gateway.web.oauth import FROM_ANYWHERE, LARGEST_FORM_BYTES, IssuingEndpoints, oauth_routes
from gateway.web.peers import client_address
from tests.oauth.house import Page, Web, answer_in
from tests.oauth.issuing import ALICE, APP, Issuer
from tests.oauth.world import KEYS, MAIL, MAIL_URI, PUBLIC_URL, RESOURCES, Hand, client
from tests.web.asgi import Exchange

NEW = client()
FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json"}
BODY = urlencode(
    {
        "grant_type": "client_credentials",
        "client_id": NEW.client.id,
        "client_secret": NEW.secret,
    }
).encode()
CALLBACK = "http://localhost:6274/oauth/callback"
WISH: dict[str, Any] = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
OUR_OWN = {"client_id": "https://gateway.example/oauth/client-metadata.json"}
DOCUMENT_URL = "https://app.example/oauth/client.json"
WELL_KNOWN = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-protected-resource/mcp/mail",
    "/.well-known/oauth-protected-resource/api/v1",
    "/oauth/client-metadata.json",
    "/oauth/jwks.json",
]
POSTED = ["/oauth/token", "/oauth/register", "/oauth/revoke"]


class House:
    """The OAuth routes, and an endpoint behind the gate that says who came in."""

    def __init__(self, folder: Path) -> None:
        self.issuer = Issuer(folder, NEW.client, clock=Hand(time.time()))
        self.log, self.web = self.issuer.log, Web()
        clients, clock = self.issuer.stores.clients, self.issuer.clock
        new_id = map("front-{}".format, count()).__next__
        self.authorization = AuthorizationEndpoint(
            server=self.issuer.server,
            directory=ClientDirectory(
                find=with_builtin(clients),
                clients=clients,
                fetcher=self.web,
                audit=self.log,
                clock=clock,
                new_id=new_id,
                rules=DocumentRules(),
            ),
            audit=self.log,
            clock=clock,
        )
        self.metadata = Metadata(RESOURCES, Offers())
        registration = RegistrationEndpoint(
            rules=RegistrationRules(),
            clients=clients,
            audit=self.log,
            clock=clock,
            new_id=new_id,
            random=self.issuer.server.random,
        )
        issuing = IssuingEndpoints(
            jwks=lambda: KEYS.jwks,
            token=self.issuer.endpoint,
            registration=registration,
            revocation=self.issuer.revocation,
            device=self.issuer.devices,
        )
        routes = [
            *oauth_routes(self.metadata, issuing, lambda: OUR_OWN, client_address(())),
            Route(MAIL, self._mail, methods=["POST"]),
        ]
        self.app = app_of(routes)
        self.http = over(self.app)

    async def _mail(self, request: Request) -> Response:
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        credential = BearerToken(text=text) if scheme == "Bearer" else None
        url, scopes = self.metadata.challenge_for(MAIL)
        try:
            principal = await self.issuer.gate.authenticate(credential, MAIL)
        except Unauthenticated:
            return challenged(401, f'resource_metadata="{url}", scope="{" ".join(scopes)}"')
        need = request.headers.get("x-needs")
        if need and need not in principal.scopes:
            held = " ".join(sorted({*principal.scopes, need}))
            told = f'error="insufficient_scope", scope="{held}", resource_metadata="{url}"'
            return challenged(403, told)
        return PlainTextResponse(" ".join([principal.subject, *sorted(principal.scopes)]))


def challenged(status: int, told: str) -> Response:
    return Response(status_code=status, headers={"www-authenticate": f"Bearer {told}"})


def app_of(routes: list[Route]) -> Starlette:
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False  # as in the whole listener
    return app


def over(app: Starlette) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app, client=("192.0.2.7", 1)),
        base_url=PUBLIC_URL,
    )


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    async with house.http:
        yield house
    house.issuer.stores.close()


@pytest.mark.parametrize("path", WELL_KNOWN)
async def test_a_public_document_may_be_read_from_anywhere(house, path):
    answer = await house.http.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "method"),
    [*((path, "GET") for path in WELL_KNOWN), *((path, "POST") for path in POSTED)],
)
async def test_a_browser_may_ask_first(house, path, method):
    answer = await house.http.options(path, headers={"origin": "https://a.test"})
    assert answer.status_code == 204
    assert {
        name: text for name, text in answer.headers.items() if name.startswith("access-control")
    } == {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": f"{method}, OPTIONS",
        "access-control-allow-headers": "authorization, content-type, dpop, mcp-protocol-version",
        "access-control-max-age": "600",
    }


@pytest.mark.parametrize("path", POSTED)
async def test_whatever_is_posted_a_page_elsewhere_may_read_the_answer(house, path):
    for headers in ({}, FORM, JSON):
        answer = await house.http.post(path, content=b"{", headers=headers)
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers


async def test_what_pages_elsewhere_may_use_is_named_for_the_guard():
    assert set(POSTED) <= set(FROM_ANYWHERE)
    own = "/oauth/client-metadata.json"
    assert all(path.startswith(FROM_ANYWHERE) for path in WELL_KNOWN if path != own)
    for path in ("/oauth/authorize", "/oauth/device_authorization", MAIL, "/sign-in", "/consent"):
        assert not path.startswith(FROM_ANYWHERE)


async def test_no_page_begins_at_the_device_endpoint(house):
    path = "/oauth/device_authorization"
    assert (await house.http.options(path)).status_code == 405
    answer = await house.http.post(path, content=b"client_id=douane-cli", headers=FORM)
    assert answer.status_code == 200
    assert answer.json()["verification_uri"] == PUBLIC_URL + "/device"
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", WELL_KNOWN[:-1])
async def test_no_document_repeats_the_host_of_the_request(house, path):
    honest = await house.http.get(path)
    forged = await house.http.get(
        path, headers={"host": "evil.example", "x-forwarded-host": "evil.example"}
    )
    assert forged.json() == honest.json()
    assert b"evil" not in forged.content


async def test_each_path_gives_its_own_document(house):
    metadata = house.metadata
    found = [(await house.http.get(path)).json() for path in WELL_KNOWN]
    assert found == [
        metadata.authorization_server,
        metadata.protected_resource("/mcp"),
        metadata.protected_resource("/mcp"),
        metadata.protected_resource(MAIL),
        metadata.protected_resource("/api/v1"),
        OUR_OWN,
        KEYS.jwks,
    ]


async def test_the_published_keys_hold_no_private_part(house):
    for key in (await house.http.get("/oauth/jwks.json")).json()["keys"]:
        assert key.keys() == {"kty", "crv", "x", "y", "kid", "use", "alg"}


@pytest.mark.parametrize(
    "path", ["/mcp/none", "/mcp/mail/x", "/mcp/mail%2fx", "/mcp/..%2fmcp", "/other", "/api/v1/"]
)
async def test_an_unknown_server_has_no_document(house, path):
    answer = await house.http.get("/.well-known/oauth-protected-resource" + path)
    assert answer.status_code == 404


async def test_we_are_no_openid_provider(house):
    assert (await house.http.get("/.well-known/openid-configuration")).status_code == 404


async def test_where_another_server_issues_the_tokens_nothing_of_ours_is_left():
    metadata = Metadata(RESOURCES, Offers(external_issuer="https://login.example"))
    routes = oauth_routes(metadata, None, lambda: OUR_OWN, client_address(()))
    async with over(app_of(routes)) as http:
        for path in ("/.well-known/oauth-authorization-server", "/oauth/jwks.json"):
            assert (await http.get(path)).status_code == 404
        for path in (*POSTED, "/oauth/device_authorization"):
            assert (await http.post(path, content=BODY, headers=FORM)).status_code == 404
        mail = await http.get("/.well-known/oauth-protected-resource/mcp/mail")
        assert mail.json()["authorization_servers"] == ["https://login.example"]
        assert (await http.get("/oauth/client-metadata.json")).json() == OUR_OWN


async def test_a_token_answer_is_never_stored(house):
    answer = await house.http.post("/oauth/token", content=BODY, headers=FORM)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["token_type"] == "Bearer"
    assert [record.fields["source_ip"] for record in house.log.records] == ["192.0.2.7"]


async def test_that_an_answer_reached_nobody_is_noted_beside_its_token(house):
    house.issuer.stores.clients.add(APP)
    text = (await house.issuer.signed_in())["refresh_token"]
    form = {"grant_type": "refresh_token", "refresh_token": text, "client_id": APP.id}
    headers = [(name.encode(), said.encode()) for name, said in FORM.items()]
    for is_gone in (False, True):
        client = Exchange(chunks=[urlencode(form).encode()])
        if is_gone:
            client.gone.set()
        await client.ask(house.app, "POST", "/oauth/token", headers)
        token = house.issuer.stores.grants.refresh_token(token_hash(text))
        assert (token.lost_at is not None) is is_gone


async def test_every_proof_comes_along(house):
    seen = []
    house.issuer.endpoint._proof_of = lambda request: seen.append(request.proofs)
    headers = [*FORM.items(), ("dpop", "one"), ("dpop", "two")]
    assert (await house.http.post("/oauth/token", content=BODY, headers=headers)).status_code == 200
    assert seen == [("one", "two")]


async def test_a_refusal_is_never_stored_either(house):
    answer = await house.http.post("/oauth/token", content=b"", headers=FORM)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["www-authenticate"].startswith("Basic ")


async def test_without_a_record_the_answer_is_503_and_holds_no_token(house):
    house.log.failure = "no disk"
    answer = await house.http.post("/oauth/token", content=BODY, headers=FORM)
    assert answer.status_code == 503
    assert "access_token" not in answer.json()


async def test_a_secret_in_the_query_is_refused(house):
    answer = await house.http.post(
        "/oauth/token?" + BODY.decode(), content=b"grant_type=client_credentials", headers=FORM
    )
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_two_authorization_headers_are_refused(house):
    answer = await house.http.post(
        "/oauth/token",
        content=b"grant_type=client_credentials",
        headers=[*FORM.items(), ("authorization", "Basic YTpi"), ("authorization", "Basic YTpi")],
    )
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


OTHER_KINDS: list[dict[str, str]] = [
    {},
    {"content-type": "multipart/form-data; boundary=x"},
    {"content-type": "text/plain"},
]


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        *((path, kind) for path in POSTED for kind in OTHER_KINDS),
        ("/oauth/token", JSON),
        ("/oauth/revoke", JSON),
        ("/oauth/device_authorization", JSON),
        ("/oauth/register", FORM),
        ("/oauth/token", {**FORM, "content-encoding": "gzip"}),
        ("/oauth/register", {**JSON, "content-encoding": "gzip"}),
    ],
    ids=str,
)
async def test_what_is_of_another_kind_is_refused_unread(house, path, headers):
    answer = await house.http.post(path, content=BODY, headers=headers)
    assert answer.status_code == 415
    assert answer.headers["cache-control"] == "no-store"
    assert house.log.records == []


AS_SENT: list[dict[str, str]] = [
    *OTHER_KINDS,
    FORM,
    JSON,
    {**FORM, "content-encoding": "gzip"},
    {**JSON, "content-encoding": "gzip"},
    {**FORM, "authorization": "Basic !"},
    {**FORM, "authorization": "Bearer x"},
    {**JSON, "authorization": "Bearer x"},
    {**FORM, "dpop": "x"},
]
HOSTILE = [
    b"",
    b"%FF=%FE",
    b"a=1&a=2",
    b"grant_type=none&client_id=nobody",
    b"client_id=nobody&client_secret=x&token=y",
    b"[]",
    b'{"redirect_uris": ["javascript:alert(1)"]}',
    b"x" * (LARGEST_FORM_BYTES + 1),
]


@pytest.mark.parametrize("headers", AS_SENT, ids=str)
@pytest.mark.parametrize("query", [b"", b"client_secret=x"])
async def test_whatever_a_program_is_refused_is_one_record_or_counted(house, headers, query):
    counted = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["query_string"] = query
        await house.app(scope, receive, send)
        counted.append(scope.get(UNREAD))

    fields = [(name.encode(), told.encode()) for name, told in headers.items()]
    for path in (*POSTED, "/oauth/device_authorization"):
        for body in HOSTILE:
            before = len(house.log.records)
            answer = await Exchange(chunks=[body]).ask(app, "POST", path, fields)
            assert answer.status >= 400, (path, body[:20])
            told = house.log.records[before:]
            assert len(told) + (counted[-1] is not None) == 1, (path, body[:20])
            assert all(one.fields["verdict"] == "deny" for one in told)


async def test_that_a_client_could_not_be_stored_is_on_record_too(house, monkeypatch):
    def full(client: Any) -> None:
        raise IdentityUnavailable("the disk is full")

    monkeypatch.setattr(house.issuer.stores.clients, "add", full)
    assert (await house.http.post("/oauth/register", json=WISH)).status_code == 503
    told = [(one.fields["verdict"], one.id) for one in house.log.records]
    assert [verdict for verdict, _ in told] == ["allow", "deny"]
    assert len({id_ for _, id_ in told}) == 2


async def test_a_form_may_name_its_charset(house):
    headers = {"content-type": "Application/X-WWW-Form-Urlencoded; charset=UTF-8"}
    assert (await house.http.post("/oauth/token", content=BODY, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("path", "headers", "start", "size", "status"),
    [
        ("/oauth/token", FORM, BODY + b"&pad=", LARGEST_FORM_BYTES, 200),
        ("/oauth/token", FORM, BODY + b"&pad=", LARGEST_FORM_BYTES + 1, 413),
        ("/oauth/register", JSON, orjson.dumps(WISH), LARGEST_METADATA_BYTES, 201),
        ("/oauth/register", JSON, orjson.dumps(WISH), LARGEST_METADATA_BYTES + 1, 413),
    ],
)
async def test_what_is_posted_may_be_so_large_and_no_larger(
    house, *, path, headers, start, size, status
):
    async def chunks() -> AsyncIterator[bytes]:
        padded = start.ljust(size, b"x" if headers is FORM else b" ")
        for begin in range(0, size, 9000):
            yield padded[begin : begin + 9000]

    answer = await house.http.post(path, content=chunks(), headers=headers)
    assert answer.status_code == status


@pytest.mark.parametrize("path", [*POSTED, "/oauth/device_authorization"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_what_takes_a_post_takes_nothing_else(house, method, path):
    assert (await house.http.request(method, path)).status_code == 405


async def test_a_client_registers_itself(house):
    answer = await house.http.post("/oauth/register", json=WISH)
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json()["client_id"].startswith("dcr_")
    assert [record.fields["source_ip"] for record in house.log.records] == ["192.0.2.7"]


async def test_a_registration_that_is_refused_says_why(house):
    answer = await house.http.post("/oauth/register", json={"redirect_uris": ["data:,x"]})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_redirect_uri")


async def test_a_token_is_given_back(house):
    text = await token_of(house)
    form = {"token": text, "client_id": NEW.client.id, "client_secret": NEW.secret}
    answer = await house.http.post("/oauth/revoke", data=form)
    assert answer.status_code == 200
    headers = {"authorization": f"Bearer {text}"}
    assert (await house.http.post(MAIL, headers=headers)).status_code == 401


async def token_of(house: House) -> str:
    answer = await house.http.post("/oauth/token", content=BODY, headers=FORM)
    text: str = answer.json()["access_token"]
    return text


async def test_the_token_opens_its_endpoint(house):
    headers = {"authorization": f"Bearer {await token_of(house)}"}
    assert (await house.http.post(MAIL, headers=headers)).status_code == 200


async def test_a_token_in_the_query_or_in_the_form_is_no_credential(house):
    text = await token_of(house)
    assert (await house.http.post(f"{MAIL}?access_token={text}")).status_code == 401
    assert (await house.http.post(MAIL, data={"access_token": text})).status_code == 401


class Shelf:
    """Where the SDK keeps what it got."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_client_of_the_mcp_sdk_finds_its_way_from_the_challenge_to_a_token(
    house, method: Any
):
    shelf = Shelf()
    provider = ClientCredentialsOAuthProvider(
        server_url=MAIL_URI,
        storage=shelf,
        client_id=NEW.client.id,
        client_secret=NEW.secret,
        token_endpoint_auth_method=method,
        issuer=PUBLIC_URL,
    )
    answer = await house.http.post(MAIL, auth=provider)
    assert answer.text == f"{NEW.client.id} tools:call tools:list"
    assert shelf.tokens is not None
    assert shelf.tokens.scope == "tools:list tools:call"


class Person:
    """A browser in which Alice says yes to whatever she is asked."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.asked: list[dict[str, str]] = []
        self._location = ""

    async def open(self, url: str) -> None:
        assert url.startswith(PUBLIC_URL + "/oauth/authorize?")
        self.asked.append(answer_in(url))
        endpoint = self._house.authorization
        begun = await endpoint.begin(urlsplit(url).query.encode(), "192.0.2.7")
        self._location = await endpoint.approve(begun.request, ALICE, "192.0.2.7")

    async def come_back(self) -> AuthorizationCodeResult:
        answer = answer_in(self._location)
        return AuthorizationCodeResult(
            code=answer["code"], state=answer["state"], iss=answer["iss"]
        )


def signing_in(house: House, shelf: Shelf, **more: Any) -> tuple[Person, OAuthClientProvider]:
    person = Person(house)
    wish = OAuthClientMetadata.model_validate({"client_name": "SDK", **WISH})
    provider = OAuthClientProvider(
        server_url=MAIL_URI,
        client_metadata=wish,
        storage=shelf,
        redirect_handler=person.open,
        callback_handler=person.come_back,
        **more,
    )
    return person, provider


async def test_a_client_of_the_mcp_sdk_registers_signs_a_person_in_and_gets_a_refresh_token(house):
    shelf = Shelf()
    person, provider = signing_in(house, shelf)
    answer = await house.http.post(MAIL, auth=provider)
    assert answer.text == "alice prompts resources tools:call tools:list"
    assert shelf.client is not None
    assert str(shelf.client.client_id).startswith("dcr_")
    assert shelf.tokens is not None
    assert shelf.tokens.refresh_token
    (asked,) = person.asked
    assert asked["resource"] == MAIL_URI
    assert "prompt" not in asked
    assert "offline_access" not in asked["scope"]


async def test_a_client_of_the_mcp_sdk_may_be_a_document(house):
    document = {"client_id": DOCUMENT_URL, "client_name": "SDK", **WISH}
    house.web.pages[DOCUMENT_URL] = Page(orjson.dumps(document))
    shelf = Shelf()
    _, provider = signing_in(house, shelf, client_metadata_url=DOCUMENT_URL)
    answer = await house.http.post(MAIL, auth=provider)
    assert answer.text.startswith("alice ")
    assert house.web.asked == [DOCUMENT_URL]
    assert shelf.client is not None
    assert shelf.client.client_id == DOCUMENT_URL


async def test_a_client_of_the_mcp_sdk_steps_up(house):
    """Its registration named the scopes of its first day, and that is no ceiling."""
    shelf = Shelf()
    person, provider = signing_in(house, shelf)
    first = await house.http.post(MAIL, auth=provider)
    assert "tools:write" not in first.text
    answer = await house.http.post(MAIL, auth=provider, headers={"x-needs": "tools:write"})
    assert answer.status_code == 200
    assert "tools:write" in answer.text
    assert len(person.asked) == 2

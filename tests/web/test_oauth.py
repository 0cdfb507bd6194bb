"""The OAuth routes over HTTP, and a client of the MCP SDK that finds its own way in."""

import time
from collections.abc import AsyncIterator
from itertools import count
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gateway.domain.identity import BearerToken
from gateway.errors import Unauthenticated
from gateway.oauth.gate import TokenGate
from gateway.oauth.server import AuthorizationServer
from gateway.storage.memory import MemoryAuditLog, MemoryClientStore
from gateway.web.oauth import LARGEST_FORM_BYTES, oauth_routes
from gateway.web.peers import client_address
from tests.oauth.world import (
    KEYS,
    MAIL,
    MAIL_URI,
    PUBLIC_URL,
    RESOURCES,
    Hand,
    client,
)

NEW = client()
FORM = {"content-type": "application/x-www-form-urlencoded"}
BODY = urlencode(
    {
        "grant_type": "client_credentials",
        "client_id": NEW.client.id,
        "client_secret": NEW.secret,
    }
).encode()
WELL_KNOWN = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-protected-resource/mcp/mail",
    "/oauth/jwks.json",
]


class House:
    """The OAuth routes, and an endpoint behind the gate that says who came in."""

    def __init__(self) -> None:
        self.log = MemoryAuditLog()
        clients, clock = MemoryClientStore([NEW.client]), Hand(time.time())
        self.server = AuthorizationServer(
            resources=RESOURCES,
            keys=KEYS,
            clients=clients,
            audit=self.log,
            clock=clock,
            new_id=map(str, count()).__next__,
        )
        self._gate = TokenGate(resources=RESOURCES, keys=KEYS, clients=clients, clock=clock)
        routes = [
            *oauth_routes(self.server, client_address(())),
            Route(MAIL, self._mail, methods=["POST"]),
        ]
        self.http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=Starlette(routes=routes), client=("192.0.2.7", 1)),
            base_url=PUBLIC_URL,
        )

    async def _mail(self, request: Request) -> Response:
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        credential = BearerToken(text=text) if scheme == "Bearer" else None
        try:
            principal = self._gate.authenticate(credential, MAIL)
        except Unauthenticated:
            url, scopes = self.server.metadata.challenge_for(MAIL)
            challenge = f'Bearer resource_metadata="{url}", scope="{" ".join(scopes)}"'
            return Response(status_code=401, headers={"www-authenticate": challenge})
        return PlainTextResponse(" ".join([principal.subject, *sorted(principal.scopes)]))


@pytest.fixture
async def house() -> AsyncIterator[House]:
    house = House()
    async with house.http:
        yield house


@pytest.mark.parametrize("path", WELL_KNOWN)
async def test_a_public_document_may_be_read_from_anywhere(house, path):
    answer = await house.http.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("path", WELL_KNOWN)
async def test_a_browser_may_ask_first(house, path):
    answer = await house.http.options(path, headers={"origin": "https://a.test"})
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-headers"] == "mcp-protocol-version"


@pytest.mark.parametrize("path", WELL_KNOWN[:-1])
async def test_no_document_repeats_the_host_of_the_request(house, path):
    honest = await house.http.get(path)
    forged = await house.http.get(
        path, headers={"host": "evil.example", "x-forwarded-host": "evil.example"}
    )
    assert forged.json() == honest.json()
    assert b"evil" not in forged.content


async def test_each_path_gives_its_own_document(house):
    metadata = house.server.metadata
    found = [(await house.http.get(path)).json() for path in WELL_KNOWN]
    assert found == [
        metadata.authorization_server,
        metadata.protected_resource("/mcp"),
        metadata.protected_resource("/mcp"),
        metadata.protected_resource(MAIL),
        KEYS.jwks,
    ]


@pytest.mark.parametrize(
    "path", ["/mcp/none", "/mcp/mail/x", "/mcp/mail%2fx", "/mcp/..%2fmcp", "/other"]
)
async def test_an_unknown_server_has_no_document(house, path):
    answer = await house.http.get("/.well-known/oauth-protected-resource" + path)
    assert answer.status_code == 404


async def test_a_token_answer_is_never_stored(house):
    answer = await house.http.post("/oauth/token", content=BODY, headers=FORM)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    assert "access-control-allow-origin" not in answer.headers
    assert answer.json()["token_type"] == "Bearer"
    assert [record.fields["source_ip"] for record in house.log.records] == ["192.0.2.7"]


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


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "application/json"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "text/plain"},
        {**FORM, "content-encoding": "gzip"},
    ],
    ids=str,
)
async def test_anything_but_a_plain_form_is_refused_unread(house, headers):
    answer = await house.http.post("/oauth/token", content=BODY, headers=headers)
    assert answer.status_code == 415
    assert house.log.records == []


async def test_a_form_may_name_its_charset(house):
    headers = {"content-type": "Application/X-WWW-Form-Urlencoded; charset=UTF-8"}
    assert (await house.http.post("/oauth/token", content=BODY, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("size", "status"), [(LARGEST_FORM_BYTES, 200), (LARGEST_FORM_BYTES + 1, 413)]
)
async def test_a_form_may_be_so_large_and_no_larger(house, size, status):
    async def chunks() -> AsyncIterator[bytes]:
        padded = (BODY + b"&pad=").ljust(size, b"x")
        for start in range(0, size, 9000):
            yield padded[start : start + 9000]

    answer = await house.http.post("/oauth/token", content=chunks(), headers=FORM)
    assert answer.status_code == status


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
async def test_the_token_endpoint_takes_post_alone(house, method):
    assert (await house.http.request(method, "/oauth/token")).status_code == 405


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_authorization_endpoint_supports_no_response_type_and_redirects_nobody(
    house, method
):
    answer = await house.http.request(
        method, "/oauth/authorize?response_type=code&redirect_uri=https://evil.example/"
    )
    assert (answer.status_code, answer.json()["error"]) == (400, "unsupported_response_type")
    assert "location" not in answer.headers
    assert b"evil" not in answer.content


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

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        raise AssertionError(client_info)


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

"""The token endpoint: who gets which token, and what is recorded before it is given."""

import base64
from dataclasses import replace
from itertools import count
from urllib.parse import urlencode

import pytest

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.identity import BearerToken, Client
from gateway.errors import ConfigError
from gateway.oauth.clients import NewClient
from gateway.oauth.gate import TokenGate
from gateway.oauth.server import AuthorizationServer
from gateway.oauth.token_endpoint import TokenAnswer, TokenRequest
from gateway.oauth.tokens import AccessToken, verify
from gateway.storage.memory import MemoryAuditLog, MemoryClientStore
from tests.oauth.world import (
    KEYS,
    MAIL,
    MAIL_URI,
    NOW,
    PUBLIC_URL,
    RESOURCES,
    Hand,
    client,
)

SOURCE = "192.0.2.7"
NEW = client(groups=frozenset({"staff"}))
TWO = client(seed=2, resources=frozenset({MAIL, "/mcp/web"}))


class House:
    """An authorization server, its clients, its log and its clock."""

    def __init__(self, *clients: Client, token_lifetime_s: int = 900) -> None:
        self.clients = MemoryClientStore(clients or (NEW.client, TWO.client))
        self.log = MemoryAuditLog()
        self.clock = Hand()
        self.server = AuthorizationServer(
            resources=RESOURCES,
            keys=KEYS,
            clients=self.clients,
            audit=self.log,
            clock=self.clock,
            new_id=map("id-{}".format, count(1)).__next__,
            token_lifetime_s=token_lifetime_s,
        )

    async def ask(
        self,
        *pairs: tuple[str, str],
        of: NewClient = NEW,
        secret: str | None = None,
        source_ip: str = SOURCE,
    ) -> TokenAnswer:
        """Ask as `of` with Basic credentials; without a pair, by client credentials."""
        text = f"{of.client.id}:{of.secret if secret is None else secret}"
        return await self.server.token(
            TokenRequest(
                body=urlencode(pairs or [("grant_type", "client_credentials")]).encode(),
                authorization=("Basic " + base64.b64encode(text.encode()).decode(),),
                source_ip=source_ip,
            )
        )

    async def ask_for(self, of: NewClient = NEW, **parameters: str) -> TokenAnswer:
        return await self.ask(("grant_type", "client_credentials"), *parameters.items(), of=of)


def read(answer: TokenAnswer, audience: str = MAIL_URI) -> AccessToken:
    return verify(
        answer.body["access_token"], keys=KEYS, issuer=PUBLIC_URL, audience=audience, now=NOW
    )


async def test_a_client_gets_a_token_for_its_one_resource():
    house = House()
    answer = await house.ask_for(resource=MAIL_URI, scope="tools:call")
    assert answer.status == 200
    assert answer.headers == (("cache-control", "no-store"),)
    assert {**answer.body, "access_token": ""} == {
        "access_token": "",
        "token_type": "Bearer",
        "expires_in": 900,
        "scope": "tools:call",
    }
    assert read(answer) == AccessToken(
        issuer=PUBLIC_URL,
        subject=NEW.client.id,
        audience=MAIL_URI,
        client_id=NEW.client.id,
        client_name="agent 1",
        scopes=frozenset({"tools:call"}),
        groups=frozenset({"staff"}),
        issued_at=int(NOW),
        expires_at=int(NOW) + 900,
        token_id="id-2",
    )


async def test_the_token_opens_the_gate_of_its_endpoint():
    house = House()
    text = (await house.ask_for()).body["access_token"]
    gate = TokenGate(resources=RESOURCES, keys=KEYS, clients=house.clients, clock=house.clock)
    assert gate.authenticate(BearerToken(text=text), MAIL).subject == NEW.client.id


async def test_an_issued_token_is_recorded_without_its_text():
    house = House()
    answer = await house.ask_for()
    assert house.log.records == [
        AuditRecord(
            kind=RecordKind.TOKEN,
            time=NOW,
            id="id-1",
            fields={
                "principal": NEW.client.id,
                "client": NEW.client.id,
                "endpoint": MAIL,
                "method": "oauth/token",
                "source_ip": SOURCE,
                "token_id": "id-2",
                "verdict": "allow",
                "reasons": [
                    {"code": "issued", "message": "scope tools:list tools:call, for 900 s"}
                ],
            },
        )
    ]
    assert answer.body["access_token"] not in repr(answer)


async def test_the_lifetime_is_the_configured_one():
    answer = await House(token_lifetime_s=60).ask_for()
    assert answer.body["expires_in"] == 60
    assert read(answer).expires_at == int(NOW) + 60


@pytest.mark.parametrize("lifetime_s", [0, -1, 24 * 3600 + 1])
def test_a_lifetime_out_of_bounds_is_refused_at_start(lifetime_s):
    with pytest.raises(ConfigError, match="token_lifetime"):
        House(token_lifetime_s=lifetime_s)


async def test_no_refresh_token_is_ever_given():
    assert "refresh_token" not in (await House().ask_for()).body


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        pytest.param(None, "tools:list tools:call", id="no wish: all it may have"),
        pytest.param("", "tools:list tools:call", id="an empty wish is none"),
        pytest.param("tools:call", "tools:call", id="less"),
        pytest.param("tools:call tools:call", "tools:call", id="twice the same"),
        pytest.param("tools:call tools:write", "tools:call", id="more: narrowed, and said so"),
        pytest.param(
            " ".join(RESOURCES.scopes_of(MAIL)), "tools:list tools:call", id="the challenge's"
        ),
    ],
)
async def test_a_token_never_carries_more_scope_than_its_client_may_have(asked, given):
    house = House()
    answer = await (house.ask_for() if asked is None else house.ask_for(scope=asked))
    assert answer.body["scope"] == given
    assert read(answer).scopes == frozenset(given.split(" "))


@pytest.mark.parametrize(
    "asked",
    ["tools:write", "admin", "tools:call admin", "tools:call  tools:list", "*", "TOOLS:CALL"],
)
async def test_a_scope_that_the_client_may_not_have_or_that_is_none_is_refused(asked):
    answer = await House().ask_for(scope=asked)
    assert (answer.status, answer.body["error"]) == (400, "invalid_scope")


async def test_a_relays_token_has_no_scope_of_the_gateways_own_tools():
    own = client(seed=3, scopes=frozenset({"tools:call", "code:run"}))
    answer = await House(own.client).ask_for(own)
    assert answer.body["scope"] == "tools:call"


async def test_a_client_of_several_resources_must_name_one():
    house = House()
    answer = await house.ask_for(TWO)
    assert (answer.status, answer.body["error"]) == (400, "invalid_target")
    answer = await house.ask_for(TWO, resource=PUBLIC_URL + "/mcp/web")
    assert read(answer, PUBLIC_URL + "/mcp/web").subject == TWO.client.id


async def test_a_client_whose_other_resource_is_gone_must_still_name_one():
    moved = replace(NEW.client, resources=frozenset({MAIL, "/mcp/gone"}))
    answer = await House(moved).ask_for()
    assert answer.body["error"] == "invalid_target"


async def test_scheme_and_host_of_the_resource_may_be_in_upper_case():
    answer = await House().ask_for(resource="HTTP://127.0.0.1:8080/mcp/mail")
    assert read(answer).audience == MAIL_URI


async def test_a_client_whose_only_resource_is_gone_gets_no_token():
    answer = await House(replace(NEW.client, resources=frozenset({"/mcp/gone"}))).ask_for()
    assert answer.body["error"] == "invalid_target"


@pytest.mark.parametrize(
    "resource",
    [
        PUBLIC_URL,
        PUBLIC_URL + "/mcp",
        PUBLIC_URL + "/mcp/web",
        PUBLIC_URL + "/mcp/none",
        MAIL_URI + "/",
        MAIL_URI + "#x",
        MAIL_URI + "?x",
        MAIL_URI.replace("mail", "MAIL"),
        PUBLIC_URL + "/mcp/web/../mail",
        "https://other.example/mcp/mail",
        "http://127.0.0.1:8080@other.example/mcp/mail",
        MAIL,
        "not a uri",
    ],
)
async def test_o11_a_resource_that_is_not_the_clients_is_refused(resource):
    answer = await House().ask_for(resource=resource)
    assert (answer.status, answer.body["error"]) == (400, "invalid_target")


async def test_several_resources_are_refused():
    answer = await House().ask(
        ("grant_type", "client_credentials"),
        ("resource", MAIL_URI),
        ("resource", PUBLIC_URL + "/mcp/web"),
        of=TWO,
    )
    assert (answer.status, answer.body["error"]) == (400, "invalid_target")


@pytest.mark.parametrize("name", ["grant_type", "scope", "client_id", "anything"])
async def test_a_repeated_parameter_is_refused(name):
    content = {"grant_type": "client_credentials", "client_id": NEW.client.id}.get(name, "x")
    answer = await House().ask(
        ("grant_type", "client_credentials"), (name, content), (name, content)
    )
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ([("scope", "tools:call")], "invalid_request"),
        ([("grant_type", "")], "invalid_request"),
        ([("grant_type", "password")], "unsupported_grant_type"),
        ([("grant_type", "authorization_code")], "unsupported_grant_type"),
        ([("grant_type", "refresh_token")], "unsupported_grant_type"),
        ([("grant_type", "Client_Credentials")], "unsupported_grant_type"),
    ],
)
async def test_another_grant_is_refused(pairs, error):
    answer = await House().ask(*pairs)
    assert (answer.status, answer.body["error"]) == (400, error)


async def test_a_client_that_may_not_use_the_grant_is_refused():
    answer = await House(replace(NEW.client, grants=())).ask_for()
    assert (answer.status, answer.body["error"]) == (400, "unauthorized_client")


@pytest.mark.parametrize(
    "body",
    [
        b"grant_type",
        b"grant_type=client_credentials&&scope=x",
        b"grant_type=%ff",
        b"grant_type=\xff",
        b"&".join(b"p%d=1" % number for number in range(40)),
    ],
)
async def test_a_form_that_cannot_be_read_is_refused(body):
    answer = await House().server.token(TokenRequest(body=body, source_ip=SOURCE))
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")


def by_form(body: bytes, **rest: bytes | tuple[str, ...]) -> TokenRequest:
    credentials = urlencode({"client_id": NEW.client.id, "client_secret": NEW.secret}).encode()
    return TokenRequest(body=body + credentials, source_ip=SOURCE, **rest)  # type: ignore[arg-type]


async def test_a_client_may_sign_in_by_form():
    answer = await House().server.token(by_form(b"grant_type=client_credentials&"))
    assert answer.status == 200


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(by_form(b"grant_type=client_credentials&", query=b"a=b"), id="query"),
        pytest.param(
            TokenRequest(
                body=b"grant_type=client_credentials",
                query=urlencode({"client_id": NEW.client.id, "client_secret": NEW.secret}).encode(),
                source_ip=SOURCE,
            ),
            id="secret in the query",
        ),
        pytest.param(
            by_form(b"grant_type=client_credentials&", authorization=("Basic YTpi",)),
            id="header and form",
        ),
        pytest.param(
            by_form(b"grant_type=client_credentials&", authorization=("Basic YTpi",) * 2),
            id="two headers",
        ),
    ],
)
async def test_credentials_in_the_query_or_in_two_places_are_refused(request_):
    house = House()
    answer = await house.server.token(request_)
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")
    assert NEW.secret not in repr((house.log.records, answer, request_))


async def test_a_failed_sign_in_is_challenged_and_recorded():
    house = House()
    answer = await house.ask(secret="wrong-secret")
    assert answer.status == 401
    assert answer.headers == (
        ("cache-control", "no-store"),
        ("www-authenticate", 'Basic realm="douane", charset="UTF-8"'),
    )
    assert answer.body == {
        "error": "invalid_client",
        "error_description": "unknown client or wrong secret",
    }
    assert house.log.records == [
        AuditRecord(
            kind=RecordKind.AUTH,
            time=NOW,
            id="id-1",
            fields={
                "method": "oauth/token",
                "source_ip": SOURCE,
                "verdict": "deny",
                "code": "invalid_client",
                "reasons": [{"code": "invalid_client", "message": "wrong secret"}],
                "client": NEW.client.id,
            },
        )
    ]


async def test_an_unknown_client_is_answered_alike_and_its_claimed_id_is_not_recorded():
    house = House()
    stranger = client(seed=9)
    answer, other = await house.ask(of=stranger), await house.ask(secret="wrong")
    assert (answer.status, answer.headers, answer.body) == (
        other.status,
        other.headers,
        other.body,
    )
    assert "client" not in house.log.records[0].fields
    assert house.log.records[0].fields["reasons"][0]["message"] == "unknown client"


async def test_a_refusal_after_the_sign_in_is_recorded_with_its_client():
    house = House()
    await house.ask_for(scope="admin")
    (record,) = house.log.records
    assert (record.kind, record.fields["client"], record.fields["code"]) == (
        RecordKind.TOKEN,
        NEW.client.id,
        "invalid_scope",
    )


async def test_a_removed_client_gets_no_token():
    house = House()
    await house.clients.remove(NEW.client.id)
    assert (await house.ask_for()).status == 401


@pytest.mark.parametrize("secret", [None, "wrong"])
async def test_what_cannot_be_recorded_is_not_answered(secret):
    house = House()
    house.log.failure = "no disk"
    answer = await house.ask(secret=secret)
    assert answer.status == 503
    assert answer.body == {
        "error": "temporarily_unavailable",
        "error_description": "try again later",
    }


async def test_after_twenty_failures_a_minute_a_source_must_wait_even_with_the_right_secret():
    house = House()
    for _ in range(20):
        assert (await house.ask(secret="wrong")).status == 401
    house.clock.now = NOW + 10
    answer = await house.ask()
    assert (answer.status, answer.body["error"]) == (429, "rate_limited")
    assert ("retry-after", "50") in answer.headers
    record = house.log.records[-1]
    assert (record.kind, record.fields["code"]) == (RecordKind.AUTH, "rate_limited")
    assert (await house.ask(source_ip="192.0.2.8")).status == 200
    house.clock.now = NOW + 60
    assert (await house.ask()).status == 200


async def test_failures_count_even_when_they_cannot_be_recorded():
    house = House()
    house.log.failure = "no disk"
    for _ in range(20):
        assert (await house.ask(secret="wrong")).status == 503
    house.log.failure = ""
    assert (await house.ask()).status == 429


async def test_refusals_of_a_signed_in_client_are_no_failed_sign_ins():
    house = House()
    for _ in range(30):
        assert (await house.ask_for(scope="admin")).status == 400
    assert (await house.ask()).status == 200

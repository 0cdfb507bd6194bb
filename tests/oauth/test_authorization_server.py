"""The token endpoint: who gets which token, and what is recorded before it is given."""

import asyncio
import logging
import sqlite3
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.identity import AuthMethod, Client, ClientKind
from gateway.errors import ConfigError, IdentityUnavailable
from gateway.oauth.clients import NewClient
from gateway.oauth.keys import KeyRing
from gateway.oauth.protocol import Lifetimes
from gateway.oauth.records import TokenAnswer, TokenRequest
from gateway.oauth.tokens import AccessToken
from tests.oauth.issuing import APP, SOURCE, Issuer, basic
from tests.oauth.world import KEYS, MAIL, MAIL_URI, NOW, PUBLIC_URL, RESOURCES, client, new_key

NEW = client(groups=frozenset({"staff"}))
TWO = client(seed=2, resources=frozenset({MAIL, "/mcp/web"}))


class House(Issuer):
    """An issuer whose clients act for themselves."""

    def __init__(self, folder: Path, *clients: Client, access_s: int = 900) -> None:
        super().__init__(folder, *(clients or (NEW.client, TWO.client)), access_s=access_s)

    async def ask_with(
        self,
        *pairs: tuple[str, str],
        of: NewClient = NEW,
        secret: str | None = None,
        source_ip: str = SOURCE,
    ) -> TokenAnswer:
        """Ask as `of` with Basic credentials; without a pair, by client credentials."""
        return await self.endpoint.answer(
            TokenRequest(
                body=urlencode(pairs or [("grant_type", "client_credentials")]).encode(),
                authorization=(basic(of.client.id, of.secret if secret is None else secret),),
                source_ip=source_ip,
            )
        )

    async def ask_for(self, of: NewClient = NEW, **parameters: str) -> TokenAnswer:
        return await self.ask_with(("grant_type", "client_credentials"), *parameters.items(), of=of)


@pytest.fixture
def house(tmp_path):
    house = House(tmp_path)
    yield house
    house.stores.close()


def house_of(folder: Path, request: pytest.FixtureRequest, *clients: Client) -> House:
    house = House(folder, *clients)
    request.addfinalizer(house.stores.close)
    return house


async def test_a_client_gets_a_token_for_its_one_resource(house):
    answer = await house.ask_for(resource=MAIL_URI, scope="tools:call")
    assert answer.status == 200
    assert answer.headers == (("cache-control", "no-store"),)
    assert {**answer.body, "access_token": ""} == {
        "access_token": "",
        "token_type": "Bearer",
        "expires_in": 900,
        "scope": "tools:call",
    }
    token = house.read(answer.body)
    assert token == AccessToken(
        issuer=PUBLIC_URL,
        subject=NEW.client.id,
        audience=MAIL_URI,
        client_id=NEW.client.id,
        client_name="agent 1",
        scopes=frozenset({"tools:call"}),
        groups=frozenset({"staff"}),
        issued_at=int(NOW),
        expires_at=int(NOW) + 900,
        token_id=token.token_id,
    )


async def test_the_token_opens_the_gate_of_its_endpoint(house):
    principal = await house.admit((await house.ask_for()).body)
    assert (principal.subject, principal.user_id) == (NEW.client.id, "")


async def test_an_issued_token_is_recorded_without_its_text(house):
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
                "token_id": house.read(answer.body).token_id,
                "verdict": "allow",
                "reasons": [
                    {"code": "issued", "message": "scope tools:list tools:call, for 900 s"}
                ],
            },
        )
    ]
    assert answer.body["access_token"] not in repr(answer)


async def test_no_code_token_secret_or_verifier_is_ever_logged_or_recorded(issuer, caplog):
    caplog.set_level(logging.DEBUG)
    code = issuer.code()
    _, first = await issuer.redeem(code)
    _, second = await issuer.refresh(first["refresh_token"])
    await issuer.refresh(first["refresh_token"])
    await issuer.redeem(code)
    device = await issuer.begin_device()
    await issuer.poll(device.body["device_code"])
    issuer.approve(device.body["device_code"])
    _, third = await issuer.poll(device.body["device_code"])
    await issuer.revoke(third["refresh_token"])
    await issuer.answer(client_id="nobody", client_secret="s3cret-of-nobody")
    bodies = (first, second, third)
    secrets = {
        code,
        "s3cret-of-nobody",
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        device.body["device_code"],
        device.body["user_code"],
        *(body[name] for body in bodies for name in ("access_token", "refresh_token")),
    }
    told = caplog.text + repr(issuer.log.records)
    assert "authlib" in told
    assert [secret for secret in secrets if secret in told] == []


async def test_the_lifetime_is_the_configured_one(tmp_path):
    house = House(tmp_path, access_s=60)
    answer = await house.ask_for()
    assert answer.body["expires_in"] == 60
    assert house.read(answer.body).expires_at == int(NOW) + 60
    house.stores.close()


@pytest.mark.parametrize("lifetime_s", [0, -1, 24 * 3600 + 1])
def test_a_lifetime_out_of_bounds_is_refused_at_start(lifetime_s):
    with pytest.raises(ConfigError, match="token_lifetime"):
        Lifetimes(access_s=lifetime_s)


async def test_a_client_that_acts_for_itself_gets_no_refresh_token(tmp_path, request):
    both = replace(NEW.client, grants=("client_credentials", "refresh_token"))
    assert "refresh_token" not in (await house_of(tmp_path, request, both).ask_for()).body


async def test_another_ring_signs_from_the_moment_it_takes_its_place(house):
    ring = KeyRing([new_key(), KEYS.signing])
    house.server.keys = ring
    house.gate.keys = ring
    body = (await house.ask_for()).body
    await house.admit(body)
    with pytest.raises(Exception, match="unknown key"):
        house.read(body)


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
async def test_a_token_never_carries_more_scope_than_its_client_may_have(house, asked, given):
    answer = await (house.ask_for() if asked is None else house.ask_for(scope=asked))
    assert answer.body["scope"] == given
    assert house.read(answer.body).scopes == frozenset(given.split(" "))


@pytest.mark.parametrize(
    "asked",
    ["tools:write", "admin", "tools:call none", "tools:call  tools:list", "*", "TOOLS:CALL", '"'],
)
async def test_a_scope_that_the_client_may_not_have_or_that_is_none_is_refused(house, asked):
    answer = await house.ask_for(scope=asked)
    assert (answer.status, answer.body["error"]) == (400, "invalid_scope")


async def test_a_relays_token_has_no_scope_of_the_gateways_own_tools(tmp_path, request):
    own = client(seed=3, scopes=frozenset({"tools:call", "code:run"}))
    answer = await house_of(tmp_path, request, own.client).ask_for(own)
    assert answer.body["scope"] == "tools:call"


async def test_a_client_of_several_resources_must_name_one(house):
    answer = await house.ask_for(TWO)
    assert (answer.status, answer.body["error"]) == (400, "invalid_target")
    answer = await house.ask_for(TWO, resource=PUBLIC_URL + "/mcp/web")
    assert house.read(answer.body, PUBLIC_URL + "/mcp/web").subject == TWO.client.id


async def test_a_client_of_several_resources_with_the_aggregate_must_name_one(tmp_path, request):
    both = client(seed=4, resources=frozenset({MAIL, "/mcp"}))
    answer = await house_of(tmp_path, request, both.client).ask_for(both)
    assert (answer.status, answer.body["error"]) == (400, "invalid_target")


async def test_a_client_whose_other_resource_is_gone_must_still_name_one(tmp_path, request):
    moved = replace(NEW.client, resources=frozenset({MAIL, "/mcp/gone"}))
    answer = await house_of(tmp_path, request, moved).ask_for()
    assert answer.body["error"] == "invalid_target"


async def test_scheme_and_host_of_the_resource_may_be_in_upper_case(house):
    answer = await house.ask_for(resource="HTTP://127.0.0.1:8080/mcp/mail")
    assert house.read(answer.body).audience == MAIL_URI


async def test_a_client_whose_only_resource_is_gone_gets_no_token(tmp_path, request):
    gone = replace(NEW.client, resources=frozenset({"/mcp/gone"}))
    answer = await house_of(tmp_path, request, gone).ask_for()
    assert answer.body["error"] == "invalid_target"


@pytest.mark.parametrize(
    "resource",
    [
        PUBLIC_URL,
        PUBLIC_URL + "/mcp",
        PUBLIC_URL + "/mcp/web",
        PUBLIC_URL + "/mcp/none",
        PUBLIC_URL + "/api/v1",
        MAIL_URI + "//",
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
async def test_o11_a_resource_that_is_not_the_clients_is_refused(house, resource):
    answer = await house.ask_for(resource=resource)
    assert (answer.status, answer.body["error"]) == (400, "invalid_target")


async def test_several_resources_are_refused(house):
    answer = await house.ask_with(
        ("grant_type", "client_credentials"),
        ("resource", MAIL_URI),
        ("resource", PUBLIC_URL + "/mcp/web"),
        of=TWO,
    )
    assert (answer.status, answer.body["error"]) == (400, "invalid_target")


@pytest.mark.parametrize("name", ["grant_type", "scope", "client_id", "code", "anything"])
async def test_a_repeated_parameter_is_refused(house, name):
    content = {"grant_type": "client_credentials", "client_id": NEW.client.id}.get(name, "x")
    answer = await house.ask_with(
        ("grant_type", "client_credentials"), (name, content), (name, content)
    )
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ([("scope", "tools:call")], "invalid_request"),
        ([("grant_type", "")], "invalid_request"),
        ([("grant_type", "password")], "unsupported_grant_type"),
        ([("grant_type", "implicit")], "unsupported_grant_type"),
        ([("grant_type", "Client_Credentials")], "unsupported_grant_type"),
        ([("grant_type", 'x"\\y')], "unsupported_grant_type"),
        ([("grant_type", "authorization_code"), ("code", "x")], "unauthorized_client"),
        ([("grant_type", "refresh_token"), ("refresh_token", "x")], "unauthorized_client"),
    ],
)
async def test_another_grant_is_refused_with_a_text_of_ours(house, pairs, error):
    answer = await house.ask_with(*pairs, *_REST)
    assert (answer.status, answer.body["error"]) == (400, error)
    description = answer.body["error_description"]
    assert description.isascii()
    assert not set(description) & set("\"\\='")
    assert pairs[0][1] not in description or not pairs[0][1]


_REST = (("redirect_uri", "http://127.0.0.1/cb"), ("code_verifier", "x" * 43))


async def test_a_client_that_may_not_use_the_grant_is_refused(tmp_path, request):
    answer = await house_of(tmp_path, request, replace(NEW.client, grants=())).ask_for()
    assert (answer.status, answer.body["error"]) == (400, "unauthorized_client")


@pytest.mark.parametrize("kind", [ClientKind.DYNAMIC, ClientKind.DOCUMENT])
async def test_only_a_client_of_an_administrators_acts_for_itself(tmp_path, request, kind):
    answer = await house_of(tmp_path, request, replace(NEW.client, kind=kind)).ask_for()
    assert (answer.status, answer.body["error"]) == (400, "unauthorized_client")


async def test_a_public_client_does_not_act_for_itself(tmp_path, request):
    bare = replace(APP, kind=ClientKind.REGISTERED, grants=("client_credentials",))
    house = house_of(tmp_path, request, bare)
    answer = await house.ask(grant_type="client_credentials")
    assert (answer.status, answer.body["error"]) == (401, "invalid_client")


def by_form(body: bytes, **rest: bytes | tuple[str, ...]) -> TokenRequest:
    credentials = urlencode({"client_id": NEW.client.id, "client_secret": NEW.secret}).encode()
    return TokenRequest(body=body + credentials, source_ip=SOURCE, **rest)  # type: ignore[arg-type]


async def test_a_client_may_sign_in_by_form(house):
    answer = await house.endpoint.answer(by_form(b"grant_type=client_credentials&"))
    assert answer.status == 200


async def test_a_client_signs_in_only_in_the_way_that_it_is_registered_for(tmp_path, request):
    basic_only = replace(NEW.client, auth_methods=frozenset({AuthMethod.BASIC}))
    house = house_of(tmp_path, request, basic_only)
    answer = await house.endpoint.answer(by_form(b"grant_type=client_credentials&"))
    assert answer.status == 401
    assert (await house.ask_for()).status == 200


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
        pytest.param(
            TokenRequest(
                body=b"grant_type=client_credentials",
                authorization=(basic(NEW.client.id, NEW.secret),) * 2,
                source_ip=SOURCE,
            ),
            id="two headers, both right",
        ),
    ],
)
async def test_credentials_in_the_query_or_in_two_places_are_refused(house, request_):
    answer = await house.endpoint.answer(request_)
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")
    assert NEW.secret not in repr((house.log.records, answer, request_))


async def test_a_failed_sign_in_is_challenged_and_recorded(house):
    answer = await house.ask_with(secret="wrong-secret")
    assert answer.status == 401
    assert answer.headers == (
        ("cache-control", "no-store"),
        ("www-authenticate", 'Basic realm="douane", charset="UTF-8"'),
    )
    assert answer.body == {
        "error": "invalid_client",
        "error_description": "unknown client or wrong credentials",
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


async def test_an_unknown_client_is_answered_alike_and_its_claimed_id_is_not_recorded(house):
    stranger = client(seed=9)
    answer, other = await house.ask_with(of=stranger), await house.ask_with(secret="wrong")
    assert (answer.status, answer.headers, answer.body) == (
        other.status,
        other.headers,
        other.body,
    )
    assert "client" not in house.log.records[0].fields
    assert house.log.records[0].fields["reasons"][0]["message"] == "unknown client"


async def test_a_refusal_after_the_sign_in_is_recorded_with_its_client(house):
    await house.ask_for(scope="admin")
    (record,) = house.log.records
    assert (record.kind, record.fields["client"], record.fields["code"]) == (
        RecordKind.TOKEN,
        NEW.client.id,
        "invalid_scope",
    )


async def test_a_removed_client_gets_no_token(house):
    house.stores.clients.remove(NEW.client.id)
    assert (await house.ask_for()).status == 401


@pytest.mark.parametrize("secret", [None, "wrong"])
async def test_what_cannot_be_recorded_is_not_answered(house, secret):
    house.log.failure = "no disk"
    answer = await house.ask_with(secret=secret)
    assert answer.status == 503
    assert answer.body == {
        "error": "temporarily_unavailable",
        "error_description": "try again later",
    }


async def test_what_cannot_be_read_or_written_is_not_answered(issuer, monkeypatch):
    code, body = issuer.code(), await issuer.signed_in()

    def broken(*_: object, **__: object) -> object:
        raise IdentityUnavailable("not now", detail="database is locked")

    monkeypatch.setattr(issuer.stores.database, "write", broken)
    for status, refused in (
        await issuer.redeem(code),
        await issuer.refresh(body["refresh_token"]),
        await issuer.answer(grant_type="refresh_token", refresh_token=body["refresh_token"]),
    ):
        assert (status, refused["error"]) == (503, "temporarily_unavailable")
    for answer in (await issuer.begin_device(), await issuer.revoke(body["refresh_token"])):
        assert answer.status == 503
    assert issuer.reason == "database is locked"
    monkeypatch.undo()
    assert (await issuer.redeem(code))[0] == 200


async def test_another_processs_long_transaction_is_no_500(tmp_path, issuer):
    code = issuer.code()
    other = sqlite3.connect(tmp_path / "identity.db", isolation_level=None)
    issuer.stores.database._connection.execute("PRAGMA busy_timeout = 1")
    other.execute("BEGIN IMMEDIATE")
    assert (await issuer.redeem(code))[0] == 503
    other.execute("ROLLBACK")
    other.close()
    assert (await issuer.redeem(code))[0] == 200


async def test_the_loop_goes_on_while_a_store_is_waited_for(issuer, monkeypatch):
    ticked = asyncio.Event()
    loop, ask = asyncio.get_running_loop(), issuer.stores.grants.code

    def slow(code_hash: str) -> object:
        asyncio.run_coroutine_threadsafe(_set(ticked), loop).result(10)
        return ask(code_hash)

    monkeypatch.setattr(issuer.stores.grants, "code", slow)
    assert (await issuer.redeem(issuer.code()))[0] == 200
    assert ticked.is_set()


async def _set(event: asyncio.Event) -> None:
    event.set()


async def test_after_twenty_failures_a_minute_a_source_must_wait_even_with_the_right_secret(house):
    for _ in range(20):
        assert (await house.ask_with(secret="wrong")).status == 401
    house.clock.now = NOW + 10
    answer = await house.ask_with()
    assert (answer.status, answer.body["error"]) == (429, "rate_limited")
    assert ("retry-after", "50") in answer.headers
    record = house.log.records[-1]
    assert (record.kind, record.fields["code"]) == (RecordKind.AUTH, "rate_limited")
    assert (await house.ask_with(source_ip="192.0.2.8")).status == 200
    house.clock.now = NOW + 60
    assert (await house.ask_with()).status == 200


async def test_the_neighbours_of_the_token_endpoint_share_its_bound_on_guessing(issuer):
    for _ in range(10):
        assert (await issuer.revoke("x", client_id="nobody")).status == 401
        assert (await issuer.begin_device(client_id="nobody")).status == 401
    assert (await issuer.ask(grant_type="refresh_token", refresh_token="x")).status == 429


async def test_failures_count_even_when_they_cannot_be_recorded(house):
    house.log.failure = "no disk"
    for _ in range(20):
        assert (await house.ask_with(secret="wrong")).status == 503
    house.log.failure = ""
    assert (await house.ask_with()).status == 429


async def test_refusals_of_a_signed_in_client_are_no_failed_sign_ins(house):
    for _ in range(30):
        assert (await house.ask_for(scope="admin")).status == 400
    assert (await house.ask_with()).status == 200

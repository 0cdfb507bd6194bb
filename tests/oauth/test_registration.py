"""Registration: what a client may say of itself, and how many may come."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from gateway.domain.grants import Consent
from gateway.domain.identity import AuthMethod, Client, ClientKind
from gateway.oauth.clients import secret_hash
from gateway.oauth.records import TokenAnswer, TokenRequest
from gateway.oauth.registration import LARGEST_METADATA_BYTES, RegistrationRules
from tests.oauth.house import ALICE, CALLBACK, CURSOR, SOURCE, House
from tests.oauth.world import MAIL, NOW

INSPECTOR = {
    "client_name": "MCP Inspector",
    "redirect_uris": ["http://localhost:6274/oauth/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
    "client_uri": "https://github.com/modelcontextprotocol/inspector",
    "scope": "tools:list tools:call",
}


def jwk(key: Any, **more: str) -> dict[str, str]:
    return {**key.as_dict(private=False), **more}


EC = ECKey.import_key(ec.generate_private_key(ec.SECP256R1()))
P384 = ECKey.import_key(ec.generate_private_key(ec.SECP384R1()))
RSA = RSAKey.import_key(rsa.generate_private_key(65537, 2048))
SHORT_RSA = {"kty": "RSA", "e": "AQAB", "n": "v" + "A" * 169 + "Q"}
ED = OKPKey.import_key(ed25519.Ed25519PrivateKey.generate())


async def ask(house: House, metadata: Any, *authorization: str, source: str = SOURCE) -> Any:
    body = metadata if isinstance(metadata, bytes) else orjson.dumps(metadata)
    return await house.registration.answer(
        TokenRequest(body=body, authorization=authorization, source_ip=source)
    )


async def registered(house: House, **changes: Any) -> tuple[dict[str, Any], Client]:
    """Register; return the answer and what is stored."""
    metadata = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none", **changes}
    answer = await ask(house, metadata)
    assert answer.status == 201, answer.body
    stored = house.stores.clients.find(answer.body["client_id"])
    assert stored is not None
    return dict(answer.body), stored


async def error_of(house: House, metadata: Any, *authorization: str) -> str:
    """Return why a registration was refused: nothing is stored, and it is on record."""
    before = len(house.log.records)
    answer = await ask(house, metadata, *authorization)
    assert answer.status == 400
    assert dict(answer.headers) == {"cache-control": "no-store"}
    assert house.stores.clients.all() == []
    (record,) = house.log.records[before:]
    assert record.fields["method"] == "oauth/register"
    assert record.fields["code"] == answer.body["error"]
    assert '"' not in answer.body["error_description"]
    error: str = answer.body["error"]
    return error


async def test_a_public_client_gets_an_id_and_no_secret(house):
    answer = await ask(house, INSPECTOR)
    assert answer.status == 201
    assert dict(answer.headers) == {"cache-control": "no-store"}
    client_id = answer.body["client_id"]
    assert client_id.startswith("dcr_")
    assert len(client_id) == 36
    assert answer.body == {
        **INSPECTOR,
        "client_id": client_id,
        "client_id_issued_at": int(NOW),
    }
    assert house.stores.clients.find(client_id) == Client(
        id=client_id,
        name="MCP Inspector",
        kind=ClientKind.DYNAMIC,
        auth_methods=frozenset({AuthMethod.NONE}),
        redirect_uris=("http://localhost:6274/oauth/callback",),
        homepage="https://github.com/modelcontextprotocol/inspector",
        grants=("authorization_code", "refresh_token"),
        created_at=NOW,
        created_by=SOURCE,
    )


async def test_a_client_that_does_not_say_how_proves_itself_with_a_secret(house):
    answer = await ask(house, {"redirect_uris": [CALLBACK]})
    assert answer.body["token_endpoint_auth_method"] == "client_secret_basic"
    assert answer.body["client_secret_expires_at"] == 0
    secret = answer.body["client_secret"]
    assert len(secret) == 43
    stored = house.stores.clients.find(answer.body["client_id"])
    assert stored.auth_methods == {AuthMethod.BASIC}
    assert stored.secret_hash == secret_hash(secret)
    assert secret not in repr(house.log.records) + repr(stored) + repr(answer)
    assert stored.name == stored.id
    assert "client_name" not in answer.body


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_what_a_client_proves_itself_with_is_what_it_said(house, method):
    answer, stored = await registered(house, token_endpoint_auth_method=method)
    assert stored.auth_methods == {AuthMethod(method)}
    assert answer["client_secret"]


async def test_a_client_with_keys_gets_no_secret(house):
    keys = {"keys": [jwk(EC, kid="one", use="sig", x5u="https://evil.test/")]}
    answer, stored = await registered(
        house, token_endpoint_auth_method="private_key_jwt", jwks=keys
    )
    assert "client_secret" not in answer
    kept = {"keys": [{**EC.as_dict(private=False), "kid": "one"}]}
    assert answer["jwks"] == kept
    assert orjson.loads(stored.jwks) == kept
    assert stored.secret_hash == ""


@pytest.mark.parametrize("key", [jwk(RSA), jwk(ED), jwk(EC, alg="ES256"), jwk(RSA, alg="PS256")])
async def test_every_key_that_can_be_checked_is_kept(house, key):
    _, stored = await registered(
        house,
        token_endpoint_auth_method="private_key_jwt",
        jwks={"keys": [jwk(P384), {"kty": "XY"}, key]},
    )
    assert len(orjson.loads(stored.jwks)["keys"]) == 1


@pytest.mark.parametrize(
    "jwks",
    [
        None,
        {},
        [],
        {"keys": []},
        {"keys": "x"},
        {"keys": ["x"]},
        {"keys": [jwk(P384)]},
        {"keys": [SHORT_RSA]},
        {"keys": [{**jwk(RSA), "e": "AQ" + "A" * 13 + "B"}]},
        {"keys": [{**jwk(RSA), "n": "v" + "A" * 2000}]},
        {"keys": [jwk(EC, use="enc")]},
        {"keys": [jwk(EC, alg="RS256")]},
        {"keys": [jwk(EC, alg="none")]},
        {"keys": [jwk(EC, alg="HS256")]},
        {"keys": [{**jwk(EC), "x": "AA"}]},
        {"keys": [{**jwk(EC), "x": 1}]},
        {"keys": [{**jwk(EC), "x": "\u00e9"}]},
        {"keys": [{**jwk(RSA), "e": "AQ"}]},
        {"keys": [{"kty": "EC", "crv": "P-256"}]},
        {"keys": [{"kty": ["EC"]}]},
        {"keys": [jwk(EC)] * 11},
        {"keys": [EC.as_dict(private=True)]},
        {"keys": [jwk(EC), RSA.as_dict(private=True)]},
        {"keys": [jwk(EC), OctKey.generate_key(256).as_dict(private=True)]},
    ],
    ids=range(24),
)
async def test_keys_that_are_private_or_unusable_are_refused(house, jwks):
    metadata = {
        "redirect_uris": [CALLBACK],
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": jwks,
    }
    assert await error_of(house, metadata) == "invalid_client_metadata"


async def test_keys_of_a_client_that_does_not_use_them_are_not_kept(house):
    answer, stored = await registered(house, jwks={"keys": [jwk(EC)]})
    assert stored.jwks == ""
    assert "jwks" not in answer


async def test_of_what_cursor_registers_at_once_the_usable_is_kept_and_told(tmp_path):
    three = [
        CURSOR,
        "https://www.cursor.com/agents/mcp/oauth/callback",
        "http://localhost:8787/callback",
    ]
    house = House(tmp_path, registration=RegistrationRules())
    answer, stored = await registered(house, redirect_uris=three)
    house.stores.close()
    assert answer["redirect_uris"] == three[1:]
    assert stored.redirect_uris == tuple(three[1:])


async def test_a_private_scheme_that_is_allowed_is_kept(house):
    answer, _ = await registered(house, redirect_uris=[CURSOR])
    assert answer["redirect_uris"] == [CURSOR]


@pytest.mark.parametrize(
    "redirect_uris",
    [
        ["javascript:alert(1)"],
        [CALLBACK, "javascript:alert(1)"],
        ["http://evil.test/cb"],
        ["https://a.example/*"],
        ["https://a.example/#x"],
        ["https://u@a.example/"],
        ["unknown:/cb"],
        [],
        "https://a.example/",
        [1],
        [CALLBACK] * 11,
        None,
    ],
)
async def test_redirect_uris_that_cannot_be_registered_are_refused(house, redirect_uris):
    assert await error_of(house, {"redirect_uris": redirect_uris}) == "invalid_redirect_uri"


async def test_redirect_uris_cannot_be_left_out(house):
    assert await error_of(house, {"client_name": "x"}) == "invalid_redirect_uri"


async def test_of_the_grants_only_those_with_a_person_behind_them_are_kept(house):
    asked = [
        "client_credentials",
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "urn:ietf:params:oauth:grant-type:token-exchange",
        "urn:ietf:params:oauth:grant-type:device_code",
        "password",
        "implicit",
        "refresh_token",
        "authorization_code",
    ]
    answer, stored = await registered(house, grant_types=asked)
    kept = [
        "authorization_code",
        "refresh_token",
        "urn:ietf:params:oauth:grant-type:device_code",
    ]
    assert answer["grant_types"] == kept
    assert stored.grants == tuple(kept)


async def test_a_client_that_names_no_grants_gets_the_usual_two(house):
    answer, _ = await registered(house)
    assert answer["grant_types"] == ["authorization_code", "refresh_token"]
    assert answer["response_types"] == ["code"]


async def test_a_client_without_the_refresh_grant_has_none(house):
    _, stored = await registered(house, grant_types=["authorization_code"])
    assert stored.grants == ("authorization_code",)


async def test_a_device_needs_no_redirect_uri(house):
    metadata = {
        "grant_types": ["urn:ietf:params:oauth:grant-type:device_code"],
        "token_endpoint_auth_method": "none",
    }
    answer = await ask(house, metadata)
    assert (answer.status, answer.body["redirect_uris"]) == (201, [])
    assert answer.body["response_types"] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"grant_types": ["client_credentials"]},
        {"grant_types": ["urn:ietf:params:oauth:grant-type:jwt-bearer"]},
        {"grant_types": ["refresh_token"]},
        {"grant_types": []},
        {"grant_types": "authorization_code"},
        {"grant_types": [["authorization_code"]]},
        {"grant_types": ["authorization_code"] * 51},
        {"response_types": ["token"]},
        {"response_types": []},
        {"response_types": "code"},
        {"token_endpoint_auth_method": "client_secret_jwt"},
        {"token_endpoint_auth_method": "tls_client_auth"},
        {"token_endpoint_auth_method": None},
        {"token_endpoint_auth_method": ["none"]},
        {"jwks_uri": "https://a.example/jwks.json"},
        {"client_name": 1},
        {"client_name": "x" * 81},
        {"client_name": "a\nb"},
        {"client_name": "a\x00b"},
        {"client_name": "evil\u202egnp.exe"},
        {"client_name": "\u2066x\u2069"},
        {"client_name": "zero\u200bwidth"},
        {"client_name": " padded "},
        {"logo_uri": "http://a.example/logo.png"},
        {"logo_uri": "javascript:alert(1)"},
        {"logo_uri": "data:image/png;base64,AA"},
        {"client_uri": "https://u@a.example/"},
        {"client_uri": 'https://a.example/"><script>'},
        {"client_uri": "https://"},
        {"client_uri": "http://a.example/"},
        {"client_uri": "http://localhost.a.example/"},
        {"client_uri": "http://127.0.0.1@a.example/"},
        {"tos_uri": "ftp://a.example/"},
        {"policy_uri": 1},
        {"policy_uri": "https://a.example/" + "x" * 2000},
        {"scope": ["tools:list"]},
    ],
    ids=str,
)
async def test_metadata_of_the_wrong_kind_is_refused(house, wrong):
    metadata = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none", **wrong}
    assert await error_of(house, metadata) == "invalid_client_metadata"


@pytest.mark.parametrize(
    "here", ["http://localhost:3000", "http://127.0.0.1/app", "http://[::1]:8080/?x=1"]
)
async def test_a_page_on_the_clients_own_machine_is_neither_refused_nor_kept(house, here):
    metadata = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    answer = await ask(house, {**metadata, "client_uri": here, "logo_uri": here})
    assert answer.status == 201
    (client,) = house.stores.clients.all()
    assert client.homepage == ""


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff",
        b'{"redirect_uris": [], "redirect_uris": ["https://a.example/"]}',
        b'{"x": ' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"x": NaN}',
    ],
)
async def test_what_is_no_object_is_refused(house, body):
    assert await error_of(house, body) == "invalid_client_metadata"


@pytest.mark.parametrize(("more", "status"), [(0, 201), (1, 400)])
async def test_metadata_may_be_so_large_and_no_larger(house, more, status):
    body = orjson.dumps({"redirect_uris": [CALLBACK]}).ljust(LARGEST_METADATA_BYTES + more)
    assert (await ask(house, body)).status == status


async def test_what_is_not_known_is_ignored_and_not_told(house):
    answer, stored = await registered(
        house,
        client_id="chosen",
        client_secret="chosen",
        software_statement="e30.e30.",
        contacts=["a@example.com"],
        logo_uri="https://a.example/logo.png",
        groups=["admin"],
        trusted_host=True,
        application_type="native",
    )
    assert answer.keys() == {
        "client_id",
        "client_id_issued_at",
        "redirect_uris",
        "grant_types",
        "response_types",
        "token_endpoint_auth_method",
        "application_type",
    }
    assert answer["application_type"] == "native"
    assert stored.id.startswith("dcr_")
    assert (stored.groups, stored.trusted_host) == (frozenset(), False)


@pytest.mark.parametrize("kind", ["other", ["web"], 1, None])
async def test_an_application_type_that_does_not_exist_is_ignored(house, kind):
    answer, _ = await registered(house, application_type=kind)
    assert "application_type" not in answer


async def test_scopes_that_do_not_exist_are_dropped_and_none_is_a_ceiling(house):
    answer, stored = await registered(house, scope="tools:list openid offline_access tools:call")
    assert answer["scope"] == "tools:list tools:call"
    assert stored.scopes == frozenset()
    assert stored.ceiling(frozenset({"tools:write"})) == {"tools:write"}


async def test_a_name_in_any_script_is_kept(house):
    answer, stored = await registered(house, client_name="Почта (日本)")
    assert answer["client_name"] == stored.name == "Почта (日本)"


async def test_two_clients_may_have_one_name(house):
    one, _ = await registered(house, client_name="Cursor")
    other, _ = await registered(house, client_name="Cursor")
    assert one["client_id"] != other["client_id"]


async def test_a_registration_is_on_record(house):
    answer, _ = await registered(house, client_name="Cursor")
    (record,) = house.log.records
    assert record.fields == {
        "method": "oauth/register",
        "source_ip": SOURCE,
        "client": answer["client_id"],
        "verdict": "allow",
        "reasons": [{"code": "registered", "message": "as Cursor"}],
    }


async def test_without_a_record_nobody_is_registered(house):
    house.log.failure = "no disk"
    answer = await ask(house, INSPECTOR)
    assert (answer.status, answer.body["error"]) == (503, "temporarily_unavailable")
    assert house.stores.clients.all() == []


async def test_without_a_record_nobody_is_refused_for_a_reason(house):
    house.log.failure = "no disk"
    assert (await ask(house, b"{")).status == 503


async def test_while_nothing_can_be_stored_the_answer_is_503(house):
    house.stores.close()
    answer = await ask(house, {"redirect_uris": [CALLBACK]})
    assert answer.status == 503
    assert "client_secret" not in answer.body


@pytest.fixture
def small(tmp_path: Path) -> Iterator[House]:
    rules = RegistrationRules(per_source=3, most_clients=5, unused_after_s=3600)
    house = House(tmp_path, registration=rules)
    yield house
    house.stores.close()


async def test_one_address_registers_so_often_and_no_more(small):
    for _ in range(3):
        assert (await ask(small, INSPECTOR)).status == 201
    answer = await ask(small, INSPECTOR)
    assert (answer.status, answer.body["error"]) == (429, "rate_limited")
    assert dict(answer.headers)["retry-after"] == "3600"
    assert small.told[-1] == ("auth", "deny", "rate_limited", "")
    assert (await ask(small, INSPECTOR, source="192.0.2.8")).status == 201
    small.clock.now += 3600
    assert (await ask(small, INSPECTOR)).status == 201


async def test_refused_attempts_count_as_well(small):
    for _ in range(3):
        assert (await ask(small, b"{")).status == 400
    assert (await ask(small, INSPECTOR)).status == 429


async def fill(house: House) -> list[str]:
    answers: list[TokenAnswer] = [
        await ask(house, INSPECTOR, source=f"198.51.100.{number}") for number in range(5)
    ]
    return [answer.body["client_id"] for answer in answers]


async def test_so_many_register_and_no_more(small):
    await fill(small)
    answer = await ask(small, INSPECTOR)
    assert (answer.status, answer.body["error"]) == (503, "temporarily_unavailable")
    assert dict(answer.headers)["retry-after"] == "3600"


async def test_clients_of_administrators_take_no_room(small):
    await fill(small)
    small.stores.clients.remove(small.stores.clients.all()[0].id)
    small.add(id="registered", kind=ClientKind.REGISTERED)
    assert (await ask(small, INSPECTOR)).status == 201


async def test_clients_that_nobody_consented_to_are_forgotten_in_time(small):
    used, *unused = await fill(small)
    small.stores.browsers.consent(
        Consent(
            user_id=ALICE.id,
            client_id=used,
            endpoint=MAIL,
            redirect_uri="http://localhost/oauth/callback",
            scopes=frozenset({"tools:list"}),
            given_at=NOW,
        )
    )
    small.clock.now += 3600
    assert await small.registration.forget_unused() == 0
    small.clock.now += 1
    assert await small.registration.forget_unused() == len(unused)
    assert [client.id for client in small.stores.clients.all()] == [used]
    assert (await ask(small, INSPECTOR)).status == 201


async def test_in_closed_mode_nobody_registers(tmp_path):
    house = House(tmp_path, registration=RegistrationRules(mode="closed"))
    assert await error_of(house, INSPECTOR) == "access_denied"
    house.stores.close()


TOKEN = "initial-access-token"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path, registration=RegistrationRules(mode="token", token=TOKEN))
    yield house
    house.stores.close()


async def test_with_the_initial_access_token_a_client_registers(guarded):
    assert (await ask(guarded, INSPECTOR, f"Bearer {TOKEN}")).status == 201
    assert (await ask(guarded, INSPECTOR, f"bearer {TOKEN}")).status == 201
    assert TOKEN not in repr(guarded.log.records)


@pytest.mark.parametrize(
    "authorization",
    [
        [],
        ["Bearer"],
        ["Bearer "],
        ["Bearer wrong"],
        [f"Bearer {TOKEN}x"],
        [f"Basic {TOKEN}"],
        [TOKEN],
        [f"Bearer {TOKEN}"] * 2,
        ["Bearer \u00e9"],
    ],
    ids=str,
)
async def test_without_it_none_does(guarded, authorization):
    answer = await ask(guarded, INSPECTOR, *authorization)
    assert (answer.status, answer.body["error"]) == (401, "invalid_token")
    assert dict(answer.headers)["www-authenticate"].startswith("Bearer ")
    assert guarded.stores.clients.all() == []
    assert guarded.told == [("token", "deny", "invalid_token", "")]


@pytest.mark.parametrize(("mode", "token"), [("token", ""), ("open", "x"), ("closed", "x")])
def test_a_token_is_for_its_mode_alone(mode, token):
    with pytest.raises(ValueError, match="initial access token"):
        RegistrationRules(mode=mode, token=token)


@pytest.mark.parametrize(("said", "kept"), [(True, True), (False, False), (None, False)])
async def test_a_client_may_want_bound_tokens_and_no_others(house, said, kept):
    changes = {} if said is None else {"dpop_bound_access_tokens": said}
    answer, stored = await registered(house, **changes)
    assert stored.holds_key is kept
    assert answer.get("dpop_bound_access_tokens", False) is kept


async def test_what_is_no_truth_value_is_refused(house):
    metadata = {"redirect_uris": [CALLBACK], "dpop_bound_access_tokens": "true"}
    assert await error_of(house, metadata) == "invalid_client_metadata"

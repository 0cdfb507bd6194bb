"""How a client proves itself: by what it is registered for, in one way, told alike if it fails."""

import base64
import hmac
from dataclasses import replace
from typing import Any
from urllib.parse import quote_plus

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc import jws
from joserfc.jwk import ECKey, OctKey

from gateway.domain.identity import AuthMethod, ClientKind
from gateway.oauth.client_authentication import (
    ASSERTION_TYPE,
    CONFIDENTIAL,
    EVERY_METHOD,
    Assertions,
    Presented,
    authenticate,
    read_presented,
)
from gateway.oauth.clients import secret_hash
from gateway.oauth.errors import ErrorCode, OAuthError
from tests.oauth.assertions import BY_ALGORITHM, EC_KEY, RSA_KEY, b64, public, signed
from tests.oauth.issuing import APP, Issuer, basic
from tests.oauth.world import KEYS, NOW, PUBLIC_URL, client

NEW = client()
KEYED = replace(
    NEW.client,
    auth_methods=frozenset({AuthMethod.PRIVATE_KEY_JWT}),
    secret_hash="",
    jwks=orjson.dumps({"keys": [public(EC_KEY, kid="k1")]}).decode(),
)
CLAIMS: dict[str, Any] = {
    "iss": KEYED.id,
    "sub": KEYED.id,
    "aud": PUBLIC_URL,
    "jti": "assertion-1",
    "iat": int(NOW),
    "exp": int(NOW) + 300,
}


def assertion(key: Any = EC_KEY, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """Return the assertion of `KEYED`, changed as told; a claim of `None` is left out."""
    content = {name: each for name, each in {**CLAIMS, **claims}.items() if each is not None}
    return signed(content, key, **(header or {}))


def by_assertion(text: str, **more: str) -> dict[str, str]:
    form = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": text}
    return {"grant_type": "client_credentials", "client_id": "", **form, **more}


@pytest.fixture
def keyed(tmp_path):
    """An issuer whose only client has a key."""
    issuer = Issuer(tmp_path, KEYED)
    yield issuer
    issuer.stores.close()


def sign_in(presented: Presented | None, known: Any, methods: Any = EVERY_METHOD) -> Any:
    nothing = Assertions(issuer=PUBLIC_URL, first_use=lambda *_, **__: True)
    return authenticate(presented, known, methods=methods, assertions=nothing, now=NOW)


@pytest.mark.parametrize("scheme", ["Basic", "basic", "BASIC"])
def test_basic_credentials_are_form_decoded(scheme):
    text = basic(quote_plus("a:b c"), quote_plus("p%2B+:&é"))
    assert read_presented(scheme + text.removeprefix("Basic"), {}) == Presented(
        client_id="a:b c", method=AuthMethod.BASIC, proof="p%2B+:&é"
    )


def test_credentials_may_stand_in_the_form():
    found = read_presented(None, {"client_id": "a", "client_secret": "b"})
    assert found == Presented(client_id="a", method=AuthMethod.POST, proof="b")
    assert "proof" not in repr(found)


def test_a_public_client_names_itself():
    assert read_presented(None, {"client_id": "a"}) == Presented(
        client_id="a", method=AuthMethod.NONE
    )


def test_an_assertion_names_its_client():
    form = by_assertion(assertion())
    del form["client_id"]
    assert read_presented(None, form) == Presented(
        client_id=KEYED.id, method=AuthMethod.PRIVATE_KEY_JWT, proof=form["client_assertion"]
    )


ASSERTED = {"client_assertion": assertion(), "client_assertion_type": ASSERTION_TYPE}


@pytest.mark.parametrize(
    ("authorization", "form", "error"),
    [
        (None, {}, ErrorCode.INVALID_CLIENT),
        (None, {"client_secret": "b"}, ErrorCode.INVALID_CLIENT),
        (None, {"client_id": "a", "client_assertion": "j"}, ErrorCode.INVALID_CLIENT),
        (None, {"client_assertion_type": ASSERTION_TYPE}, ErrorCode.INVALID_CLIENT),
        (None, {**ASSERTED, "client_assertion_type": "x"}, ErrorCode.INVALID_CLIENT),
        (None, {**ASSERTED, "client_assertion": "a.b.c"}, ErrorCode.INVALID_CLIENT),
        (None, {**ASSERTED, "client_assertion": assertion(sub=7)}, ErrorCode.INVALID_CLIENT),
        (None, {**ASSERTED, "client_secret": "b"}, ErrorCode.INVALID_REQUEST),
        (None, {**ASSERTED, "client_id": "other"}, ErrorCode.INVALID_REQUEST),
        ("", {"client_id": "a", "client_secret": "b"}, ErrorCode.INVALID_CLIENT),
        ("Basic", {}, ErrorCode.INVALID_CLIENT),
        ("Basic !!!", {}, ErrorCode.INVALID_CLIENT),
        ("Basic YTp", {}, ErrorCode.INVALID_CLIENT),
        ("Basic Y!Tpi", {}, ErrorCode.INVALID_CLIENT),
        ("Basic \u00e9", {}, ErrorCode.INVALID_CLIENT),
        ("Basic " + base64.b64encode(b"no-colon").decode(), {}, ErrorCode.INVALID_CLIENT),
        ("Basic " + base64.b64encode(b"\xff:b").decode(), {}, ErrorCode.INVALID_CLIENT),
        (basic("a", "%ff"), {}, ErrorCode.INVALID_CLIENT),
        (basic("a", "b").replace("Basic", "Bearer"), {}, ErrorCode.INVALID_CLIENT),
        (basic("a", "b"), {"client_secret": "b"}, ErrorCode.INVALID_REQUEST),
        (basic("a", "b"), {"client_id": "a", "client_secret": "b"}, ErrorCode.INVALID_REQUEST),
        (basic("a", "b"), {"client_assertion": "j"}, ErrorCode.INVALID_REQUEST),
        (basic("a", "b"), {"client_assertion_type": "j"}, ErrorCode.INVALID_REQUEST),
        (basic("a", "b"), {"client_id": "c"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_missing_unreadable_and_double_credentials_are_refused(authorization, form, error):
    with pytest.raises(OAuthError) as refused:
        read_presented(authorization, form)
    assert refused.value.error is error


def test_the_client_id_may_stand_beside_basic_credentials():
    assert read_presented(basic("a", "b"), {"client_id": "a"}).client_id == "a"


@pytest.mark.parametrize("method", [AuthMethod.BASIC, AuthMethod.POST])
def test_the_right_secret_signs_in(method):
    presented = Presented(client_id=NEW.client.id, method=method, proof=NEW.secret)
    assert sign_in(presented, NEW.client) is NEW.client


@pytest.mark.parametrize(
    ("presented", "known"),
    [
        (Presented(client_id="a", method=AuthMethod.BASIC, proof="wrong"), NEW.client),
        (Presented(client_id="a", method=AuthMethod.BASIC, proof=""), NEW.client),
        (Presented(client_id="a", method=AuthMethod.BASIC, proof="\udcff"), NEW.client),
        (
            Presented(client_id="a", method=AuthMethod.POST, proof=NEW.client.secret_hash),
            NEW.client,
        ),
        (Presented(client_id="a", method=AuthMethod.NONE), NEW.client),
        (
            Presented(client_id="a", method=AuthMethod.POST, proof=NEW.secret),
            replace(NEW.client, auth_methods=frozenset({AuthMethod.BASIC})),
        ),
        (Presented(client_id="a", method=AuthMethod.POST, proof=""), APP),
        (Presented(client_id="a", method=AuthMethod.POST, proof=NEW.secret), KEYED),
        (
            Presented(client_id="a", method=AuthMethod.PRIVATE_KEY_JWT, proof=assertion()),
            NEW.client,
        ),
        (Presented(client_id="a", method=AuthMethod.NONE), None),
        (Presented(client_id="a", method=AuthMethod.BASIC, proof=NEW.secret), None),
        (Presented(client_id="a", method=AuthMethod.PRIVATE_KEY_JWT, proof=assertion()), None),
    ],
    ids=lambda each: "" if each is None else type(each).__name__,
)
def test_an_unknown_client_a_foreign_method_and_a_wrong_proof_are_told_alike(presented, known):
    with pytest.raises(OAuthError) as refused:
        sign_in(presented, known)
    assert refused.value.error is ErrorCode.INVALID_CLIENT
    assert refused.value.public == "unknown client or wrong credentials"
    assert refused.value.client_id == ("" if known is None else known.id)


def test_a_client_without_a_secret_is_not_signed_in_with_the_hash_of_nothing():
    bare = replace(NEW.client, secret_hash="")
    with pytest.raises(OAuthError):
        sign_in(Presented(client_id=bare.id, method=AuthMethod.BASIC, proof=""), bare)


def test_a_public_client_is_none_where_only_confidential_ones_are():
    named = Presented(client_id=APP.id, method=AuthMethod.NONE)
    assert sign_in(named, APP) is APP
    with pytest.raises(OAuthError, match="required"):
        sign_in(named, APP, CONFIDENTIAL)
    with pytest.raises(OAuthError, match="required"):
        sign_in(None, None)


def test_an_unknown_client_costs_one_comparison_like_a_known_one(monkeypatch):
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def counted(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    with pytest.raises(OAuthError):
        sign_in(Presented(client_id="nobody", method=AuthMethod.BASIC, proof="x"), None)
    assert compared == [(secret_hash("x").encode(), b"sha256:" + b"0" * 64)]


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "PS256", "EdDSA"])
@pytest.mark.parametrize("kid", ["k1", None])
@pytest.mark.parametrize("typ", [None, "JWT", "client-authentication+jwt"])
async def test_a_client_may_sign_with_the_key_that_it_registered(tmp_path, algorithm, kid, typ):
    key = BY_ALGORITHM[algorithm]
    jwks = orjson.dumps({"keys": [public(key, kid="k1")]}).decode()
    issuer = Issuer(tmp_path, replace(KEYED, jwks=jwks))
    text = assertion(key, {"alg": algorithm, "kid": kid, "typ": typ})
    status, body = await issuer.answer(**by_assertion(text))
    assert status == 200
    assert issuer.read(body).client_id == KEYED.id
    issuer.stores.close()


async def test_an_assertion_counts_once(keyed):
    text = assertion()
    assert (await keyed.answer(**by_assertion(text)))[0] == 200
    status, body = await keyed.answer(**by_assertion(text))
    assert (status, body["error"]) == (401, "invalid_client")
    assert keyed.reason == "assertion: it was used before"
    assert (await keyed.answer(**by_assertion(assertion(jti="assertion-2"))))[0] == 200


async def test_a_wrong_assertion_does_not_use_its_jti_up(keyed):
    await keyed.answer(**by_assertion(assertion(aud="https://other.example")))
    assert (await keyed.answer(**by_assertion(assertion())))[0] == 200


STRANGER = ECKey.import_key(ec.generate_private_key(ec.SECP256R1()))
P384 = ECKey.import_key(ec.generate_private_key(ec.SECP384R1()))
P384_SHA256 = jws.JWSRegistry.algorithms["ES256"]
SECRET = OctKey.import_key(orjson.dumps(public(EC_KEY, kid="k1")))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(assertion(aud=PUBLIC_URL + "/oauth/token"), id="aud: the token endpoint"),
        pytest.param(assertion(aud=PUBLIC_URL + "/"), id="aud: a slash more"),
        pytest.param(assertion(aud=[PUBLIC_URL, "https://other.example"]), id="aud: two"),
        pytest.param(assertion(aud=[]), id="aud: none of a list"),
        pytest.param(assertion(aud=None), id="no aud"),
        pytest.param(assertion(iss="other"), id="iss: another"),
        pytest.param(assertion(iss=None), id="no iss"),
        pytest.param(assertion(jti=None), id="no jti"),
        pytest.param(assertion(jti=""), id="jti: empty"),
        pytest.param(assertion(jti=7), id="jti: a number"),
        pytest.param(assertion(jti="x" * 257), id="jti: too long"),
        pytest.param(assertion(exp=None), id="no exp"),
        pytest.param(assertion(exp=int(NOW)), id="exp: now"),
        pytest.param(assertion(exp=True), id="exp: true"),
        pytest.param(assertion(exp=str(int(NOW) + 300)), id="exp: a text"),
        pytest.param(assertion(exp=int(NOW) + 961), id="exp: too far ahead"),
        pytest.param(assertion(exp=int(NOW) + 961, iat=int(NOW) + 60), id="exp: too far, iat: so"),
        pytest.param(assertion(exp=int(NOW) + 961, iat=None), id="exp: too far, no iat"),
        pytest.param(assertion(exp=int(NOW) + 10, iat=int(NOW) - 951), id="a long life"),
        pytest.param(assertion(iat=int(NOW) + 61), id="iat: of the future"),
        pytest.param(assertion(nbf=int(NOW) + 61), id="nbf: of the future"),
        pytest.param(assertion(iat="now"), id="iat: a text"),
        pytest.param(assertion(nbf=True), id="nbf: true"),
        pytest.param(assertion(cnf={"jkt": "x"}), id="bound to a key"),
        pytest.param(assertion(STRANGER), id="another's key"),
        pytest.param(assertion(RSA_KEY, {"alg": "RS256"}), id="another's key of another type"),
        pytest.param(assertion(header={"kid": "k2"}), id="an unknown kid"),
        pytest.param(assertion(header={"kid": ["k1"]}), id="kid: a list"),
        pytest.param(assertion(header={"typ": {}}), id="typ: an object"),
        pytest.param(assertion(aud={PUBLIC_URL: 1}), id="aud: an object"),
        pytest.param(assertion(header={"typ": "at+jwt"}), id="typ: an access token"),
        pytest.param(assertion(header={"typ": "oauth-id-jag+jwt"}), id="typ: an ID-JAG"),
        pytest.param(assertion(header={"crit": ["exp"]}), id="crit"),
        pytest.param(assertion(STRANGER, {"jwk": public(STRANGER)}), id="jwk"),
        pytest.param(assertion(header={"jku": "https://a.test/jwks"}), id="jku"),
        pytest.param(assertion(header={"x5u": "https://a.test/cert"}), id="x5u"),
        pytest.param(assertion(SECRET, {"alg": "HS256"}), id="HS256 with the public key"),
        pytest.param(assertion(header={"alg": "none"}).rpartition(".")[0] + ".", id="none"),
        pytest.param(assertion(EC_KEY)[:-4] + "AAAA", id="a wrong signature"),
        pytest.param(assertion(EC_KEY)[:-4], id="a short signature"),
        pytest.param("a.b.c", id="letters"),
        pytest.param(f"{b64(b'[]')}.{b64(b'{}')}.AAAA", id="a list for a header"),
        pytest.param(f"{b64(b'{}')}.{b64(b'[]')}.AAAA", id="a list for claims"),
        pytest.param(f"{b64(b'[' * 900)}.{b64(b'{}')}.AAAA", id="a deep header"),
        pytest.param("x" * 20_000, id="too long"),
    ],
)
async def test_an_assertion_that_is_wrong_in_something_signs_nobody_in(keyed, text):
    status, body = await keyed.answer(**by_assertion(text))
    assert (status, body["error"]) == (401, "invalid_client")
    assert "client" not in keyed.record.fields or keyed.record.fields["client"] == KEYED.id


async def test_another_clients_assertion_signs_in_neither(tmp_path):
    other = replace(KEYED, id="other", name="other")
    issuer = Issuer(tmp_path, KEYED, other)
    status, _ = await issuer.answer(**by_assertion(assertion(sub="other")))
    assert status == 401
    status, _ = await issuer.answer(**by_assertion(assertion(sub="other", iss="other")))
    assert status == 200  # the same key, registered by both
    issuer.stores.close()


async def test_an_own_access_token_is_no_assertion(keyed):
    _, body = await keyed.answer(**by_assertion(assertion()))
    status, refused = await keyed.answer(**by_assertion(body["access_token"]))
    assert (status, refused["error"]) == (401, "invalid_client")
    assert KEYS.signing.kid not in KEYED.jwks


async def test_a_key_for_one_algorithm_is_none_for_another(tmp_path):
    jwks = orjson.dumps({"keys": [public(RSA_KEY, kid="k1", alg="PS256")]}).decode()
    issuer = Issuer(tmp_path, replace(KEYED, jwks=jwks))
    for algorithm, expected in (("RS256", 401), ("PS256", 200)):
        text = assertion(RSA_KEY, {"alg": algorithm}, jti=algorithm)
        assert (await issuer.answer(**by_assertion(text)))[0] == expected
    issuer.stores.close()


async def test_a_key_on_another_curve_signs_nobody_in(tmp_path):
    jwks = orjson.dumps({"keys": [public(P384, kid="k1")]}).decode()
    issuer = Issuer(tmp_path, replace(KEYED, jwks=jwks))
    signing_input = assertion().rpartition(".")[0]
    signature = P384_SHA256.sign(signing_input.encode(), P384)
    assert P384_SHA256.verify(signing_input.encode(), signature, P384)
    status, _ = await issuer.answer(**by_assertion(f"{signing_input}.{b64(signature)}"))
    assert status == 401
    issuer.stores.close()


async def test_keys_that_cannot_be_read_sign_nobody_in(tmp_path):
    issuer = Issuer(tmp_path, replace(KEYED, jwks='{"keys":[{"kty":"EC","crv":"P-256"}]}'))
    status, _ = await issuer.answer(**by_assertion(assertion()))
    assert status == 401
    issuer.stores.close()


async def test_where_the_client_is_looked_up_it_is_by_id_and_address(keyed):
    await keyed.answer(**by_assertion(assertion()))
    assert keyed.directory.asked == [(KEYED.id, "192.0.2.7")]


async def test_a_client_that_registered_itself_may_prove_itself_by_key_but_not_act_alone(tmp_path):
    issuer = Issuer(tmp_path, replace(KEYED, kind=ClientKind.DYNAMIC))
    status, body = await issuer.answer(**by_assertion(assertion()))
    assert (status, body["error"]) == (400, "unauthorized_client")
    issuer.stores.close()

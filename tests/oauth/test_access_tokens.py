"""Access tokens: what is minted verifies, and nothing else does."""

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt as pyjwt
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc import jws
from joserfc.jwk import ECKey

from gateway.errors import Unauthenticated
from gateway.oauth.keys import KeyRing
from gateway.oauth.tokens import AccessToken, mint, verify, verify_any
from tests.oauth.world import KEY, KEYS, MAIL_URI, NOW, PUBLIC_URL, access_token, client, new_key

CLIENT = client(groups=frozenset({"security", "staff"})).client
HEADER = {"alg": "ES256", "typ": "at+jwt", "kid": KEY.kid}
CLAIMS: dict[str, Any] = {
    "iss": PUBLIC_URL,
    "sub": CLIENT.id,
    "aud": MAIL_URI,
    "client_id": CLIENT.id,
    "client_name": CLIENT.name,
    "scope": "tools:call tools:list",
    "groups": ["security", "staff"],
    "iat": int(NOW),
    "exp": int(NOW) + 900,
    "jti": "token-1",
    "gid": "",
}
FOREIGN = ECKey.generate_key("P-256")
PUBLIC_PEM = KEY.pair.as_pem(private=False)
PUBLIC_JWK = json.dumps(KEY.pair.as_dict(private=False)).encode()


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def es256(header: dict[str, Any], payload: bytes, key: ECKey = KEY.pair) -> str:
    """Sign whatever stands in `header`, by hand: no library's checks in between."""
    signing_input = f"{b64(json.dumps(header).encode())}.{b64(payload)}"
    signed = jws.JWSRegistry.algorithms["ES256"].sign(signing_input.encode(), key)
    return f"{signing_input}.{b64(signed)}"


def forged(*, header: dict[str, Any] | None = None, key: ECKey = KEY.pair, **claims: Any) -> str:
    """Sign a token whose header or claims differ; a claim of `None` is left out."""
    content = {name: each for name, each in {**CLAIMS, **claims}.items() if each is not None}
    return es256(HEADER if header is None else header, json.dumps(content).encode(), key)


def hs256(secret: bytes) -> str:
    text = json.dumps({**HEADER, "alg": "HS256"}).encode()
    signing_input = f"{b64(text)}.{b64(json.dumps(CLAIMS).encode())}"
    return f"{signing_input}.{b64(hmac.digest(secret, signing_input.encode(), hashlib.sha256))}"


def unsigned(alg: str) -> str:
    header = b64(json.dumps({**HEADER, "alg": alg}).encode())
    return f"{header}.{b64(json.dumps(CLAIMS).encode())}."


def check(text: str, *, keys: KeyRing = KEYS, now: float = NOW) -> AccessToken:
    return verify(text, keys=keys, issuer=PUBLIC_URL, audience=MAIL_URI, now=now)


def test_what_is_minted_verifies_and_says_the_same():
    token = access_token(CLIENT)
    assert check(mint(token, KEYS)) == token


def test_a_minted_token_is_an_rfc_9068_jwt_to_another_library():
    text = mint(access_token(CLIENT), KEYS)
    assert pyjwt.get_unverified_header(text) == HEADER
    claims = pyjwt.decode(
        text,
        PUBLIC_PEM,
        algorithms=["ES256"],
        audience=MAIL_URI,
        options={"verify_exp": False, "verify_iat": False},
    )
    assert claims == CLAIMS


def test_a_token_of_another_library_with_our_key_verifies():
    private = KEY.pair.private_key
    assert private is not None
    text = pyjwt.encode(CLAIMS, private, algorithm="ES256", headers=HEADER)
    assert check(text) == access_token(CLIENT)


def test_a_token_of_a_family_names_it():
    token = access_token(CLIENT, subject="a11ce", grant_id="grant-1")
    assert check(mint(token, KEYS)) == token


def test_whoever_names_a_token_need_not_know_its_endpoint_but_the_rest_holds():
    other = access_token(CLIENT, audience=PUBLIC_URL + "/mcp/web")
    text = mint(other, KEYS)
    assert verify_any(text, keys=KEYS, issuer=PUBLIC_URL, now=NOW) == other
    for issuer, now in (("https://issuer.example", NOW), (PUBLIC_URL, NOW + 900)):
        with pytest.raises(Unauthenticated):
            verify_any(text, keys=KEYS, issuer=issuer, now=now)


def test_the_token_that_the_forgeries_start_from_is_good():
    assert check(forged()) == access_token(CLIENT)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(unsigned("none"), id="none"),
        pytest.param(unsigned("NONE"), id="NONE"),
        pytest.param(unsigned("ES256"), id="ES256 without a signature"),
        pytest.param(hs256(PUBLIC_PEM), id="HS256 with the public PEM"),
        pytest.param(hs256(PUBLIC_JWK), id="HS256 with the public JWK"),
        pytest.param(hs256(b""), id="O15: HS256 with the empty secret"),
        pytest.param(hs256(b"my-test-key"), id="O15: HS256 with a default secret"),
        pytest.param(forged(header={**HEADER, "alg": "ES384"}), id="another algorithm's name"),
        pytest.param(forged(key=FOREIGN), id="our kid, a foreign key"),
        pytest.param(forged(header={**HEADER, "kid": "../../etc/passwd"}), id="kid: a path"),
        pytest.param(forged(header={**HEADER, "kid": "https://a.test/k"}), id="kid: a URL"),
        pytest.param(forged(header={**HEADER, "kid": [KEY.kid]}), id="kid: a list"),
        pytest.param(forged(header={"alg": "ES256", "typ": "at+jwt"}), id="no kid"),
        pytest.param(forged(header={**HEADER, "jku": "https://a.test/jwks"}), id="jku"),
        pytest.param(forged(header={**HEADER, "x5u": "https://a.test/cert"}), id="x5u"),
        pytest.param(forged(header={**HEADER, "x5c": ["MII"]}), id="x5c"),
        pytest.param(forged(header={**HEADER, "crit": ["b64"], "b64": True}), id="crit"),
        pytest.param(forged(header={**HEADER, "crit": []}), id="empty crit"),
        pytest.param(
            forged(header={**HEADER, "jwk": FOREIGN.as_dict(private=False)}, key=FOREIGN), id="jwk"
        ),
    ],
)
def test_o14_a_token_that_chooses_its_own_key_or_algorithm_is_refused(text):
    with pytest.raises(Unauthenticated):
        check(text)


@pytest.mark.parametrize("alg", ["none", "NONE", "HS256", "RS256", "ES384", "es256", "", None, 7])
def test_o14_the_algorithm_is_judged_before_the_library_sees_the_token(alg):
    with pytest.raises(Unauthenticated, match="another algorithm"):
        check(forged(header={**HEADER, "alg": alg}))


def test_a_token_of_more_than_eight_kibibytes_is_refused():
    with pytest.raises(Unauthenticated, match="too long"):
        check(forged(groups=["x" * 8192]))


@pytest.mark.parametrize(
    "header",
    [
        pytest.param({**HEADER, "typ": "JWT"}, id="an ID token's"),
        pytest.param({**HEADER, "typ": "application/at+jwt"}, id="the long form"),
        pytest.param({**HEADER, "typ": "AT+JWT"}, id="upper case"),
        pytest.param({**HEADER, "typ": "oauth-id-jag+jwt"}, id="an assertion's"),
        pytest.param({**HEADER, "typ": None}, id="null"),
        pytest.param({"alg": "ES256", "kid": KEY.kid}, id="none"),
    ],
)
def test_another_typ_is_refused(header):
    with pytest.raises(Unauthenticated):
        check(forged(header=header))


@pytest.mark.parametrize("member", sorted(HEADER))
@pytest.mark.parametrize("content", [None, True, 7, 1.5, "", [], ["at+jwt"], {}, {"a": []}])
def test_a_header_that_says_anything_else_than_texts_is_refused(member, content):
    with pytest.raises(Unauthenticated):
        check(forged(header={**HEADER, member: content}))


@pytest.mark.parametrize(
    ("claim", "content"),
    [
        *((name, None) for name in CLAIMS),
        *((name, "") for name in CLAIMS if name != "gid"),
        *((name, 7) for name in CLAIMS if name not in {"iat", "exp"}),
        *((name, [CLAIMS[name]]) for name in CLAIMS),
        *((name, {}) for name in CLAIMS),
        ("groups", [1]),
        ("groups", ["staff", None]),
        ("iat", str(int(NOW))),
        ("iat", NOW + 0.5),
        ("iat", True),
        ("exp", str(int(NOW) + 900)),
        ("exp", NOW + 900.5),
        ("exp", 10**30),
        ("nbf", str(int(NOW))),
        ("nbf", False),
    ],
)
def test_a_claim_that_is_missing_or_of_another_type_is_refused(claim, content):
    with pytest.raises(Unauthenticated, match=f"claim {claim} is"):
        check(forged(**{claim: content}))


@pytest.mark.parametrize(
    "audience",
    [
        pytest.param("https://api.github.com", id="O10: an upstream API"),
        pytest.param("https://other.example/mcp/mail", id="O11: another gateway"),
        pytest.param("http://127.0.0.1:8081/mcp/mail", id="O11: another port"),
        pytest.param("https://127.0.0.1:8080/mcp/mail", id="O11: another scheme"),
        pytest.param(PUBLIC_URL, id="the gateway as a whole"),
        pytest.param(PUBLIC_URL + "/mcp", id="the aggregate"),
        pytest.param(PUBLIC_URL + "/mcp/web", id="another server"),
        pytest.param(MAIL_URI + "/", id="a slash more"),
        pytest.param(MAIL_URI + "box", id="a longer name"),
        pytest.param(MAIL_URI.upper(), id="upper case"),
        pytest.param([MAIL_URI], id="a list of one"),
        pytest.param([MAIL_URI, PUBLIC_URL + "/mcp/web"], id="a list of two"),
    ],
)
def test_o10_o11_a_token_for_anything_but_this_endpoint_is_refused(audience):
    with pytest.raises(Unauthenticated):
        check(forged(aud=audience))


@pytest.mark.parametrize(
    "issuer", ["https://issuer.example", PUBLIC_URL + "/", PUBLIC_URL.upper(), "127.0.0.1:8080"]
)
def test_o11_another_issuer_is_refused(issuer):
    with pytest.raises(Unauthenticated, match="another issuer"):
        check(forged(iss=issuer))


def test_a_token_is_good_until_the_very_second_it_expires():
    text = forged()
    assert check(text, now=NOW + 899.9).expires_at == int(NOW) + 900
    with pytest.raises(Unauthenticated, match="expired"):
        check(text, now=NOW + 900)


@pytest.mark.parametrize("claim", ["iat", "nbf"])
def test_a_clock_may_be_a_minute_ahead_and_no_more(claim):
    just: dict[str, Any] = {claim: int(NOW) + 60}
    beyond: dict[str, Any] = {claim: int(NOW) + 61}
    assert check(forged(**just)).token_id == "token-1"
    with pytest.raises(Unauthenticated, match="not yet valid"):
        check(forged(**beyond))


@pytest.mark.parametrize(
    "times",
    [
        pytest.param({"iat": int(NOW) + 30, "exp": int(NOW) + 20}, id="ends before it begins"),
        pytest.param({"exp": int(NOW) + 24 * 3600 + 1}, id="longer than a day"),
    ],
)
def test_a_lifetime_out_of_bounds_is_refused(times):
    with pytest.raises(Unauthenticated, match="lifetime"):
        check(forged(**times))


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "a.b.c.d.e",
        "O13-4f9c1f7c7c0b4f1fb0a4a1d2c3b4a596",
        "rt_" + "x" * 43,
        "Bearer " + forged(),
        " " + forged(),
        forged() + "\n",
        forged()[:-1],
        forged()[:-4],
        forged() + "AAAA",
        forged() + ".",
        forged() + "=",
        forged().rpartition(".")[0],
        forged().rpartition(".")[0] + ".",
        forged().replace(".", "..", 1),
        "\u00e9" + forged(),
        "\udcff",
        "\x00",
        "a" * 100_000,
        b64(b"[" * 3000) + ".e30.e30",
        b64(b"[]") + ".e30.e30",
        b64(b'"alg"') + ".e30.e30",
        b64(b"\xff") + ".e30.e30",
    ],
    ids=lambda text: ascii(text[:24]),
)
def test_o13_what_is_no_access_token_is_refused(text):
    with pytest.raises(Unauthenticated):
        check(text)


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"null", b"7", b'"x"', b"{", b"[" * 2000, b'{"a":NaN}']
)
def test_a_signed_payload_that_is_no_object_is_refused(payload):
    with pytest.raises(Unauthenticated):
        check(es256(HEADER, payload))


def test_a_changed_claim_breaks_the_signature():
    header, _, signature = forged().split(".")
    payload = b64(json.dumps({**CLAIMS, "scope": "tools:write"}).encode())
    with pytest.raises(Unauthenticated):
        check(f"{header}.{payload}.{signature}")


def test_a_signature_in_der_is_refused():
    private = KEY.pair.private_key
    assert private is not None
    signing_input = forged().rpartition(".")[0]
    der = private.sign(signing_input.encode(), ec.ECDSA(hashes.SHA256()))
    with pytest.raises(Unauthenticated):
        check(f"{signing_input}.{b64(der)}")


def test_after_a_rotation_the_newest_key_signs_and_the_old_one_still_verifies():
    old_text = mint(access_token(CLIENT), KEYS)
    new = new_key()
    both = KeyRing([new, KEY])
    assert check(old_text, keys=both) == access_token(CLIENT)
    new_text = mint(access_token(CLIENT), both)
    assert pyjwt.get_unverified_header(new_text)["kid"] == new.kid
    assert check(new_text, keys=both) == access_token(CLIENT)


def test_a_key_that_left_the_ring_verifies_no_longer():
    text = mint(access_token(CLIENT), KEYS)
    with pytest.raises(Unauthenticated, match="unknown key"):
        check(text, keys=KeyRing([new_key()]))


def test_a_refusal_tells_the_caller_nothing_of_the_reason():
    with pytest.raises(Unauthenticated) as refused:
        check(forged(aud="https://api.github.com"))
    assert refused.value.public == "the access token is not valid for this endpoint"
    assert refused.value.detail == "another audience"

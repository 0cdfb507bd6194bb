"""A DPoP proof: what RFC 9449 section 4.3 wants to be checked, check by check."""

import json
import warnings
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from gateway.domain.identity import Proof
from gateway.oauth.proofs import ALGORITHMS, Shown, judge, same_target
from tests.oauth.holders import TOKEN_URL, Holder, b64, public
from tests.oauth.world import MAIL_URI, NOW

HOLDER = Holder()
ED = Holder(OKPKey.generate_key("Ed25519"), "EdDSA")
HERE = Shown(method="POST", urls=(TOKEN_URL,))
TOKEN = "header.claims.signature"
MAIL = Shown(method="POST", urls=(MAIL_URI,), token=TOKEN)

# RFC 9449 section 7.1: a proof of another implementation with its token, and its key's thumbprint of
# section 6.1. The signature that is printed in section 4.1 is none of this key.
EXAMPLE = (
    "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNo"
    "UklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERW"
    "clUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR"
    "1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCw"
    "iYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-E"
    "y71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA"
)


def check(text: str, shown: Shown = HERE, *, now: float = NOW, window_s: float = 60.0) -> Proof:
    return judge(text, shown, window_s=window_s, now=now)


def refused(text: str, shown: Shown = HERE, **changes: float) -> str:
    with pytest.raises(ValueError, match=r"\S") as raised:
        check(text, shown, **changes)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
    return str(raised.value)


def test_the_example_of_the_specification_proves_its_key():
    shown = Shown(
        method="GET",
        urls=("https://resource.example.org/protectedresource",),
        token="Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU",
    )
    proof = check(EXAMPLE, shown, now=1562262618)
    assert proof.key == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
    assert (proof.made_at, proof.until) == (1562262618.0, 1562262678.0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_proof_by_any_of_the_algorithms_proves_its_key(algorithm):
    is_curve = algorithm == "ES256"
    key = ECKey.generate_key("P-256") if is_curve else OKPKey.generate_key("Ed25519")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check(Holder(key, algorithm).proof()).key == key.thumbprint()


def test_the_same_jti_is_another_use_with_another_key_and_the_same_with_the_same():
    other = Holder()
    first, again = (check(HOLDER.proof(jti="one", iat=int(NOW) + late)) for late in (0, 1))
    assert first.use == again.use
    assert check(other.proof(jti="one")).use != first.use
    assert check(HOLDER.proof(jti="two")).use != first.use


def with_key(jwk: dict[str, Any], **header: Any) -> str:
    return HOLDER.proof(header={"jwk": jwk, **header})


def unsigned() -> str:
    header, claims, _ = HOLDER.proof(header={"alg": "none"}).split(".")
    return f"{header}.{claims}.AA"


def twice() -> str:
    _, claims, signature = HOLDER.proof().split(".")
    jwk = json.dumps(public(HOLDER.jwk))
    header = '{"typ":"dpop+jwt","alg":"none","alg":"ES256","jwk":' + jwk + "}"
    return f"{b64(header.encode())}.{claims}.{signature}"


PRIVATE = dict(HOLDER.key.as_dict(private=True))
RSA = dict(RSAKey.generate_key(2048).as_dict(private=False))
OCT = dict(OctKey.generate_key(256).as_dict(private=True))
P384 = dict(ECKey.generate_key("P-384").as_dict(private=False))
OFF_CURVE = {**public(HOLDER.jwk), "y": public(HOLDER.jwk)["x"]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        # 2: one well-formed JWT
        ("", "not a signed JWT"),
        ("a.b", "not a signed JWT"),
        ("a.b.c.d", "not a signed JWT"),
        ("a.b.c", "not a signed JWT"),
        ("a.b.c, a.b.c", "not a signed JWT"),
        ("ä.b.c", "not a signed JWT"),
        (f"{b64(b'[]')}.{b64(b'{}')}.AA", "not a signed JWT"),
        (f"{b64(b'{}')}.{b64(b'[]')}.AA", "not a signed JWT"),
        ("." + HOLDER.proof(), "not a signed JWT"),
        (HOLDER.proof() + "!", "not a signed JWT"),
        (HOLDER.proof() + "=", "not a signed JWT"),
        (HOLDER.proof() + "\n", "not a signed JWT"),
        (twice(), "not a signed JWT"),
        (HOLDER.proof(more="x" * 4096), "too long"),
        # 3 and 4: whatever has to be there is, and says that it is a proof
        (HOLDER.proof(header={"typ": None}), "another type"),
        (HOLDER.proof(header={"typ": "at+jwt"}), "another type"),
        (HOLDER.proof(header={"typ": "DPOP+JWT"}), "another type"),
        (HOLDER.proof(header={"jwk": None}), "the header has missing or foreign members"),
        (HOLDER.proof(header={"jwk": "x"}), "the header has missing or foreign members"),
        (HOLDER.proof(header={"crit": ["b64"]}), "the header has missing or foreign members"),
        (HOLDER.proof(header={"jku": "x"}), "the header has missing or foreign members"),
        (HOLDER.proof(header={"kid": "x"}), "the header has missing or foreign members"),
        (HOLDER.proof(jti=None), "claim jti is missing or malformed"),
        (HOLDER.proof(jti=1), "claim jti is missing or malformed"),
        (HOLDER.proof(jti=""), "claim jti is missing or malformed"),
        (HOLDER.proof(jti="x" * 129), "claim jti is missing or malformed"),
        (HOLDER.proof(jti="ä" * 65), "claim jti is missing or malformed"),
        # 5: an asymmetric algorithm that is known here
        (HOLDER.proof(header={"alg": None}), "another algorithm"),
        (HOLDER.proof(header={"alg": ["ES256"]}), "another algorithm"),
        (HOLDER.proof(header={"alg": "HS256"}), "another algorithm"),
        (HOLDER.proof(header={"alg": "RS256"}), "another algorithm"),
        (HOLDER.proof(header={"alg": "ES384"}), "another algorithm"),
        (unsigned(), "another algorithm"),
        # 6: the signature is that of the key
        (
            HOLDER.proof(signed_by=ECKey.generate_key("P-256")),
            "not signed by the key that it brings",
        ),
        (HOLDER.proof()[:-4] + "AAAA", "not signed by the key that it brings"),
        (HOLDER.proof()[:-4], "not signed by the key that it brings"),
        (with_key(OFF_CURVE), "the key cannot be used"),
        (with_key({**public(HOLDER.jwk), "x": 1}), "the key cannot be used"),
        (with_key({**public(HOLDER.jwk), "x": "AA"}), "the key cannot be used"),
        (ED.proof(header={"jwk": {**public(ED.jwk), "x": "AA"}}), "the key cannot be used"),
        (ED.proof(header={"alg": "ES256"}), "the key is private, symmetric or of another kind"),
        (with_key({**public(HOLDER.jwk), "alg": "ES384"}), "the key is for another algorithm"),
        (with_key(P384), "the key is of another kind"),
        (with_key({**public(HOLDER.jwk), "kty": "OKP"}), "the key is of another kind"),
        # 7: the key is public
        (with_key(PRIVATE), "the key is private, symmetric or of another kind"),
        (with_key(OCT), "the key is private, symmetric or of another kind"),
        (with_key(RSA), "the key is private, symmetric or of another kind"),
        (
            with_key({**public(HOLDER.jwk), "k": "x"}),
            "the key is private, symmetric or of another kind",
        ),
        (with_key({"kty": "EC"}), "the key is private, symmetric or of another kind"),
        # 8: the method
        (HOLDER.proof(htm=None), "for another method"),
        (HOLDER.proof(htm="GET"), "for another method"),
        (HOLDER.proof(htm="post"), "for another method"),
        # 9: the URL
        (HOLDER.proof(htu=None), "for another URL"),
        (HOLDER.proof(htu=1), "for another URL"),
        (HOLDER.proof(htu=MAIL_URI), "for another URL"),
        # 11: the time
        (HOLDER.proof(iat=None), "claim iat is missing or malformed"),
        (HOLDER.proof(iat=str(int(NOW))), "claim iat is missing or malformed"),
        (HOLDER.proof(iat=True), "claim iat is missing or malformed"),
        (HOLDER.proof(iat=int(NOW) - 61), "made too long ago, or too far ahead"),
        (HOLDER.proof(iat=int(NOW) + 61), "made too long ago, or too far ahead"),
    ],
)
def test_a_proof_that_is_wrong_in_something_proves_nothing(text, why):
    assert refused(text) == why


def test_what_a_key_says_of_itself_beside_what_it_is_changes_nothing():
    jwk = {**public(HOLDER.jwk), "use": "sig", "kid": "mine", "alg": "ES256", "ext": True}
    assert check(with_key(jwk)).key == HOLDER.thumbprint


@pytest.mark.parametrize("late", [-60, 0, 0.5, 60])
def test_a_clock_may_be_as_far_away_as_is_said(late):
    assert check(HOLDER.proof(iat=NOW + late)).until == NOW + late + 60.0
    assert refused(HOLDER.proof(iat=NOW + 61), window_s=60.0)
    assert check(HOLDER.proof(iat=NOW + 61), window_s=61.0).made_at == NOW + 61


def test_with_a_token_a_proof_is_for_this_token():
    def proof(**changes: Any) -> str:
        return HOLDER.proof(htu=MAIL_URI, **changes)

    assert check(proof(token=TOKEN), MAIL).key == HOLDER.thumbprint
    for text in (proof(), proof(token=TOKEN + "x"), proof(ath=1), proof(ath="ä"), proof(ath="")):
        assert refused(text, MAIL) == "for another access token"


@pytest.mark.parametrize(
    "said",
    [
        "https://gw.example/mcp/mail",
        "HTTPS://GW.example:443/mcp/mail",
        "https://gw.example/mcp/mail?x=y#z",
        "https://gw.example/%6Dcp/mail",
        "https://gw.example/mcp/./web/../mail",
    ],
)
def test_one_url_has_several_spellings(said):
    assert same_target(said, "https://gw.example/mcp/mail")


@pytest.mark.parametrize(
    "said",
    [
        "",
        "/mcp/mail",
        "http://gw.example/mcp/mail",
        "https://gw.example:8443/mcp/mail",
        "https://gw.example:x/mcp/mail",
        "https://gw.example.evil/mcp/mail",
        "https://emma@gw.example/mcp/mail",
        "https://@gw.example/mcp/mail",
        "https://gw.example/mcp/mail/",
        "https://gw.example/mcp/Mail",
        "https://gw.example/mcp%2Fmail",
        "https://gw.example/mcp/mail/..",
        "https://gw.example/mcp/ma\nil",
        "https://gw.example/mcp/m\u00e4il",
        "https://[gw.example/mcp/mail",
        "ftp://gw.example/mcp/mail",
    ],
)
def test_another_url_is_another(said):
    assert not same_target(said, "https://gw.example/mcp/mail")


def test_the_root_has_a_path_or_none():
    assert same_target("https://gw.example", "https://gw.example/")
    assert same_target("http://127.0.0.1:80/a/.", "http://127.0.0.1/a/")

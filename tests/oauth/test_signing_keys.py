"""Signing keys: weak ones are refused before anything is served (attack O15)."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc.jwk import ECKey

from gateway.errors import ConfigError
from gateway.oauth.keys import KeyRing, SigningKey
from tests.oauth.world import new_key

RFC_7515_A_3 = (
    "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI",
)
RFC_7517_A_2 = (
    "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
    "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
    "870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE",
)


def of_value(octets: bytes) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(octets, "big"), ec.SECP256R1())


def published(x: str, y: str, d: str) -> ec.EllipticCurvePrivateKey:
    found = ECKey.import_key({"kty": "EC", "crv": "P-256", "x": x, "y": y, "d": d}).private_key
    assert found is not None
    return found


def test_a_key_is_named_by_its_thumbprint_and_shows_no_private_value():
    private = ec.generate_private_key(ec.SECP256R1())
    key = SigningKey.of(private)
    assert key.kid == SigningKey.of(private).kid == ECKey.import_key(private).thumbprint()
    assert repr(key) == f"SigningKey(kid='{key.kid}')"


@pytest.mark.parametrize(
    "curve", [ec.SECP256K1(), ec.SECP384R1(), ec.SECP224R1()], ids=lambda of: of.name
)
def test_a_key_on_another_curve_is_refused(curve):
    with pytest.raises(ConfigError, match="P-256"):
        SigningKey.of(ec.generate_private_key(curve))


@pytest.mark.parametrize(
    "private",
    [
        pytest.param(of_value(b"\x01"), id="one"),
        pytest.param(of_value(bytes(range(1, 24))), id="a short value"),
        pytest.param(of_value(b"\x41" * 32), id="one octet repeated"),
        pytest.param(of_value(b"secret!!" * 4), id="a word repeated"),
        pytest.param(published(*RFC_7515_A_3), id="RFC 7515 appendix A.3"),
        pytest.param(published(*RFC_7517_A_2), id="RFC 7517 appendix A.2"),
    ],
)
def test_o15_a_default_or_guessable_key_is_refused(private):
    with pytest.raises(ConfigError, match="not drawn at random"):
        SigningKey.of(private)


def test_a_ring_without_keys_is_refused():
    with pytest.raises(ConfigError):
        KeyRing([])


def test_a_ring_with_one_key_twice_is_refused():
    key = new_key()
    with pytest.raises(ConfigError):
        KeyRing([key, key])


def test_the_jwks_has_the_public_halves_and_nothing_else():
    new, old = new_key(), new_key()
    documents = KeyRing([new, old]).jwks["keys"]
    assert [document["kid"] for document in documents] == [new.kid, old.kid]
    for document in documents:
        assert document.keys() == {"kty", "crv", "x", "y", "kid", "use", "alg"}
        assert (document["kty"], document["crv"]) == ("EC", "P-256")
        assert (document["use"], document["alg"]) == ("sig", "ES256")

"""Keys and signatures of clients and identity providers, made by hand where a library refuses."""

import base64
from collections.abc import Mapping
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from joserfc import jws
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

EC_KEY = ECKey.import_key(ec.generate_private_key(ec.SECP256R1()))
RSA_KEY = RSAKey.import_key(rsa.generate_private_key(public_exponent=65537, key_size=2048))
ED_KEY = OKPKey.import_key(ed25519.Ed25519PrivateKey.generate())
BY_ALGORITHM: Mapping[str, Key] = {
    "ES256": EC_KEY,
    "RS256": RSA_KEY,
    "PS256": RSA_KEY,
    "EdDSA": ED_KEY,
}


def public(key: Key, **more: str) -> dict[str, Any]:
    """Return a key's public half as a JWK."""
    return {**key.as_dict(private=False), **more}


def signed(claims: Mapping[str, Any], key: Key = EC_KEY, **header: Any) -> str:
    """Sign claims with `key`, whatever stands in the header; a member of `None` is left out."""
    members = {"alg": "ES256", "kid": "k1", **header}
    kept = {name: each for name, each in members.items() if each is not None}
    signing_input = f"{b64(orjson.dumps(kept))}.{b64(orjson.dumps(dict(claims)))}"
    algorithm = jws.JWSRegistry.algorithms[members["alg"] or "ES256"]
    return f"{signing_input}.{b64(algorithm.sign(signing_input.encode(), key))}"


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

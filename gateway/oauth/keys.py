"""The key pairs that sign access tokens: P-256, several at a time so that they can be rotated."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric import ec
from joserfc.jwk import ECKey

from gateway.domain._value import value
from gateway.errors import ConfigError

ALGORITHM = "ES256"
"""ECDSA with P-256 and SHA-256 (RFC 7518 section 3.4): short tokens, quick to sign."""

_FEWEST_BITS = 192
"""A random private value is shorter than this once in 2^64 draws."""

_FEWEST_DISTINCT_OCTETS = 12
"""32 random octets hold fewer distinct ones with a probability below 1e-23."""

_PUBLISHED = frozenset(
    {
        "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U",  # RFC 7515 appendix A.3
        "cn-I_WNMClehiVp51i_0VpOENW1upEerA8sEam5hn-s",  # RFC 7517 appendix A.2
    }
)
"""Thumbprints of key pairs whose private halves stand in specifications."""


@value
class SigningKey:
    """A P-256 key pair, named by its RFC 7638 thumbprint."""

    kid: str
    pair: ECKey = field(repr=False)

    @classmethod
    def of(cls, private: ec.EllipticCurvePrivateKey) -> Self:
        """Take a private key into use.

        Raises:
            ConfigError: It is not on P-256, or one that others may know.

        """
        if not isinstance(private.curve, ec.SECP256R1):
            raise ConfigError("the signing key is not on the curve P-256")
        pair = ECKey.import_key(private)
        kid = pair.thumbprint()
        secret = private.private_numbers().private_value
        if (
            kid in _PUBLISHED
            or secret.bit_length() < _FEWEST_BITS
            or len(set(secret.to_bytes(32, "big"))) < _FEWEST_DISTINCT_OCTETS
        ):
            raise ConfigError("the signing key was not drawn at random; make a new one")
        return cls(kid=kid, pair=pair)


class KeyRing:
    """The first key signs, all of them verify and are published.

    The next key is among them before it signs, and a retired one until the last token that it
    signed has expired: nobody is signed out by a rotation.
    """

    def __init__(self, keys: Sequence[SigningKey]) -> None:
        self._keys = {key.kid: key for key in keys}
        if not keys or len(self._keys) != len(keys):
            raise ConfigError("there must be a signing key, and none of them twice")
        self.signing = keys[0]
        self.jwks: Mapping[str, Any] = {
            "keys": [
                {**key.pair.as_dict(private=False), "kid": key.kid, "use": "sig", "alg": ALGORITHM}
                for key in keys
            ]
        }
        """The public halves (RFC 7517 section 5)."""

    def find(self, kid: str) -> SigningKey | None:
        """Return the key of that name. Looked up, never fetched: a `kid` is no path and no URL."""
        return self._keys.get(kid)

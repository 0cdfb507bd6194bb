"""The public keys with which a client proves itself (RFC 7517, RFC 7523 section 2.2)."""

from collections.abc import Mapping
from typing import Any

import orjson
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.util import urlsafe_b64decode

from gateway.domain._value import value
from gateway.oauth.errors import ErrorCode, OAuthError

ALGORITHMS = ("ES256", "RS256", "PS256", "EdDSA")
"""With what a client may sign (RFC 7518 section 3.1, RFC 8037 section 3.1)."""

MOST_KEYS = 10

_PRIVATE = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"}
_RSA_BITS = range(2048, 8193)
"""Fewer can be broken (RFC 7518 section 3.3), more take too long to check."""

_LONGEST_EXPONENT_BITS = 64
"""The time to check a signature grows with it. What keys have is 65537."""


@value
class _Kind:
    """One kind of key that we can check signatures with."""

    key: type[ECKey] | type[RSAKey] | type[OKPKey]
    members: tuple[str, ...]
    algorithms: frozenset[str]


_KINDS = {
    ("EC", "P-256"): _Kind(
        key=ECKey, members=("kty", "crv", "x", "y"), algorithms=frozenset({"ES256"})
    ),
    ("RSA", None): _Kind(
        key=RSAKey, members=("kty", "n", "e"), algorithms=frozenset({"RS256", "PS256"})
    ),
    ("OKP", "Ed25519"): _Kind(
        key=OKPKey, members=("kty", "crv", "x"), algorithms=frozenset({"EdDSA"})
    ),
}


def public_keys(jwks: object) -> str:
    """Return the keys of `jwks` that can check a client's signature, as the text of a JWK Set.

    Nothing but what names and makes up a public key is kept.

    Raises:
        OAuthError: `invalid_client_metadata`: no JWK Set, a private key in it, or none usable.

    """
    keys = jwks.get("keys") if isinstance(jwks, Mapping) else None
    if not isinstance(keys, list) or not 0 < len(keys) <= MOST_KEYS:
        raise _refusal("jwks must hold 1 to 10 keys")
    kept = [key for key in map(_public, keys) if key is not None]
    if not kept:
        raise _refusal("jwks holds no key for ES256, RS256, PS256 or EdDSA")
    return orjson.dumps({"keys": kept}).decode()


def _public(jwk: object) -> dict[str, str] | None:
    """Return the public key in `jwk`; nothing if it is of a kind that we cannot use."""
    if not isinstance(jwk, Mapping):
        raise _refusal("jwks must hold 1 to 10 keys")
    if _PRIVATE & jwk.keys():
        # Whoever sent it has given it away: to us, and to whatever stands between.
        raise _refusal("jwks holds a private or symmetric key")
    words = {name: text for name, text in jwk.items() if isinstance(text, str)}
    kind = _KINDS.get((words.get("kty", ""), words.get("crv")))
    if kind is None or words.get("use", "sig") != "sig":
        return None
    if not {words.get("alg")} <= kind.algorithms | {None} or not _is_sound(kind, words):
        return None
    return {name: words[name] for name in (*kind.members, "kid", "alg") if name in words}


def _is_sound(kind: _Kind, words: Mapping[str, Any]) -> bool:
    """Whether the numbers make a key: on its curve, and neither too weak nor too large."""
    try:
        if kind.key is RSAKey and not _is_of_size(words):
            return False
        kind.key.import_key({name: words[name] for name in kind.members})
    except (JoseError, ValueError, KeyError):
        return False
    return True


def _is_of_size(words: Mapping[str, Any]) -> bool:
    return _bits(words["n"]) in _RSA_BITS and _bits(words["e"]) <= _LONGEST_EXPONENT_BITS


def _bits(number: str) -> int:
    """Return the length of a number in base64url (RFC 7518 section 2)."""
    return int.from_bytes(urlsafe_b64decode(number.encode("ascii"))).bit_length()


def _refusal(public: str) -> OAuthError:
    return OAuthError(ErrorCode.INVALID_CLIENT_METADATA, public)

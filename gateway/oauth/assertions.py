"""Signed statements of others: who a client is, and whom a person's employer vouches for (RFC 7523).

Authlib decodes such a JWT with the algorithms of its library, so that EdDSA and PS256 fail, and
takes an audience out of many. Here the key says which algorithms there are, and the audience is one.
"""

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import orjson
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import Key, import_key

from gateway.domain._value import value

LONGEST_LIFE_S = 15 * 60
"""How far ahead an assertion's end may be: until then its `jti` has to be remembered."""

LEEWAY_S = 60
"""How far another machine's clock may be ahead in `iat` and `nbf`; `exp` has none."""

LONGEST_ASSERTION = 16 * 1024
_LONGEST_ID = 256
_SEGMENTS = 3
_SEGMENT = re.compile(rb"[A-Za-z0-9_-]+", re.ASCII)
_BY_TYPE = {"RSA": ("RS256", "PS256"), "EC": ("ES256",), "OKP": ("EdDSA",)}
_REFUSED_HEADERS = frozenset({"jwk", "jku", "x5u", "crit", "b64"})
"""They would take the key from the token or fetch one (RFC 8725 section 3.10), or ask for more than
is known here."""


@value
class PublicKey:
    """A key that verifies assertions, and the algorithms that go with it."""

    kid: str | None
    algorithms: tuple[str, ...]
    key: Key = field(repr=False)


@value
class Assertion:
    """A JWT as it was read: nothing in it is true before `verify` says so."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signed: bytes = field(repr=False)
    signature: bytes = field(repr=False)


def read_keys(jwks: str) -> tuple[PublicKey, ...]:
    """Return the keys of a client's JWK Set; `gateway.oauth.client_keys` has let them in.

    Raises:
        ValueError: One of them cannot be used.

    """
    try:
        return tuple(
            public_key(import_key(jwk), jwk.get("alg")) for jwk in orjson.loads(jwks)["keys"]
        )
    except JoseError as error:
        raise ValueError("a key cannot be used") from error


def public_key(key: Key, algorithm: str | None = None) -> PublicKey:
    """Return `key` with the algorithms that its type has, or with the one that it is meant for."""
    algorithms = _BY_TYPE.get(key.key_type, ())
    return PublicKey(
        kid=key.kid,
        algorithms=tuple(name for name in algorithms if algorithm in {None, name}),
        key=key,
    )


def read(text: str) -> Assertion:
    """Return what the JWT `text` claims, unverified.

    Raises:
        ValueError: It is no signed JWT, or one that brings its own key or asks for extensions.

    """
    parts = text.encode("ascii").split(b".") if len(text) <= LONGEST_ASSERTION else []
    if len(parts) != _SEGMENTS or not all(map(_SEGMENT.fullmatch, parts)):
        raise ValueError("not a signed JWT")
    header, claims, signature = map(_decoded, parts)
    read_header, read_claims = orjson.loads(header), orjson.loads(claims)
    if not isinstance(read_header, dict) or not isinstance(read_claims, dict):
        raise ValueError("not a signed JWT")  # noqa: TRY004 - it is a text, and a wrong one
    if _REFUSED_HEADERS & read_header.keys():
        raise ValueError("the header brings a key or an extension")
    signed = parts[0] + b"." + parts[1]
    return Assertion(header=read_header, claims=read_claims, signed=signed, signature=signature)


def verify(
    assertion: Assertion,
    keys: Sequence[PublicKey],
    *,
    types: tuple[str | None, ...],
    issuer: str,
    audience: str,
    now: float,
) -> None:
    """Return only if one of `keys` signed it, for `audience` alone, and it is valid at `now`.

    What remains to be seen is whether its `jti` is new.

    Raises:
        ValueError: Anything else; the text names the check that failed.

    """
    header, claims = assertion.header, assertion.claims
    if header.get("typ") not in types:
        raise ValueError("another type")
    if not any(_signs(key, assertion) for key in _candidates(header, keys)):
        raise ValueError("no key of the issuer signed it")
    if claims.get("iss") != issuer:
        raise ValueError("another issuer")
    # A list of one says the same as its only member (RFC 7519 section 4.1.3).
    if claims.get("aud") not in (audience, [audience]):
        raise ValueError("another audience, or more than one")
    if "cnf" in claims:
        # Proof of possession is not checked here, so a bound assertion proves nothing (RFC 7800).
        raise ValueError("bound to a key")
    if not isinstance(claims.get("jti"), str) or not 0 < len(claims["jti"]) <= _LONGEST_ID:
        raise ValueError("claim jti is missing or malformed")
    _check_times(claims, now)


def _candidates(header: Mapping[str, Any], keys: Sequence[PublicKey]) -> Sequence[PublicKey]:
    kid = header.get("kid")
    return [key for key in keys if kid is None or key.kid in (None, kid)]


def _signs(key: PublicKey, assertion: Assertion) -> bool:
    name = assertion.header.get("alg")
    if name not in key.algorithms:
        return False
    # The algorithm itself: the registry around it warns of EdDSA's name, which providers still use.
    algorithm = jws.JWSRegistry.algorithms[name]
    try:
        algorithm.check_key(key.key)
        return algorithm.verify(assertion.signed, assertion.signature, key.key)
    except JoseError:
        return False


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    expires = _date(claims, "exp")
    issued = _date(claims, "iat") if "iat" in claims else now
    begins = _date(claims, "nbf") if "nbf" in claims else issued
    if now >= expires:
        raise ValueError("expired")
    if max(issued, begins) > now + LEEWAY_S:
        raise ValueError("not yet valid")
    if expires - min(issued, now) > LONGEST_LIFE_S + LEEWAY_S:
        raise ValueError("lives too long")


def _date(claims: Mapping[str, Any], name: str) -> float:
    """Return a NumericDate (RFC 7519 section 2)."""
    found = claims.get(name)
    # A JSON true would pass as the integer 1.
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise ValueError(f"claim {name} is missing or malformed")
    return float(found)


def _decoded(segment: bytes) -> bytes:
    return base64.urlsafe_b64decode(segment + b"=" * (-len(segment) % 4))

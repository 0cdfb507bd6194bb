"""Keys of other issuers: fetched from where they publish them, never taken from a token."""

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.util import urlsafe_b64decode

from gateway.errors import Unauthenticated, UpstreamFailed
from gateway.oauth.foreign.kept import Kept
from gateway.oauth.foreign.metadata import RemoteMetadata
from gateway.ports import Clock
from gateway.ports.egress import Fetcher

MOST_KEYS = 100

_RSA_BITS = range(2048, 8193)
"""Fewer can be broken (RFC 7518 section 3.3), more take too long to check."""

_Kind = tuple[type[ECKey] | type[RSAKey] | type[OKPKey], str | None, tuple[str, ...]]

_KINDS: Mapping[str, _Kind] = {
    "RS256": (RSAKey, None, ("n", "e")),
    "PS256": (RSAKey, None, ("n", "e")),
    "ES256": (ECKey, "P-256", ("x", "y")),
    "EdDSA": (OKPKey, "Ed25519", ("x",)),
}
"""Type, curve and members of the keys of each algorithm that can be pinned (RFC 7518, RFC 8037)."""

_Keys = Mapping[str, Key]


class RemoteKeys:
    """The public keys of issuers that the operator named, each for the one algorithm that is pinned."""

    def __init__(self, fetcher: Fetcher, *, metadata: RemoteMetadata, clock: Clock) -> None:
        self._fetcher = fetcher
        self._metadata = metadata
        self._clock = clock
        self._kept: dict[tuple[str, str, str], Kept[_Keys]] = {}

    async def key(self, issuer: str, kid: str, algorithm: str, *, jwks_url: str = "") -> Key:
        """Return the key of that name with which `issuer` signs by `algorithm`.

        They are published at `jwks_url`, or without it where the issuer's metadata says.

        Raises:
            Unauthenticated: The issuer has no such key, as of the last half minute.
            IdentityUnavailable: Whether it has cannot be told now.

        """
        name = issuer, jwks_url, algorithm
        kept = self._kept.get(name)
        if kept is None:
            kept = Kept(partial(self._fetch, *name), clock=self._clock)
            self._kept[name] = kept
        found = (await kept.current()).get(kid) or (await kept.newest()).get(kid)
        if found is None:
            raise Unauthenticated("the token is not valid here", detail="unknown key")
        return found

    async def _fetch(self, issuer: str, jwks_url: str, algorithm: str) -> _Keys:
        url = jwks_url or (await self._metadata.of(issuer)).get("jwks_uri")
        if not isinstance(url, str):
            raise _unusable(issuer, "its metadata names no keys")
        answer = await self._fetcher.get(url)
        if answer.status != HTTPStatus.OK:
            raise _unusable(issuer, f"status {answer.status}")
        keys = _usable(answer.json().get("keys"), algorithm)
        if not keys:
            raise _unusable(issuer, f"it publishes no key for {algorithm}")
        return keys


def _usable(published: Any, algorithm: str) -> _Keys:
    """Return what verifies signatures by `algorithm`: no symmetric key, none for encryption."""
    keys: dict[str, Key] = {}
    for jwk in published[:MOST_KEYS] if isinstance(published, list) else ():
        key = _read(jwk, algorithm) if isinstance(jwk, dict) else None
        if key is not None and key.kid:
            keys.setdefault(key.kid, key)
    return keys


def _read(jwk: Mapping[str, Any], algorithm: str) -> Key | None:
    """Return the public half of a JWK (RFC 7517 section 4), if it is for `algorithm`.

    Other keys of the set are for other purposes than ours.
    """
    kind, curve, members = _KINDS[algorithm]
    if jwk.get("kty") != kind.key_type or jwk.get("crv") != curve:
        return None
    if jwk.get("use", "sig") != "sig" or jwk.get("alg", algorithm) != algorithm:
        return None
    words = {name: jwk[name] for name in (*members, "kid") if isinstance(jwk.get(name), str)}
    try:
        if kind is RSAKey and _bits(words.get("n", "")) not in _RSA_BITS:
            return None
        # Nothing but what makes up a public key, whatever else it brings (`x5c`, `key_ops`, `d`).
        key = kind.import_key({"kty": kind.key_type, **words} | ({"crv": curve} if curve else {}))
        key.get_op_key("verify")  # builds it, so that a point off the curve is found now
    except (JoseError, ValueError):
        return None
    return key


def _bits(number: str) -> int:
    return int.from_bytes(urlsafe_b64decode(number.encode())).bit_length()


def _unusable(issuer: str, detail: str) -> UpstreamFailed:
    return UpstreamFailed("The server gave no usable answer.", detail=f"{issuer}: {detail}")

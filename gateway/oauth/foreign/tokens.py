"""JWTs that another issuer signed, by the one algorithm that the operator pinned (RFC 8725)."""

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Never

from joserfc import jws

from gateway.errors import Unauthenticated
from gateway.oauth.assertions import read
from gateway.oauth.foreign.keys import RemoteKeys
from gateway.ports import Clock

LEEWAY_S = 60
"""How far another machine's clock may be ahead in `iat` and `nbf`; `exp` has none."""

_LONGEST_KID = 256


class ForeignTokens:
    """Reads JWTs of issuers that the operator named."""

    def __init__(self, keys: RemoteKeys, *, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock

    async def claims(
        self,
        text: str,
        *,
        issuer: str,
        algorithm: str,
        types: AbstractSet[str],
        jwks_url: str = "",
    ) -> Mapping[str, Any]:
        """Return the claims of a JWT that `issuer` signed by `algorithm`, valid now.

        `types` are the values that its `typ` may have, in lower case and without `application/`;
        the empty one stands for none. Whom it is for, the caller has to see.

        Raises:
            Unauthenticated: Anything else; `detail` names the check that failed.
            IdentityUnavailable: The issuer's keys cannot be had now.

        """
        try:
            token = read(text)
        except ValueError as error:
            raise Unauthenticated(_PUBLIC, detail=str(error)) from error
        kid = _kid(token.header, algorithm, types)
        # Before keys are asked for: nobody has us fetch keys with what cannot be valid anyway.
        if token.claims.get("iss") != issuer:
            _refuse("another issuer")
        check_times(token.claims, self._clock())
        key = await self._keys.key(issuer, kid, algorithm, jwks_url=jwks_url)
        # The algorithm itself: the registry around it warns of EdDSA's name, which issuers still use.
        verified = jws.JWSRegistry.algorithms[algorithm].verify(token.signed, token.signature, key)
        if not verified:
            _refuse("wrong signature")
        return token.claims


def check_times(claims: Mapping[str, Any], now: float) -> None:
    """Return only if what `claims` says is valid at `now` (RFC 7519 section 4.1).

    Raises:
        Unauthenticated: It is not, or does not say when it was issued and when it ends.

    """
    expires, issued = _date(claims, "exp"), _date(claims, "iat")
    begins = _date(claims, "nbf") if "nbf" in claims else issued
    if now >= expires:
        _refuse("expired")
    if max(issued, begins) > now + LEEWAY_S:
        _refuse("not yet valid")


def _kid(header: Mapping[str, Any], algorithm: str, types: AbstractSet[str]) -> str:
    if header.get("alg") != algorithm:
        _refuse("another algorithm")
    kind = header.get("typ", "")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in types:
        _refuse("another type")
    kid = header.get("kid")
    if not isinstance(kid, str) or not 0 < len(kid) <= _LONGEST_KID:
        _refuse("no key is named")
    return kid


def _date(claims: Mapping[str, Any], name: str) -> float:
    """Return a NumericDate (RFC 7519 section 2)."""
    found = claims.get(name)
    # A JSON true would pass as the integer 1.
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        _refuse(f"claim {name} is missing or malformed")
    return float(found)


_PUBLIC = "the token is not valid here"


def _refuse(detail: str) -> Never:
    raise Unauthenticated(_PUBLIC, detail=detail)

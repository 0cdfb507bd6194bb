"""Binding tokens: refusals that a plane may submit, as JWTs of ours (AuthZEN, ARAP, binding token integrity)."""

from collections.abc import Callable
from typing import Any, Final

from gateway.domain.access_requests import CONTEXT, Binding
from gateway.errors import Unauthenticated
from gateway.oauth.keys import KeyRing
from gateway.oauth.tokens import sign, signed_claims

TYPE: Final = "access-request+jwt"
"""A type of its own, so that nobody takes it for a token that opens something (RFC 8725 section 3.11)."""

_TEXTS: Final = ("jti", "plane", "binding_hash", "question")
_TIMES: Final = ("iat", "exp")


class SignedBindings:
    """`ports.BindingTokens` with the keys that sign access tokens."""

    def __init__(self, keys: Callable[[], KeyRing], *, issuer: str, audience: str) -> None:
        """Take who signs, and where what they sign is submitted."""
        self._keys = keys
        self._issuer = issuer
        self._audience = audience

    def seal(self, binding: Binding) -> str:
        """Return `binding` as a JWT."""
        claims = {
            "iss": self._issuer,
            "aud": self._audience,
            "iat": binding.issued_at,
            "exp": binding.expires_at,
            "jti": binding.decision,
            "evaluation_id": binding.decision,
            "binding_hash": binding.said,
            "binding_context_members": list(CONTEXT),
            "plane": binding.plane,
            "question": binding.question,
        }
        return sign(claims, self._keys(), TYPE)

    def open(self, text: str) -> Binding | None:
        """Return what a JWT of ours says; see `BindingTokens`."""
        try:
            _, claims = signed_claims(text, self._keys(), frozenset({TYPE}))
        except Unauthenticated:
            return None
        if (claims.get("iss"), claims.get("aud")) != (self._issuer, self._audience):
            return None
        return _binding(claims)


def _binding(claims: dict[str, Any]) -> Binding | None:
    if not all(type(claims.get(name)) is str for name in _TEXTS):
        return None
    # Not `isinstance`: a JSON true would pass as the integer 1.
    if not all(type(claims.get(name)) in (int, float) for name in _TIMES):
        return None
    return Binding(
        plane=claims["plane"],
        decision=claims["jti"],
        said=claims["binding_hash"],
        question=claims["question"],
        issued_at=claims["iat"],
        expires_at=claims["exp"],
    )

"""What an ID token has to say besides what every JWT has to (OpenID Connect Core section 3.1.3.7)."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Never

from gateway.errors import Unauthenticated

_LONGEST_SUBJECT = 255
"""Characters (OpenID Connect Core section 2)."""

_HASHES = {
    "RS256": hashlib.sha256,
    "PS256": hashlib.sha256,
    "ES256": hashlib.sha256,
    "EdDSA": hashlib.sha512,
}
"""The hash within each algorithm (RFC 7518 section 3.1, RFC 8032 section 5.1)."""


def check_addressee(claims: Mapping[str, Any], client_id: str) -> None:
    """Return only if the token was made for us.

    Raises:
        Unauthenticated: It is for another, or for several of whom we did not ask for it.

    """
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if client_id not in named:
        _refuse("another audience")
    if len(named) > 1 and "azp" not in claims:
        _refuse("several audiences, and no authorized party")
    if claims.get("azp", client_id) != client_id:
        _refuse("another authorized party")


def check_access_token_hash(
    claims: Mapping[str, Any], access_token: object, algorithm: str
) -> None:
    """Return only if the access token is the one that `at_hash`, if there is one, was made of.

    Raises:
        Unauthenticated: It is another, or none (Core section 3.1.3.8).

    """
    if "at_hash" not in claims:
        return
    said = claims["at_hash"]
    if not isinstance(said, str) or not isinstance(access_token, str):
        _refuse("at_hash without an access token")
    digest = _HASHES[algorithm](access_token.encode("utf-8", "surrogatepass")).digest()
    half = base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=")
    if not hmac.compare_digest(said.encode("utf-8", "surrogatepass"), half):
        _refuse("another access token")


def subject_of(claims: Mapping[str, Any]) -> str | None:
    """Return who signed in, or nothing where that is no text to tell people apart by."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT:
        return None
    return subject if subject.isprintable() else None


def _refuse(detail: str) -> Never:
    raise Unauthenticated("the ID token is not valid here", detail=detail)

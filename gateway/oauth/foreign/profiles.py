"""How the access tokens of other authorization servers look: each its own dialect of RFC 9068."""

from collections.abc import Mapping
from typing import Any, Literal, Never

from gateway.domain._value import value
from gateway.errors import Unauthenticated

ProfileName = Literal["rfc9068", "entra", "okta", "keycloak"]


@value
class Profile:
    """What makes a JWT an access token there, and what its claims are called.

    ID tokens are kept out by `types`, or where these are the same, by `scope`, which they lack, or
    by `marks`.
    """

    types: frozenset[str]
    """Values of `typ`, as for `foreign_tokens`."""
    scope: str
    client: tuple[str, ...]
    """Claims with the client's id; the first that is there counts."""
    id_claim: str = "jti"
    """The token's own name."""
    beside: frozenset[str] = frozenset()
    """Audiences of the server itself that may stand beside ours."""
    marks: Mapping[str, str]
    """Claims that have exactly this value."""


PROFILES: Mapping[ProfileName, Profile] = {
    "rfc9068": Profile(types=frozenset({"at+jwt"}), scope="scope", client=("client_id",), marks={}),
    "entra": Profile(
        types=frozenset({"jwt"}), scope="scp", client=("azp", "appid"), id_claim="uti", marks={}
    ),
    "okta": Profile(types=frozenset({"", "jwt", "at+jwt"}), scope="scp", client=("cid",), marks={}),
    "keycloak": Profile(
        types=frozenset({"jwt", "at+jwt"}),
        scope="scope",
        client=("azp", "client_id"),
        # Its own account pages, which everybody may use unless an administrator changes that.
        beside=frozenset({"account"}),
        marks={"typ": "Bearer"},
    ),
}


def check_audience(claims: Mapping[str, Any], audience: str, profile: Profile) -> None:
    """Return only if the token is for `audience`, and for nobody who could use it here.

    Raises:
        Unauthenticated: It is for somebody else, or for others as well (RFC 9700 section 2.3).

    """
    said = claims.get("aud")
    named = said if isinstance(said, list) else [said]
    if audience not in named:
        _refuse("another audience")
    if not all(isinstance(name, str) and name in {audience, *profile.beside} for name in named):
        _refuse("for others as well")


def check_kind(claims: Mapping[str, Any], profile: Profile) -> None:
    """Return only if the token is an access token that needs no proof of possession.

    Raises:
        Unauthenticated: It is another.

    """
    if any(claims.get(name) != mark for name, mark in profile.marks.items()):
        _refuse("not an access token")
    # Proof of possession is not checked here, so a bound token is worth nothing (RFC 7800).
    if "cnf" in claims:
        _refuse("the token is bound to a key")


def scopes_of(claims: Mapping[str, Any], profile: Profile) -> frozenset[str]:
    """Return the scopes, which stand there as one text (RFC 6749 section 3.3) or as a list.

    Raises:
        Unauthenticated: There are none; a token without is none that opens something here.

    """
    said = claims.get(profile.scope)
    words = said.split() if isinstance(said, str) else said
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        _refuse(f"claim {profile.scope} is missing or malformed")
    return frozenset(words)


def client_of(claims: Mapping[str, Any], profile: Profile) -> str:
    """Return the client's id.

    Raises:
        Unauthenticated: There is none.

    """
    name = next((name for name in profile.client if name in claims), profile.client[0])
    client = printable(claims.get(name), name)
    if "|" in client:
        # It would blur where the subject ends and the client begins in `Principal.key`.
        _refuse(f"claim {name} is malformed")
    return client


def printable(found: object, name: str) -> str:
    """Return the claim `name`, which becomes part of records and keys.

    Raises:
        Unauthenticated: It is no text, empty, too long, or not printable.

    """
    if not isinstance(found, str) or not 0 < len(found) <= _LONGEST or not found.isprintable():
        _refuse(f"claim {name} is missing or malformed")
    return found


_LONGEST = 255
"""Of a subject, in characters (OpenID Connect Core section 2)."""


def _refuse(detail: str) -> Never:
    raise Unauthenticated("the access token is not valid for this endpoint", detail=detail)

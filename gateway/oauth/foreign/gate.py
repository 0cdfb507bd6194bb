"""The bearer gate for tokens of another authorization server, which names our endpoints in them."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.bounded import Bounded, octets_of
from gateway.domain.groups import mapped
from gateway.domain.identity import Credential, Principal, named_in_records
from gateway.errors import Unauthenticated
from gateway.oauth.foreign.kept import FRESH_S
from gateway.oauth.foreign.profiles import (
    PROFILES,
    ProfileName,
    check_audience,
    check_kind,
    client_of,
    printable,
    scopes_of,
)
from gateway.oauth.foreign.tokens import LEEWAY_S, ForeignTokens
from gateway.oauth.resources import Resources
from gateway.ports import Clock

LONGEST_LIFETIME_S = 24 * 60 * 60
"""Beyond it a token is refused: nobody here can revoke it."""

_OCTETS: Final = 32 * 1024**2
"""What is remembered of tokens: others issue them, and say in them what they like."""


@value
class ExternalIssuer:
    """The authorization server whose tokens open this gateway."""

    issuer: str
    """As its metadata and its tokens write it, byte for byte."""
    profile: ProfileName = "rfc9068"
    audience: str | None = None
    """What `aud` is for every endpoint; without it, each endpoint's own URI."""
    algorithm: str = "RS256"
    groups_claim: str = "groups"
    groups: Mapping[str, frozenset[str]]
    """Its group -> ours; another gives nothing."""
    everybody: frozenset[str] = frozenset()


@value
class _Seen:
    """A token whose signature was good, and what it says."""

    principal: Principal
    issued_at: float
    verified_at: float


class ExternalGate:
    """`ports.Authenticator` for the tokens of one other authorization server.

    What is remembered is that a signature was good, and no longer than keys are: a token's end is
    looked at on every call, and a key that was withdrawn opens nothing ten minutes later.
    """

    def __init__(
        self,
        trusted: ExternalIssuer,
        *,
        resources: Resources,
        tokens: ForeignTokens,
        clock: Clock,
        most_tokens: int = 10_000,
    ) -> None:
        self._trusted = trusted
        self._profile = PROFILES[trusted.profile]
        self._resources = resources
        self._tokens = tokens
        self._clock = clock
        # By hash, so that a memory dump yields no usable tokens; by endpoint as well, so that a
        # token that is good for one is verified anew at another.
        self._seen: Bounded[tuple[str, bytes], _Seen] = Bounded(most=most_tokens, octets=_OCTETS)

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        """Return who holds `credential`, valid now and made for `endpoint`.

        Raises:
            Unauthenticated: No token, or one that is not valid now and for `endpoint` alone.
            IdentityUnavailable: The issuer's keys cannot be had now.

        """
        if credential is None:
            raise Unauthenticated("an access token is required")
        key = endpoint, sha256(credential.text.encode("utf-8", "surrogatepass")).digest()
        now = self._clock()
        seen = self._seen.get(key)
        if seen is None or not _holds(seen, now):
            self._seen.pop(key)
            seen = await self._verified(credential.text, endpoint)
            self._seen.put(key, seen, octets_of(seen.principal))
        elif now >= seen.principal.expires_at:
            self._seen.pop(key)
            raise Unauthenticated("the access token has expired", detail=seen.principal.token_id)
        return seen.principal

    async def _verified(self, text: str, endpoint: str) -> _Seen:
        uri = self._resources.uris.get(endpoint)
        if uri is None:
            raise Unauthenticated("no token is for this endpoint", detail="unknown endpoint")
        trusted, profile = self._trusted, self._profile
        verified_at = self._clock()
        claims = await self._tokens.claims(
            text, issuer=trusted.issuer, algorithm=trusted.algorithm, types=profile.types
        )
        check_audience(claims, trusted.audience or uri, profile)
        check_kind(claims, profile)
        if claims["exp"] - claims["iat"] > LONGEST_LIFETIME_S:
            raise Unauthenticated("the access token is good for too long", detail="lifetime")
        return _Seen(
            principal=self._principal(claims, endpoint, text),
            issued_at=claims["iat"],
            verified_at=verified_at,
        )

    def _principal(self, claims: Mapping[str, Any], endpoint: str, text: str) -> Principal:
        trusted, profile = self._trusted, self._profile
        subject, client = printable(claims.get("sub"), "sub"), client_of(claims, profile)
        return Principal(
            issuer=trusted.issuer,
            subject=subject,
            named=named_in_records(trusted.issuer, subject, own=""),
            client_id=client,
            client_name=client,
            groups=trusted.everybody | mapped(claims.get(trusted.groups_claim), trusted.groups),
            scopes=scopes_of(claims, profile) & frozenset(self._resources.scopes_of(endpoint)),
            token_id=_token_id(claims, profile.id_claim, text),
            expires_at=float(claims["exp"]),
            people=None,  # it says all of who this is, and nobody here can revoke it
            # A client that acts for itself is its own subject (RFC 9068 section 2.2).
            user_id="" if subject == client else user_id(trusted.issuer, subject),
        )


def user_id(issuer: str, subject: str) -> str:
    """Return the id of a person whom another authorization server knows, the same for ever.

    Nobody is stored as a user in this mode; connections to upstreams are filed under this. An
    issuer holds no space, so no two people have one id.
    """
    return sha256(f"{issuer} {subject}".encode()).hexdigest()


def _holds(seen: _Seen, now: float) -> bool:
    """Whether the signature need not be checked again; when the clock has gone back, it must."""
    return 0 <= now - seen.verified_at < FRESH_S and seen.issued_at <= now + LEEWAY_S


def _token_id(claims: Mapping[str, Any], name: str, text: str) -> str:
    """Return the token's name in records: its issuer's, or else one that is made of the token."""
    if name in claims:
        return printable(claims[name], name)
    return sha256(text.encode("ascii")).hexdigest()[:32]

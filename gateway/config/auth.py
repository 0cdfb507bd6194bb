"""The section `auth`: who signs people in, who may register, how long what they get is good."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from gateway.config.section import Section, Word, Words, written
from gateway.config.values import (
    Dpop,
    Duration,
    Issuer,
    LocalPath,
    PrivateRedirect,
    SecretRef,
    SecretReference,
    TrustedEndpoint,
)

T = TypeVar("T")

Algorithm = Literal["RS256", "PS256", "ES256", "EdDSA"]

_LONGEST_GRACE_S = 600
_LONGEST_WINDOW_S = 300
_SHORTEST_KEY_LIFE_S = 2 * 3600
_KEK = re.compile(r"[A-Za-z0-9_-]{43}=?", re.ASCII)
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}", re.ASCII)


class Registration(Section):
    """How clients that no administrator knows come to be known."""

    mode: Literal["open", "token", "closed"] = "open"
    """`open`: anybody may register, which gives a client nothing until a person consents; `token`:
    with an initial access token (RFC 7591 section 3); `closed`: nobody."""
    token: SecretReference | None = None
    documents: bool = True
    """Whether a client may name itself by the https URL of its metadata document."""
    copies: dict[Word, LocalPath] = written({})
    """Client id -> a file that is read in the place of the document at that URL."""
    redirect_uris: tuple[PrivateRedirect, ...] = (
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "vscode://vscode.github-authentication/did-authenticate",
        "vscode-insiders://vscode.github-authentication/did-authenticate",
    )
    """Exact redirect URIs with a private scheme that may be registered."""
    most_clients: int = Field(default=10_000, ge=1)
    unused_after: Duration = written("24h")
    """After it, a client that nobody has consented to is forgotten."""

    @field_validator("token")
    @classmethod
    def _of_its_mode(cls, token: T, info: ValidationInfo) -> T:
        wanted = info.data.get("mode") == "token"
        if wanted and token is None:
            raise ValueError("`mode: token` needs it; write `env:NAME` or `file:PATH`")
        if not wanted and token is not None:
            raise ValueError("is for `mode: token` only; remove it or change the mode")
        return token


class Provider(Section):
    """An OpenID provider at which people sign in."""

    issuer: Issuer
    client_id: Word
    client_secret: SecretReference | None = None
    scopes: Words = ("openid", "profile", "email")
    algorithm: Algorithm = "RS256"
    """The one with which it signs ID tokens; never what its metadata or a token says."""
    groups_claim: Word = "groups"
    groups: dict[Word, Words] = written({})
    """Its group -> ours. One that is not named here gives nothing."""
    everybody: Words = ()
    """Groups of ours for whoever can sign in there."""
    name_claim: Word = "name"
    """Shown to people; never used to tell them apart."""

    @field_validator("scopes")
    @classmethod
    def _asks_who(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes:
            raise ValueError("without `openid` a provider says nothing about people; add it")
        return scopes


class External(Section):
    """Another authorization server, whose tokens name our endpoints as their audience."""

    issuer: Issuer
    profile: Literal["rfc9068", "entra", "okta", "keycloak"] = "rfc9068"
    """How its access tokens look."""
    audience: Word | None = None
    """What it writes into `aud` for every endpoint, where it cannot name each; by default each
    endpoint's own URI."""
    algorithm: Algorithm = "RS256"
    groups_claim: Word = "groups"
    groups: dict[Word, Words] = written({})
    everybody: Words = ()


class Enterprise(Section):
    """An identity provider whose assertions (ID-JAG) clients may trade for a token."""

    issuer: Issuer
    jwks_url: TrustedEndpoint | None = None
    """Without it, what the issuer's metadata names."""
    algorithm: Algorithm = "RS256"


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("a provider's name is 1 to 32 of a-z, 0-9, `-`, and begins with no `-`")
    return text


_Name = Annotated[str, AfterValidator(_name)]
"""Part of a path: `/sign-in/{provider}`."""


class Auth(Section):
    mode: Literal["embedded", "federated", "external"] = "embedded"
    """`embedded`: people have a password here; `federated`: they sign in at a provider;
    `external`: clients bring the tokens of another authorization server."""
    token_lifetime: Duration = written("10m")
    """How long an access token is good."""
    device_token_lifetime: Duration | None = None
    """How long one of a public client on a person's machine is good; without it as all others."""
    refresh_lifetime: Duration = written("30d")
    """How long a refresh token waits to be used."""
    refresh_grace: Duration = written("2m")
    """For so long after its use a refresh token is one of several processes at once."""
    refresh_lost: Duration = written("24h")
    """For so long a used refresh token gives its successor again if nobody has used that."""
    refresh_reuse: Literal["refuse", "revoke"] | None = None
    """What a later use does to the grant; by default as the client is."""
    dpop: Dpop = "off"
    """Whether tokens are bound to a key of their client (RFC 9449), where no server says otherwise."""
    dpop_window: Duration = written("60s")
    """How far the time at which a client made a proof may be from ours."""
    grant_lifetime: Duration = written("90d")
    """After it, a person has to consent anew, however often a client refreshed."""
    session_lifetime: Duration = written("8h")
    """How long a browser stays signed in."""
    registration: Registration = written({})
    providers: dict[_Name, Provider] = written({})
    external: External | None = None
    enterprise: dict[_Name, Enterprise] = written({})
    key_encryption_key: SecretReference | None = None
    """32 octets in base64url that wrap every key at rest; by default `kek.key` in `data_dir`."""
    former_key_encryption_key: SecretReference | None = None
    """The one before, while `key_encryption_key` takes over from it; remove it after the start."""
    key_lifetime: Duration = written("90d")
    """How long a signing key signs, before the next one takes its place."""

    @field_validator("refresh_grace")
    @classmethod
    def _a_moment(cls, grace_s: float) -> float:
        # Within it a stolen token works beside the one that its owner holds.
        if grace_s > _LONGEST_GRACE_S:
            raise ValueError("write at most `10m`; meanwhile a stolen refresh token goes unnoticed")
        return grace_s

    @field_validator("refresh_lost")
    @classmethod
    def _while_it_waits(cls, lost_s: float, info: ValidationInfo) -> float:
        lifetime_s = info.data.get("refresh_lifetime", lost_s)
        if lost_s > lifetime_s:
            raise ValueError("write at most `refresh_lifetime`; its successor waits no longer")
        return lost_s

    @field_validator("dpop")
    @classmethod
    def _of_tokens_of_ours(cls, dpop: str, info: ValidationInfo) -> str:
        if dpop != "off" and info.data.get("mode") == "external":
            raise ValueError("is for tokens that the gateway issues; remove it or change the mode")
        return dpop

    @field_validator("dpop_window")
    @classmethod
    def _as_short_as_proofs_live(cls, window_s: float) -> float:
        if window_s > _LONGEST_WINDOW_S:
            raise ValueError(
                "write at most `5m`; so long a proof that was overheard is new elsewhere"
            )
        return window_s

    @field_validator("providers")
    @classmethod
    def _for_federation(
        cls, providers: dict[str, Provider], info: ValidationInfo
    ) -> dict[str, Provider]:
        wanted = info.data.get("mode") == "federated"
        if wanted and not providers:
            raise ValueError(
                "`mode: federated` needs at least one; write `NAME: {issuer: ..., client_id: ...}`"
            )
        if not wanted and providers:
            raise ValueError("is for `mode: federated` only; remove it or change the mode")
        issuers = [provider.issuer for provider in providers.values()]
        if len(set(issuers)) < len(issuers):
            raise ValueError("two of them have the same `issuer`; keep one of them")
        return providers

    @field_validator("external")
    @classmethod
    def _for_external(cls, external: T, info: ValidationInfo) -> T:
        wanted = info.data.get("mode") == "external"
        if wanted and external is None:
            raise ValueError("`mode: external` needs it; write `external: {issuer: ...}`")
        if not wanted and external is not None:
            raise ValueError("is for `mode: external` only; remove it or change the mode")
        return external

    @field_validator("key_encryption_key", "former_key_encryption_key")
    @classmethod
    def _a_key(cls, ref: SecretRef | None, info: ValidationInfo) -> SecretRef | None:
        environ = (info.context or {}).get("environ")
        if ref is None or environ is None:
            return ref
        if not _KEK.fullmatch(ref.resolve(environ).reveal()):
            raise ValueError(f"`{ref}` must be 32 octets in base64url; make a new one")
        return ref

    @field_validator("key_lifetime")
    @classmethod
    def _long_enough(cls, lifetime_s: float) -> float:
        if lifetime_s < _SHORTEST_KEY_LIFE_S:
            raise ValueError("write at least `2h`; a key is published an hour before it signs")
        return lifetime_s

    @property
    def issuers(self) -> frozenset[str]:
        """Everybody else whose word about people is taken."""
        return frozenset(one.issuer for one in self.trusted.values())

    @property
    def trusted(self) -> "Mapping[str, Provider | Enterprise | External]":
        """Those, by where they are written."""
        external = {} if self.external is None else {"auth.external": self.external}
        return {
            **{f"auth.providers.{name}": one for name, one in self.providers.items()},
            **{f"auth.enterprise.{name}": one for name, one in self.enterprise.items()},
            **external,
        }

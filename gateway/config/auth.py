"""The section `auth`: who signs people in, who may register, how long what they get is good."""

from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from gateway.config.section import Section, Word, Words, written
from gateway.config.values import Duration, Endpoint, SecretReference

T = TypeVar("T")

Algorithm = Literal["RS256", "PS256", "ES256", "EdDSA"]


class Registration(Section):
    """How clients that no administrator knows come to be known."""

    mode: Literal["open", "token", "closed"] = "open"
    """`open`: anybody may register, which gives a client nothing until a person consents; `token`:
    with an initial access token (RFC 7591 section 3); `closed`: nobody."""
    token: SecretReference | None = None
    documents: bool = True
    """Whether a client may name itself by the https URL of its metadata document."""
    redirect_uris: Words = (
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
        if (info.data.get("mode") == "token") is (token is None):
            raise ValueError("is for `mode: token`, and needed there")
        return token


def _issuer(url: str) -> str:
    if "?" in url:
        raise ValueError("an issuer has no query (RFC 8414 section 2)")
    return url


Issuer = Annotated[Endpoint, AfterValidator(_issuer)]
"""Compared byte for byte with what its documents and tokens say."""


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
    jwks_url: Endpoint | None = None
    """Without it, what the issuer's metadata names."""
    algorithm: Algorithm = "RS256"


_Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]


class Auth(Section):
    mode: Literal["embedded", "federated", "external"] = "embedded"
    """`embedded`: people have a password here; `federated`: they sign in at a provider;
    `external`: clients bring the tokens of another authorization server."""
    token_lifetime: Duration = written("10m")
    """How long an access token is good."""
    refresh_lifetime: Duration = written("30d")
    """How long a refresh token waits to be used."""
    refresh_grace: Duration = written("30s")
    """For so long a used refresh token gives the same successor again."""
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
    key_lifetime: Duration = written("90d")
    """How long a signing key signs, before the next one takes its place."""

    @field_validator("providers")
    @classmethod
    def _for_federation(cls, providers: dict[str, T], info: ValidationInfo) -> dict[str, T]:
        if (info.data.get("mode") == "federated") is not bool(providers):
            raise ValueError("is for `mode: federated`, and at least one is needed there")
        return providers

    @field_validator("external")
    @classmethod
    def _for_external(cls, external: T, info: ValidationInfo) -> T:
        if (info.data.get("mode") == "external") is (external is None):
            raise ValueError("is for `mode: external`, and needed there")
        return external

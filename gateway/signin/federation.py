"""Signing in at an OpenID provider (OpenID Connect Core 1.0, code flow; RFC 7636; RFC 9207)."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from typing import Any, Never, Protocol
from urllib.parse import urlencode

from gateway.domain._value import value
from gateway.domain.grants import Transaction
from gateway.domain.groups import mapped
from gateway.errors import Unauthenticated
from gateway.ports.egress import Fetcher
from gateway.signin.browser import Random, new_secret
from gateway.signin.code_exchange import ProviderSettings, exchange_code, unavailable
from gateway.signin.errors import SignInRefused
from gateway.signin.id_tokens import check_access_token_hash, check_addressee, subject_of
from gateway.signin.providers import Departure

_ID_TOKEN_TYPES = frozenset({"", "jwt"})
_LONGEST_NAME = 200
_CHANGES = "desk"
"""The purpose of a sign-in that is for changing things."""
_ADMINISTERS = "/api/v1"
"""What a client changes things by."""
_OF_LATE = {"max_age": "900"}
"""Have the provider ask again whoever signed in more than 15 minutes ago, and say when that was
(Core section 3.1.2.1)."""
_LAST_TIME = 253_402_300_800
"""The end of the year 9999."""


class Discovery(Protocol):
    async def of(self, issuer: str) -> Mapping[str, Any]:
        """Return the metadata of `issuer`, which says of itself that it is `issuer`'s.

        Raises:
            IdentityUnavailable: There is none to be had.

        """
        ...


class SignedClaims(Protocol):
    async def claims(
        self, text: str, *, issuer: str, algorithm: str, types: AbstractSet[str]
    ) -> Mapping[str, Any]:
        """Return the claims of a JWT that `issuer` signed by `algorithm`, valid now.

        Raises:
            Unauthenticated: Anything else.
            IdentityUnavailable: The issuer's keys cannot be had now.

        """
        ...


@value
class FederatedIdentity:
    """Whom a provider vouches for. Told apart by issuer and subject alone."""

    issuer: str
    subject: str
    name: str
    """For people to read; the provider's or the person's choice."""
    groups: frozenset[str]
    """Of ours."""
    proven_at: float = 0.0
    """When the person showed the provider who they are, in seconds since the epoch; 0: unsaid."""


@value
class _Leg:
    """What one sign-in is compared with when the browser comes back."""

    issuer: str
    """Whom the browser was sent to: answers of another are not read (RFC 9700 section 4.4)."""
    state: str
    nonce: str
    verifier: str


class OpenIdFederation:
    """`providers.Federation`: we are the relying party of every configured provider."""

    def __init__(
        self,
        providers: Mapping[str, ProviderSettings],
        *,
        public_url: str,
        fetcher: Fetcher,
        discovery: Discovery,
        tokens: SignedClaims,
        random: Random,
    ) -> None:
        self._providers = providers
        self._public_url = public_url
        self._fetcher = fetcher
        self._discovery = discovery
        self._tokens = tokens
        self._random = random

    async def begin(self, provider: str, transaction: Transaction) -> Departure:
        """Return where `transaction`'s browser signs in.

        Nothing of what an MCP client asked for is sent there: its `resource` is ours, and some
        providers refuse the parameter.

        Raises:
            SignInRefused: There is no such provider.
            IdentityUnavailable: Its metadata cannot be had or used.

        """
        settings = self._settings(provider)
        endpoint = _browser_url(await self._discovery.of(settings.issuer), settings.issuer)
        leg = _Leg(
            issuer=settings.issuer,
            state=f"{transaction.id}.{new_secret(self._random)}",
            nonce=new_secret(self._random),
            verifier=new_secret(self._random),
        )
        query = {
            "response_type": "code",
            "client_id": settings.client_id,
            "redirect_uri": self._redirect_uri(provider),
            "scope": " ".join(settings.scopes),
            "state": leg.state,
            "nonce": leg.nonce,
            "code_challenge": _base64(hashlib.sha256(leg.verifier.encode()).digest()),
            "code_challenge_method": "S256",
            **(_OF_LATE if _changes_things(transaction) else {}),
        }
        separator = "&" if "?" in endpoint else "?"
        return Departure(
            url=f"{endpoint}{separator}{urlencode(query)}",
            secrets=json.dumps(asdict(leg)).encode(),
        )

    async def finish(
        self, provider: str, transaction: Transaction, secrets: bytes, query: Mapping[str, str]
    ) -> FederatedIdentity:
        """Return who signed in, by the answer that the browser brought and what was kept for it.

        Raises:
            SignInRefused: The answer is not the one to what `begin` asked, or the provider said no.
            IdentityUnavailable: The provider gave no usable answer.

        """
        settings, leg = self._settings(provider), _Leg(**json.loads(secrets))
        state = query.get("state", "")
        if not state.startswith(f"{transaction.id}.") or not _same(state, leg.state):
            _refuse("the state is another sign-in's")
        if leg.issuer != settings.issuer:
            _refuse("the provider has changed meanwhile")
        metadata = await self._discovery.of(settings.issuer)
        _check_issuer(query, metadata, settings.issuer)
        if "error" in query:
            raise SignInRefused(
                "The identity provider did not sign you in.", detail=_named(query["error"])
            )
        if not query.get("code"):
            _refuse("there is no code")
        answer = await exchange_code(
            self._fetcher,
            settings,
            metadata,
            code=query["code"],
            verifier=leg.verifier,
            redirect_uri=self._redirect_uri(provider),
        )
        return _identity(await self._claims(settings, answer, leg), settings)

    async def _claims(
        self, settings: ProviderSettings, answer: Mapping[str, Any], leg: _Leg
    ) -> Mapping[str, Any]:
        """Return the ID token's claims once all of its checks passed (Core section 3.1.3.7)."""
        text = answer.get("id_token")
        if not isinstance(text, str):
            raise unavailable("token endpoint: no ID token")
        try:
            claims = await self._tokens.claims(
                text,
                issuer=settings.issuer,
                algorithm=settings.algorithm,
                types=_ID_TOKEN_TYPES,
            )
            check_addressee(claims, settings.client_id)
            check_access_token_hash(claims, answer.get("access_token"), settings.algorithm)
        except Unauthenticated as refusal:
            raise SignInRefused(_PUBLIC, detail=f"ID token: {refusal.detail}") from refusal
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not _same(nonce, leg.nonce):
            _refuse("ID token: another sign-in's nonce")
        return claims

    def _settings(self, provider: str) -> ProviderSettings:
        settings = self._providers.get(provider)
        if settings is None:
            raise SignInRefused("There is no such identity provider.")
        return settings

    def _redirect_uri(self, provider: str) -> str:
        # One for each provider, so that an answer tells by its place whom it is from.
        return f"{self._public_url}/sign-in/{provider}/callback"


def _check_issuer(query: Mapping[str, str], metadata: Mapping[str, Any], issuer: str) -> None:
    """Return only if nothing says that the answer is another provider's (RFC 9207 section 2.4)."""
    named = query.get("iss")
    announced = metadata.get("authorization_response_iss_parameter_supported") is True
    if named is None and announced:
        _refuse("the answer does not say whose it is")
    if named is not None and named != issuer:
        _refuse("the answer is another provider's")


def _identity(claims: Mapping[str, Any], settings: ProviderSettings) -> FederatedIdentity:
    subject = subject_of(claims)
    if subject is None:
        _refuse("ID token: claim sub is missing or malformed")
    name = claims.get(settings.name_claim)
    readable = isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable()
    return FederatedIdentity(
        issuer=settings.issuer,
        subject=subject,
        name=str(name) if readable else subject,
        groups=settings.everybody | mapped(claims.get(settings.groups_claim), settings.groups),
        proven_at=_proven_at(claims.get("auth_time")),
    )


def _proven_at(auth_time: Any) -> float:
    """Return the claim `auth_time` (Core section 2): a number of seconds; anything else is none."""
    number = isinstance(auth_time, int | float) and not isinstance(auth_time, bool)
    return float(auth_time) if number and 0 < auth_time < _LAST_TIME else 0.0


def _browser_url(metadata: Mapping[str, Any], issuer: str) -> str:
    """Return the authorization endpoint, which is no less protected than the issuer is."""
    url = metadata.get("authorization_endpoint")
    schemes = ("https://", "http://") if issuer.startswith("http://") else ("https://",)
    if (
        not isinstance(url, str)
        or not url.startswith(schemes)
        or not (url.isascii() and url.isprintable())
        or any(character in url for character in ' #"<>\\')
    ):
        raise unavailable("the metadata names no usable authorization endpoint")
    return url


_ERRORS = frozenset(
    {
        "access_denied",
        "account_selection_required",
        "consent_required",
        "interaction_required",
        "invalid_request",
        "invalid_scope",
        "login_required",
        "server_error",
        "temporarily_unavailable",
        "unauthorized_client",
        "unsupported_response_type",
    }
)
"""RFC 6749 section 4.1.2.1 and OpenID Connect Core section 3.1.2.6."""


def _named(error: str) -> str:
    """Return `error` if it is one; the text came through the browser."""
    return error if error in _ERRORS else "an unknown error"


def _same(given: str, kept: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), kept.encode())


def _base64(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


_PUBLIC = "The answer of the identity provider is not valid. Begin again."


def _refuse(detail: str) -> Never:
    raise SignInRefused(_PUBLIC, detail=detail)


def _changes_things(transaction: Transaction) -> bool:
    """Whether it has to be known when the person showed who they are."""
    request = transaction.request
    return transaction.purpose == _CHANGES or (
        request is not None and request.endpoint == _ADMINISTERS
    )

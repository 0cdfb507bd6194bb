"""The registration endpoint: clients that no administrator knows register themselves (RFC 7591)."""

import asyncio
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

import orjson

from gateway.domain._value import value
from gateway.domain.identity import Client, ClientKind
from gateway.domain.throttle import Throttles
from gateway.errors import AuditUnavailable, IdentityUnavailable
from gateway.oauth.builtin import AUTHORIZATION_CODE
from gateway.oauth.client_metadata import Description, described
from gateway.oauth.clients import ID_OCTETS, SECRET_METHODS, SECRET_OCTETS, secret_hash, secret_text
from gateway.oauth.documents import self_made
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.protocol import Attempt
from gateway.oauth.records import Granted, TokenAnswer, TokenRequest, accept, refuse
from gateway.ports import AuditLog, Clock
from gateway.ports.identity import ClientStore
from gateway.wire.jsontext import read_exact

METHOD = "oauth/register"
LARGEST_METADATA_BYTES = 16 * 1024

_JSON_DEPTH = 16
_RETRY_WHEN_FULL_S = 3600


@value
class RegistrationRules:
    """Who may register, and how many: `auth.registration` of the configuration."""

    mode: Literal["open", "token", "closed"] = "open"
    token: str = field(repr=False, default="")
    """The initial access token (RFC 7591 section 3) of the mode `token`."""
    private_redirects: frozenset[str] = frozenset()
    """Exact redirect URIs with a private scheme that may be registered."""
    most_clients: int = 10_000
    """Clients that no administrator registered, however they came."""
    unused_after_s: float = 24 * 3600.0
    """After it, one that nobody has consented to is forgotten."""
    per_source: int = 60
    """Attempts in an hour from one address."""

    def __post_init__(self) -> None:
        if (self.mode == "token") is not bool(self.token):
            raise ValueError("an initial access token is for the mode `token`, and needed there")


class RegistrationEndpoint:
    """Lets clients register themselves.

    It gives them a name and nothing else: whatever they get later, a person lets them have.
    """

    def __init__(
        self,
        *,
        rules: RegistrationRules,
        clients: ClientStore,
        audit: AuditLog,
        clock: Clock,
        new_id: Callable[[], str],
        random: Callable[[int], bytes],
        throttles: Throttles | None = None,
    ) -> None:
        self._rules = rules
        self._clients = clients
        self._audit = audit
        self._clock = clock
        self._new_id = new_id
        self._random = random
        found = throttles or Throttles()
        self._attempts = found.of("registrations", allowed=rules.per_source, window_s=3600.0)

    async def answer(self, request: TokenRequest) -> TokenAnswer:
        """Return the answer to a registration once its record is durable, else a 503."""
        attempt = Attempt(source_ip=request.source_ip, time=self._clock(), record_id=self._new_id())
        try:
            self._check_room(attempt)
            self._check_caller(request.authorization)
            said = described(_metadata(request.body), self._rules.private_redirects)
        except OAuthError as refusal:
            return await self._recorded(self._refusal(refusal, attempt), attempt)
        client, secret = self._client(said, attempt)
        registered = Granted(
            body=_information(client, said, secret),
            told={"client": client.id},
            code="registered",
            message=f"as {client.name}",
        )
        answer = await self._recorded(
            replace(accept(registered, METHOD, attempt), status=201), attempt
        )
        if answer.status == 201:  # noqa: PLR2004 - Created
            try:
                await asyncio.to_thread(self._clients.add, client)
            except IdentityUnavailable:
                # That it would be registered is on record; that it was not is, too.
                failed = replace(attempt, record_id=self._new_id())
                return await self._recorded(_unavailable(failed), failed)
        return answer

    async def forget_unused(self) -> int:
        """Forget clients that nobody has consented to in time; say how many."""
        before = self._clock() - self._rules.unused_after_s
        return await asyncio.to_thread(self._clients.remove_unused, before)

    def _check_room(self, attempt: Attempt) -> None:
        if self._attempts.wait_s(attempt.source_ip, attempt.time):
            raise OAuthError(ErrorCode.RATE_LIMITED, "too many registrations")
        self._attempts.note(attempt.source_ip, attempt.time)
        if self._rules.mode == "closed":
            raise OAuthError(ErrorCode.ACCESS_DENIED, "clients do not register themselves here")
        if self_made(self._clients) >= self._rules.most_clients:
            raise OAuthError(ErrorCode.TEMPORARILY_UNAVAILABLE, "no further client can register")

    def _check_caller(self, authorization: Sequence[str]) -> None:
        if self._rules.mode != "token":
            return
        scheme, _, token = "".join(authorization[:1]).partition(" ")
        right = hmac.compare_digest(
            token.strip(" ").encode("utf-8", "surrogatepass"), self._rules.token.encode()
        )
        if len(authorization) != 1 or scheme.lower() != "bearer" or not right:
            raise OAuthError(ErrorCode.INVALID_TOKEN, "an initial access token is required")

    def _client(self, said: Description, attempt: Attempt) -> tuple[Client, str]:
        """Make a client, and its secret if it is one that keeps one."""
        # The prefix keeps every id apart from those that are the URL of a document.
        client_id = "dcr_" + self._random(ID_OCTETS).hex()
        keeps_one = said.auth_method in SECRET_METHODS
        secret = secret_text(self._random(SECRET_OCTETS)) if keeps_one else ""
        client = Client(
            id=client_id,
            name=said.name or client_id,
            kind=ClientKind.DYNAMIC,
            auth_methods=frozenset({said.auth_method}),
            secret_hash=secret_hash(secret) if secret else "",
            jwks=said.jwks,
            redirect_uris=said.redirect_uris,
            homepage=said.homepage,
            grants=said.grants,
            holds_key=said.holds_key,
            created_at=attempt.time,
            created_by=attempt.source_ip,
        )
        return client, secret

    def _refusal(self, refusal: OAuthError, attempt: Attempt) -> TokenAnswer:
        wait_s = None
        if refusal.error is ErrorCode.RATE_LIMITED:
            wait_s = self._attempts.wait_s(attempt.source_ip, attempt.time)
        elif refusal.error is ErrorCode.TEMPORARILY_UNAVAILABLE:
            wait_s = _RETRY_WHEN_FULL_S
        return refuse(refusal, METHOD, attempt, retry_after_s=wait_s)

    async def _recorded(self, answer: TokenAnswer, attempt: Attempt) -> TokenAnswer:
        try:
            await self._audit.append(answer.record)
        except AuditUnavailable:
            return _unavailable(attempt)
        return answer


def _metadata(body: bytes) -> Mapping[str, Any]:
    try:
        metadata = read_exact(body[: LARGEST_METADATA_BYTES + 1], _JSON_DEPTH)
    except ValueError as error:
        raise OAuthError(
            ErrorCode.INVALID_CLIENT_METADATA, "the metadata cannot be read"
        ) from error
    if len(body) > LARGEST_METADATA_BYTES or not isinstance(metadata, dict):
        raise OAuthError(
            ErrorCode.INVALID_CLIENT_METADATA, "the metadata must be one object of 16 KiB at most"
        )
    return metadata


def _information(client: Client, said: Description, secret: str) -> dict[str, Any]:
    """Return what was registered (RFC 7591 section 3.2.1): what is absent was not kept."""
    optional = {
        "client_name": said.name,
        "client_uri": said.homepage,
        "scope": " ".join(said.scopes),
        "application_type": said.application_type,
        "jwks": orjson.loads(said.jwks) if said.jwks else None,
        "client_secret": secret,
        "dpop_bound_access_tokens": said.holds_key,
    }
    information = {
        "client_id": client.id,
        "client_id_issued_at": int(client.created_at),
        "redirect_uris": list(said.redirect_uris),
        "grant_types": list(said.grants),
        "response_types": ["code"] if AUTHORIZATION_CODE in said.grants else [],
        "token_endpoint_auth_method": said.auth_method.value,
        **{name: content for name, content in optional.items() if content},
    }
    return {**information, "client_secret_expires_at": 0} if secret else information


def _unavailable(attempt: Attempt) -> TokenAnswer:
    later = OAuthError(ErrorCode.TEMPORARILY_UNAVAILABLE, "try again later")
    return refuse(later, METHOD, attempt)

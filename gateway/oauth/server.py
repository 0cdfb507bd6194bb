"""The authorization server as the web sees it: every answer recorded before it is given."""

from collections.abc import Callable, Mapping
from typing import Any

from gateway.errors import AuditUnavailable, ConfigError
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.keys import KeyRing
from gateway.oauth.limits import FailedSignIns
from gateway.oauth.metadata import Metadata
from gateway.oauth.resources import Resources
from gateway.oauth.token_endpoint import (
    Attempt,
    Issuance,
    TokenAnswer,
    TokenRequest,
    refuse,
    respond,
)
from gateway.oauth.tokens import LONGEST_LIFETIME_S
from gateway.ports import AuditLog, ClientStore, Clock

DEFAULT_LIFETIME_S = 15 * 60
"""How long a token is good for: `auth.token_lifetime` of the configuration."""


class AuthorizationServer:
    """Issues access tokens for the gateway's own endpoints (RFC 6749)."""

    def __init__(
        self,
        *,
        resources: Resources,
        keys: KeyRing,
        clients: ClientStore,
        audit: AuditLog,
        clock: Clock,
        new_id: Callable[[], str],
        token_lifetime_s: int = DEFAULT_LIFETIME_S,
    ) -> None:
        if not 0 < token_lifetime_s <= LONGEST_LIFETIME_S:
            raise ConfigError(f"auth.token_lifetime must be 1 to {LONGEST_LIFETIME_S} seconds")
        self._rules = Issuance(resources=resources, keys=keys, lifetime_s=token_lifetime_s)
        self._clients = clients
        self._audit = audit
        self._clock = clock
        self._new_id = new_id
        self._failures = FailedSignIns()
        self.metadata = Metadata(resources)

    @property
    def jwks(self) -> Mapping[str, Any]:
        """The public keys that verify our tokens (RFC 7517 section 5)."""
        return self._rules.keys.jwks

    async def token(self, request: TokenRequest) -> TokenAnswer:
        """Return the answer to a token request once its record is durable, else a 503."""
        attempt = Attempt(source_ip=request.source_ip, time=self._clock(), record_id=self._new_id())
        answer = self._judge(request, attempt)
        try:
            await self._audit.append(answer.record)
        except AuditUnavailable:
            unrecorded = OAuthError(ErrorCode.TEMPORARILY_UNAVAILABLE, "try again later")
            return refuse(unrecorded, attempt)
        return answer

    def _judge(self, request: TokenRequest, attempt: Attempt) -> TokenAnswer:
        wait_s = self._failures.wait_s(attempt.source_ip, attempt.time)
        if wait_s:
            # Before the secret is looked at: a right guess must not stand out.
            refusal = OAuthError(ErrorCode.RATE_LIMITED, "too many failed sign-ins")
            return refuse(refusal, attempt, retry_after_s=wait_s)
        answer = respond(
            request,
            attempt,
            rules=self._rules,
            clients=self._clients,
            token_id=self._new_id(),
        )
        if answer.status == ErrorCode.INVALID_CLIENT.status:
            self._failures.note(attempt.source_ip, attempt.time)
        return answer

"""The token endpoint: what it answers to a request (RFC 6749 section 3.2).

A further grant is one more line in `_GRANTS`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from joserfc.jwk import Key

from gateway.domain._value import value
from gateway.domain.identity import Proof
from gateway.errors import IdentityUnavailable, Unauthenticated
from gateway.oauth.assertions import public_key, read
from gateway.oauth.clients import JWT_BEARER
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.flights import Flights, is_shared
from gateway.oauth.grants.authorization_code import CodeGrant
from gateway.oauth.grants.client_credentials import OwnGrant
from gateway.oauth.grants.device_code import DeviceGrant
from gateway.oauth.grants.id_jag import IdentityAssertionGrant
from gateway.oauth.grants.issuing import Issued, Issuing
from gateway.oauth.grants.pkce import S256Only
from gateway.oauth.grants.refresh_token import RotatingGrant
from gateway.oauth.grants.token_exchange import RunTokenGrant
from gateway.oauth.intake import Intake
from gateway.oauth.metadata import TOKEN_PATH
from gateway.oauth.possession import refused_proof
from gateway.oauth.proofs import Shown
from gateway.oauth.protocol import IssuerKey, ProtocolRequest, ProtocolServer
from gateway.oauth.records import Granted, TokenAnswer, TokenRequest
from gateway.oauth.resources import SCOPES

METHOD = "oauth/token"
SHORT = 8
"""Characters by which a key is named in records: enough to tell two of one person's apart."""

_GRANTS: Sequence[tuple[type[Issuing], Sequence[Any]]] = (
    (CodeGrant, [S256Only(required=True)]),
    (RotatingGrant, []),
    (OwnGrant, []),
    (DeviceGrant, []),
    (RunTokenGrant, []),
)


@value
class TrustedIssuer:
    """An identity provider whose assertions clients may trade for a token."""

    issuer: str
    algorithm: str
    """The one with which it signs; never what an assertion says."""
    jwks_url: str = ""
    """Where its keys are; empty: where its metadata says."""


class IssuerKeys(Protocol):
    """The keys that identity providers publish."""

    async def key(self, issuer: str, kid: str, algorithm: str, *, jwks_url: str = "") -> Key:
        """Return a key of the issuer's, fetched if it is not known.

        Raises:
            Unauthenticated: The issuer has no such key.
            IdentityUnavailable: Whether it has cannot be told now.

        """
        ...


class TokenEndpoint:
    """Issues access tokens for the gateway's own endpoints."""

    def __init__(
        self,
        *,
        server: ProtocolServer,
        intake: Intake,
        trusted: Sequence[TrustedIssuer] = (),
        issuer_keys: IssuerKeys | None = None,
    ) -> None:
        """Teach `server` its grants; that for assertions only where some issuer is trusted."""
        self._server = server
        self._intake = intake
        self._trusted = {issuer.issuer: issuer for issuer in trusted}
        self._issuer_keys = issuer_keys
        self._flights = Flights()
        for grant, extensions in _GRANTS:
            server.register_grant(grant, extensions)
        if self._trusted:
            server.register_grant(IdentityAssertionGrant)

    async def answer(self, request: TokenRequest) -> TokenAnswer:
        """Return the answer to a token request once its record is durable, else a 503.

        Who brings one refresh token several times at once gets one answer, which is one record.
        """
        if self._server.lifetimes.grace_s > 0 and is_shared(request):
            return await self._flights.answer(request, self._answered)
        return await self._answered(request)

    async def missed(self, answer: TokenAnswer) -> None:
        """Note that nobody was there any more to whom `answer` could be given."""
        with suppress(IdentityUnavailable):
            await asyncio.to_thread(
                self._server.stores.grants.note_lost, answer.used, at=answer.record.time
            )

    async def _answered(self, request: TokenRequest) -> TokenAnswer:
        return await self._intake.answer(
            request, METHOD, self._judge, key_source=self._key_of, proof_of=self._proof_of
        )

    def _judge(self, request: ProtocolRequest) -> Granted:
        if "grant_type" not in request.form:
            raise OAuthError(ErrorCode.INVALID_REQUEST, "grant_type is required")
        issued: Issued = self._server.create_token_response(request)
        return _granted(issued, request.told)

    def _proof_of(self, request: TokenRequest) -> Proof | None:
        """Return what the request's proof proves, where some endpoint takes bound tokens."""
        possession = self._server.possession
        if not request.proofs or not possession.rules.taken:
            return None
        here = Shown(method="POST", urls=(self._server.resources.public_url + TOKEN_PATH,))
        try:
            return possession.read(request.proofs, here)
        except ValueError as error:
            raise refused_proof(str(error)) from error

    async def _key_of(self, form: Mapping[str, str]) -> IssuerKey | None:
        """Return the key that an assertion names, if its issuer is trusted and has it."""
        if form.get("grant_type") != JWT_BEARER or self._issuer_keys is None:
            return None
        try:
            assertion = read(form.get("assertion", ""))
        except ValueError:
            return None
        issuer, kid = assertion.claims.get("iss"), assertion.header.get("kid")
        trusted = self._trusted.get(issuer) if isinstance(issuer, str) else None
        if trusted is None or not isinstance(kid, str):
            return None
        try:
            key = await self._issuer_keys.key(
                trusted.issuer, kid, trusted.algorithm, jwks_url=trusted.jwks_url
            )
        except Unauthenticated:
            return None
        return IssuerKey(issuer=trusted.issuer, key=public_key(key, trusted.algorithm))


def _granted(issued: Issued, told: Mapping[str, Any]) -> Granted:
    """Return what to answer with `issued` (RFC 6749 section 5.1).

    What is recorded beside what was `told` are names.
    """
    token = issued.token
    lifetime_s = token.expires_at - token.issued_at
    scope = " ".join(name for name in SCOPES if name in token.scopes)
    body = {
        "access_token": issued.access_token,
        "token_type": "DPoP" if token.bound_to else "Bearer",
        "expires_in": lifetime_s,
        "scope": scope,
        **issued.members,
    }
    if issued.refresh_token:
        body["refresh_token"] = issued.refresh_token
    told = {
        **told,
        "principal": issued.principal,
        "client": token.client_id,
        "endpoint": issued.endpoint,
        "token_id": token.token_id,
    }
    message = f"scope {scope}, for {lifetime_s} s"
    if token.grant_id:
        message += f", grant {token.grant_id}"
    if token.bound_to:
        message += f", bound to key {token.bound_to[:SHORT]}"
    if token.script is not None:
        message += f", program {token.script}"
    return Granted(body=body, told=told, code=issued.code, message=message, used=issued.used)

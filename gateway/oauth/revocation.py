"""The revocation endpoint: a client gives back what it was given (RFC 7009)."""

from typing import Any

from authlib.oauth2.rfc7009 import RevocationEndpoint as AuthlibRevocation

from gateway.domain._value import value
from gateway.domain.scripts import ScriptId
from gateway.domain.throttle import Throttles
from gateway.errors import Unauthenticated
from gateway.oauth.client_authentication import EVERY_METHOD
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.intake import Intake
from gateway.oauth.protocol import ProtocolClient, ProtocolRequest, ProtocolServer, token_hash
from gateway.oauth.records import Granted, TokenAnswer, TokenRequest
from gateway.oauth.tokens import verify_any

METHOD = "oauth/revoke"

ASKED_A_MINUTE = 300
"""From one address: a public client proves nothing, and what is no token is a record all the same."""


@value
class _Found:
    """A token of the client's own, named but not shown."""

    grant_id: str
    token_id: str = ""
    until: float = 0.0
    script: ScriptId | None = None
    """The program that it is for, and whose end is all that it takes."""


class _Revocation(AuthlibRevocation):
    """Authlib refuses another client's token aloud, which tells whoever holds it that it is good."""

    CLIENT_AUTH_METHODS = EVERY_METHOD

    server: ProtocolServer

    def authenticate_token(self, request: ProtocolRequest, client: ProtocolClient) -> _Found | None:
        """Return the token if it is this client's own. The hint is none: both kinds are looked for."""
        text = request.form.get("token")
        if text is None:
            raise OAuthError(ErrorCode.INVALID_REQUEST, "token is required")
        refresh_token = self.server.stores.grants.refresh_token(token_hash(text))
        if refresh_token is not None:
            own = refresh_token.client_id == client.get_client_id()
            return _Found(grant_id=refresh_token.grant_id) if own else None
        try:
            token = verify_any(
                text,
                keys=self.server.keys,
                issuer=self.server.resources.public_url,
                now=request.attempt.time,
            )
        except Unauthenticated:
            return None
        if token.client_id != client.get_client_id():
            return None
        return _Found(
            grant_id=token.grant_id,
            token_id=token.token_id,
            until=float(token.expires_at),
            script=token.script,
        )

    def revoke_token(self, token: _Found, request: ProtocolRequest) -> None:
        """Revoke the whole family; a token without one alone, and that of a program with it."""
        request.credential = token
        grants = self.server.stores.grants
        if token.script is not None:
            self._end(token.script, request)
        elif token.grant_id:
            grants.revoke_grant(token.grant_id, "revoked by client", at=request.attempt.time)
        else:
            grants.revoke_token(token.token_id, until=token.until)

    def _end(self, id_: ScriptId, request: ProtocolRequest) -> None:
        """End a program, whose token the gate lets in no longer; what it was traded for stays."""
        programs = self.server.programs
        if programs is None:
            raise OAuthError(ErrorCode.TEMPORARILY_UNAVAILABLE, "try again later")
        script = programs.scripts.find(id_, now=request.attempt.time)
        if script is not None:
            request.told["script_sha256"] = script.sha256
        request.waited(programs.scripts.end(id_))


class RevocationEndpoint:
    """Ends a family of tokens for whoever holds one of it and is its client."""

    def __init__(
        self, *, server: ProtocolServer, intake: Intake, throttles: Throttles | None = None
    ) -> None:
        self._server = server
        self._intake = intake
        found = throttles or Throttles()
        self._asked = found.of("revocations", allowed=ASKED_A_MINUTE, window_s=60.0)
        server.register_endpoint(_Revocation)

    async def answer(self, request: TokenRequest) -> TokenAnswer:
        """Return the answer once its record is durable, else a 503: 200 also for what is no token."""
        return await self._intake.answer(request, METHOD, self._judge, bound=self._asked)

    def _judge(self, request: ProtocolRequest) -> Granted:
        body: dict[str, Any] = self._server.create_endpoint_response("revocation", request)
        found: _Found | None = request.credential
        told = {**request.told, "client": request.client.get_client_id()}
        if found is None:
            return Granted(body=body, told=told, code="no_effect", message="no token of its own")
        if found.token_id:
            told["token_id"] = found.token_id
        what = f"grant {found.grant_id}" if found.grant_id else "one access token"
        if found.script is not None:
            what = f"program {found.script}"
        return Granted(body=body, told=told, code="revoked", message=what)

"""Tokens for programs that a host runs: its own token, traded for a narrower one (RFC 8693).

What is asked for stands in `authorization_details` (RFC 9396), and the answer says it again.
"""

from dataclasses import replace
from typing import Any, Never

from authlib.oauth2.rfc6749.grants import BaseGrant, TokenEndpointMixin

from gateway.domain._value import value
from gateway.domain.calls import AGGREGATE
from gateway.domain.identity import AuthMethod, BearerToken, BoundToken, Credential, Principal
from gateway.domain.scripts import Script, ScriptId, ToolGrant
from gateway.errors import RateLimited, Unauthenticated
from gateway.oauth.client_authentication import CONFIDENTIAL
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.grants.issuing import Issued, Issuing, Response
from gateway.oauth.programs import Programs
from gateway.oauth.run_details import WantedRun, spelled, wanted
from gateway.oauth.tokens import AccessToken, mint, verify

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a grant
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type of tokens

_CALLING = frozenset({"tools:list", "tools:call", "tools:write"})
"""The most that a token for a program carries: it calls tools of servers, and does nothing else."""
_MEANT_FOR_OTHERS = ("actor_token", "actor_token_type", "audience")


@value
class _Subject:
    """The token that is traded, and who holds it."""

    token: AccessToken
    principal: Principal


class RunTokenGrant(Issuing, BaseGrant, TokenEndpointMixin):
    """A trusted host trades its own token for `/mcp` for one of a program that it runs.

    What comes out is narrower in everything: one endpoint, calls of tools alone, of these tools and
    so often, ending with what it was traded for. It allows nothing by itself: policy decides on
    each call as on any other.
    """

    GRANT_TYPE = TOKEN_EXCHANGE
    TOKEN_ENDPOINT_AUTH_METHODS: tuple[AuthMethod, ...] = CONFIDENTIAL
    REQUIRED: tuple[str, ...] = ("subject_token", "subject_token_type", "authorization_details")

    def authenticate_token_endpoint_client(self) -> Any:
        """Return the client, which an administrator trusts to run programs for its user."""
        client = super().authenticate_token_endpoint_client()
        if not self.asking.trusted_host:
            raise OAuthError(
                ErrorCode.UNAUTHORIZED_CLIENT, "the client is not a trusted host of this gateway"
            )
        return client

    def validate_token_request(self) -> None:
        """Return only if a trusted host asks for one run in the one form that there is."""
        self.authenticate_token_endpoint_client()
        form = self.request.form
        asked = wanted(form["authorization_details"])
        self.request.told |= {
            "script_sha256": asked.sha256,
            "arguments": {"authorization_details": [spelled(asked)]},
        }
        self.request.wanted = asked
        types = (form["subject_token_type"], form.get("requested_token_type", ACCESS_TOKEN))
        if types != (ACCESS_TOKEN, ACCESS_TOKEN):
            _refuse("an access token is traded for an access token")
        if any(name in form for name in _MEANT_FOR_OTHERS):
            _refuse("the program is the actor, and the endpoint is the one of the subject token")
        resources = self.server.resources
        if any(resources.asked_for(uri) != AGGREGATE for uri in self.request.resources):
            raise OAuthError(ErrorCode.INVALID_TARGET, "such a token is for all servers' endpoint")

    def create_token_response(self) -> Response:
        """File the program and make its token; until it is filed the token is good for nothing."""
        programs, asked = self._programs(), self.request.wanted
        subject = self._subject(programs)
        granted = replace(asked, lasts_s=self._lasts_s(asked, subject.token))
        script = self._script(granted, subject.principal, self._grants(programs, asked, subject))
        token = self._token(subject, script)
        try:
            self.request.waited(programs.scripts.begin(script))
        except RateLimited as error:
            raise OAuthError(ErrorCode.RATE_LIMITED, error.public, detail=error.detail) from error
        issued = Issued(
            token=token,
            endpoint=AGGREGATE,
            principal=subject.principal.recorded,
            access_token=mint(token, self.server.keys),
            members={
                "issued_token_type": ACCESS_TOKEN,
                "authorization_details": [{**spelled(granted), "run": script.id}],
            },
        )
        return 200, issued, ()

    def _programs(self) -> Programs:
        programs = self.server.programs
        if programs is None:
            raise OAuthError(ErrorCode.UNSUPPORTED_GRANT_TYPE, "programs get no tokens here")
        return programs

    def _subject(self, programs: Programs) -> _Subject:
        """Return what the subject token says, if its holder would be let in with it now.

        Raises:
            OAuthError: `invalid_request` (RFC 8693 section 2.2.2): they would not, or it is
                another client's or a program's.

        """
        text, resources = self.request.form["subject_token"], self.server.resources
        try:
            token = verify(
                text,
                keys=self.server.keys,
                issuer=resources.public_url,
                audience=resources.uris[AGGREGATE],
                now=self.now,
            )
            shown = programs.authenticator.authenticate(self._shown(text, token), AGGREGATE)
            principal = self.request.waited(shown)
        except Unauthenticated as error:
            _refuse("the subject token is not valid here", error.detail or error.public)
        if token.client_id != self.asking.id:
            _refuse("the subject token is not valid here", "another client's token")
        if token.script is not None:
            _refuse("the token of a program is traded for no other")
        return _Subject(token=token, principal=principal)

    def _shown(self, text: str, token: AccessToken) -> Credential:
        """Return the subject token as its holder would show it: a bound one with the proof."""
        proof = self.request.proof if token.bound_to else None
        return BearerToken(text=text) if proof is None else BoundToken(text=text, proof=proof)

    def _lasts_s(self, asked: WantedRun, subject: AccessToken) -> int:
        now = int(self.now)
        lasts_s = min(asked.lasts_s, subject.expires_at - now)
        if lasts_s <= 0:
            _refuse("the subject token is not valid here", "less than a second is left")
        return lasts_s

    def _grants(
        self, programs: Programs, asked: WantedRun, subject: _Subject
    ) -> tuple[ToolGrant, ...]:
        """Return what the program may call; each of it exists, and its principal may know of it.

        Raises:
            OAuthError: `invalid_authorization_details`: one is unknown or forbidden, whichever.

        """
        source_ip = self.request.attempt.source_ip
        known = self.request.waited(programs.tools.of(subject.principal, source_ip))
        grants = []
        for tool in asked.tools:
            target = known.get(tool.name)
            if target is None:
                raise OAuthError(
                    ErrorCode.INVALID_AUTHORIZATION_DETAILS,
                    "authorization_details: there is no tool of one of these names",
                )
            server, name = target
            grants.append(
                ToolGrant(server=server, tool=name, most=tool.most, arguments=tool.arguments)
            )
        return tuple(grants)

    def _script(
        self, granted: WantedRun, principal: Principal, grants: tuple[ToolGrant, ...]
    ) -> Script:
        return Script(
            id=ScriptId(f"s_{self.server.new_id()}"),
            principal=principal.key,
            person=principal.person,
            sha256=granted.sha256,
            grants=grants,
            most=granted.most,
            parent=granted.parent or self.request.attempt.record_id,
            began=self.now,
            expires_at=float(int(self.now) + granted.lasts_s),
        )

    def _token(self, subject: _Subject, script: Script) -> AccessToken:
        """Return the subject token with less in it, for the program alone."""
        return replace(
            subject.token,
            scopes=self._scopes(subject.principal),
            issued_at=int(self.now),
            expires_at=int(script.expires_at),
            token_id=self.server.new_id(),
            bound_to=self.binding(AGGREGATE, subject.principal.person),
            script=script.id,
            subject_token_id=subject.token.token_id,
        )

    def _scopes(self, principal: Principal) -> frozenset[str]:
        """Return those of the subject token that are asked for and can be had: never more."""
        possible = principal.scopes & _CALLING
        asked = self.request.form.get("scope")
        scopes = possible if asked is None else frozenset(asked.split(" "))
        if not scopes or not scopes <= possible:
            raise OAuthError(
                ErrorCode.INVALID_SCOPE, "the subject token has not all of these scopes"
            )
        return scopes


def _refuse(public: str, detail: str = "") -> Never:
    raise OAuthError(ErrorCode.INVALID_REQUEST, public, detail=detail)

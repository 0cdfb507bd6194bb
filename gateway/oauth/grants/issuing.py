"""What every grant has in common: who may have which token, made before anything is claimed."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from authlib.oauth2.rfc6749.grants import BaseGrant

from gateway.domain._value import value
from gateway.domain.grants import Grant, RefreshToken
from gateway.domain.identity import AuthMethod, Client, User, named_in_records
from gateway.oauth.builtin import REFRESH_TOKEN
from gateway.oauth.client_authentication import EVERY_METHOD
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.possession import refused_proof
from gateway.oauth.protocol import ProtocolRequest, ProtocolServer, token_hash
from gateway.oauth.tokens import AccessToken, mint

OVER = "the grant was revoked or has ended"


@value
class Issued:
    """The tokens of an answer, nothing of which was given yet."""

    token: AccessToken
    endpoint: str
    principal: str
    """Who the record is about: the person's name for us, or the client's id."""
    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    members: Mapping[str, Any] = field(default_factory=dict)
    """What the answer has beside what every answer has."""
    code: str = "issued"
    """What happened, in a word."""
    used: str = ""
    """The hash of the refresh token whose successor is given; empty where there is none."""


class Issuing(BaseGrant):
    """A grant at the token endpoint.

    Authlib's own `create_token_response` methods are all replaced: they store the new token before
    they end the old, claim nothing, and write tokens to a log.
    """

    TOKEN_ENDPOINT_AUTH_METHODS: tuple[AuthMethod, ...] = EVERY_METHOD
    REQUIRED: tuple[str, ...] = ()
    """Parameters without which there is nothing to look at."""

    request: ProtocolRequest
    server: ProtocolServer

    @property
    def now(self) -> float:
        """When the request came, in seconds since the epoch."""
        return self.request.attempt.time

    @property
    def asking(self) -> Client:
        """The client, which has proved itself."""
        client: Client = self.request.client.of
        return client

    def authenticate_token_endpoint_client(self) -> Any:
        """Return the client once it has proved itself and the request is whole."""
        client = super().authenticate_token_endpoint_client()
        for name in self.REQUIRED:
            if name not in self.request.form:
                raise OAuthError(ErrorCode.INVALID_REQUEST, f"{name} is required")
        return client

    def living(self, grant_id: str) -> tuple[Grant, User]:
        """Return a grant that is not revoked, and its person, who is not disabled.

        That it is not over is seen to where its tokens are made.

        Raises:
            OAuthError: `invalid_grant`: one of them is.

        """
        grant = self.server.stores.grants.grant(grant_id)
        if grant is None or grant.revoked_at is not None:
            raise OAuthError(ErrorCode.INVALID_GRANT, OVER, detail=f"grant {grant_id} is over")
        user = self.server.stores.users.find(grant.user_id)
        if user is None or user.disabled:
            raise OAuthError(ErrorCode.INVALID_GRANT, OVER, detail="the person may not sign in")
        return grant, user

    def check_resource(self, grant: Grant) -> None:
        """Return only if the request is for the grant's own resource, named or not.

        Raises:
            OAuthError: `invalid_target`: it names another, or the client may use it no longer.

        """
        resources, asked = self.server.resources, self.request.resources
        others = [uri for uri in asked if resources.asked_for(uri) != grant.endpoint]
        if others or not resources.open_to(self.asking, grant.endpoint):
            raise OAuthError(ErrorCode.INVALID_TARGET, "the grant is for another resource")

    def for_person(
        self, grant: Grant, user: User, scopes: frozenset[str], refresh_token: str = ""
    ) -> Issued:
        """Make an access token of the grant's family, which never outlives it."""
        scopes = self.asking.ceiling(scopes)
        if not scopes:
            raise OAuthError(ErrorCode.INVALID_SCOPE, "the client may have none of these scopes")
        return self._issued(
            subject=user.id,
            person=f"{user.issuer}|{user.subject}",
            principal=named_in_records(
                user.issuer, user.subject, own=self.server.resources.public_url
            ),
            # What somebody belongs to is nothing for a client to read; the gate looks it up.
            groups=frozenset(),
            endpoint=grant.endpoint,
            scopes=scopes,
            grant_id=grant.id,
            until=grant.expires_at,
            refresh_token=refresh_token,
        )

    def for_itself(self, endpoint: str, scopes: frozenset[str]) -> Issued:
        """Make an access token with which the client acts for itself."""
        return self._issued(
            subject=self.asking.id,
            person=f"{self.server.resources.public_url}|{self.asking.id}",
            principal=self.asking.id,
            groups=self.asking.groups,
            endpoint=endpoint,
            scopes=scopes,
        )

    def first_refresh_token(self, grant: Grant) -> tuple[str, RefreshToken | None]:
        """Return a family's first refresh token, and what to keep; nothing if it may have none."""
        if REFRESH_TOKEN not in self.asking.grants:
            return "", None
        return self.refresh_token(grant, parent_hash=None)

    def refresh_token(
        self, grant: Grant, *, parent_hash: str | None, generation: int = 0
    ) -> tuple[str, RefreshToken]:
        """Return a new refresh token and what to keep of it."""
        text = self.server.new_secret()
        return text, RefreshToken(
            token_hash=token_hash(text),
            grant_id=grant.id,
            client_id=grant.client_id,
            parent_hash=parent_hash,
            issued_at=self.now,
            expires_at=self.waits_until(grant),
            generation=generation,
            # A client that proves itself is bound by that (RFC 9449 section 5).
            bound_to=self.shown_key(grant.endpoint) if self.asking.is_public else "",
        )

    def shown_key(self, endpoint: str) -> str:
        """Return the key that the client proves to hold; none where no token may be bound to one."""
        proof = self.request.proof
        taken = endpoint in self.server.possession.rules.taken
        return proof.key if proof is not None and taken else ""

    def binding(self, endpoint: str, person: str) -> str:
        """Return the key that a token for `endpoint` is bound to, and note its proof's use.

        `person` is whose share that takes: `Principal.person` of whoever comes with the token.

        Raises:
            OAuthError: `invalid_dpop_proof`: there is none though one is required, or it was used.

        """
        possession, proof = self.server.possession, self.request.proof
        if endpoint not in possession.rules.taken:
            return ""
        if proof is None:
            if endpoint in possession.rules.required or self.asking.holds_key:
                raise refused_proof("missing", "a DPoP proof is required")
            return ""
        try:
            possession.use(proof, owner=person)
        except ValueError as error:
            raise refused_proof(str(error)) from error
        return proof.key

    def waits_until(self, grant: Grant) -> float:
        """Return when a refresh token that is given out or used now is good no more."""
        return min(self.now + self.server.lifetimes.refresh_s, grant.expires_at)

    def _issued(
        self,
        *,
        subject: str,
        person: str,
        principal: str,
        groups: frozenset[str],
        endpoint: str,
        scopes: frozenset[str],
        grant_id: str = "",
        until: float = float("inf"),
        refresh_token: str = "",
    ) -> Issued:
        issued_at = int(self.now)
        expires_at = int(min(issued_at + self.server.lifetimes.access_of(self.asking), until))
        if expires_at <= issued_at:
            raise OAuthError(ErrorCode.INVALID_GRANT, OVER, detail="less than a second is left")
        token = AccessToken(
            issuer=self.server.resources.public_url,
            subject=subject,
            audience=self.server.resources.uris[endpoint],
            client_id=self.asking.id,
            client_name=self.asking.name,
            scopes=scopes,
            groups=groups,
            issued_at=issued_at,
            expires_at=expires_at,
            token_id=self.server.new_id(),
            grant_id=grant_id,
            bound_to=self.binding(endpoint, person),
        )
        return Issued(
            token=token,
            endpoint=endpoint,
            principal=principal,
            access_token=mint(token, self.server.keys),
            refresh_token=refresh_token,
        )


Response = tuple[int, Issued, Sequence[tuple[str, str]]]
"""What Authlib wants of a grant: status, body and headers, the last of which we make elsewhere."""

"""Identity assertions: a person's own provider vouches for them to us (ID-JAG).

draft-ietf-oauth-identity-assertion-authz-grant, on top of RFC 7523.
"""

from collections.abc import Mapping
from typing import Any

from authlib.oauth2.drafts.id_jag import IDJAGGrant

from gateway.domain.grants import ASSERTED, Grant
from gateway.domain.identity import AuthMethod, ClientKind, User
from gateway.oauth.assertions import read, verify
from gateway.oauth.client_authentication import CONFIDENTIAL
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.grants.issuing import Issuing, Response

_REFUSED = "the assertion is not valid"


class IdentityAssertionGrant(Issuing, IDJAGGrant):
    """A registered client trades an assertion for one access token, once, and for no refresh token.

    Authlib's takes an audience among others and any algorithm of its library, and knows nothing of
    the claim `resource`.
    """

    TOKEN_ENDPOINT_AUTH_METHODS: tuple[AuthMethod, ...] = CONFIDENTIAL
    REQUIRED: tuple[str, ...] = ("assertion",)

    def authenticate_token_endpoint_client(self) -> Any:
        """Return the client, which an administrator has registered."""
        client = super().authenticate_token_endpoint_client()
        if self.asking.kind is not ClientKind.REGISTERED:
            raise OAuthError(ErrorCode.UNAUTHORIZED_CLIENT, "the client may not use this grant")
        return client

    def _process_assertion_claims(self, assertion: str) -> Mapping[str, Any]:
        """Return the claims of an assertion that a trusted provider signed, for us alone."""
        trusted = self.request.issuer_key
        if trusted is None:
            raise _refusal("no trusted issuer, or none of its keys")
        try:
            found = read(assertion)
            verify(
                found,
                [trusted.key],
                types=(self.REQUIRED_TYP,),
                issuer=trusted.issuer,
                audience=self.server.resources.public_url,
                now=self.now,
            )
        except ValueError as error:
            raise _refusal(str(error)) from error
        for name in ("sub", "client_id"):
            if not isinstance(found.claims.get(name), str) or not found.claims[name]:
                raise _refusal(f"claim {name} is missing or malformed")
        if "iat" not in found.claims:
            raise _refusal("claim iat is missing or malformed")
        return found.claims

    def check_jti(self, claims: Mapping[str, Any], jti: str) -> bool:
        """Whether it comes for the first time; the client it names is known to be this one."""
        return self.server.stores.grants.first_use(claims["iss"], jti, until=float(claims["exp"]))

    def validate_requested_scope(self) -> None:
        """Leave the scopes to `Resources.granted`."""

    def authenticate_user(self, subject: str) -> User | None:
        """Return who the provider calls `subject`, if they are known here and not disabled."""
        issuer = self.request.id_jag_claims["iss"]
        user = self.server.stores.users.by_subject(issuer, subject)
        return None if user is None or user.disabled else user

    def check_id_jag_permission(self, client: Any, user: User, scopes: Any) -> bool:
        """Whether the assertion is for a resource of ours that this client may use."""
        del client, user, scopes
        resources = self.server.resources
        named = self.request.id_jag_claims.get("resource")
        # The claim alone says what it is for; a parameter can only say the same.
        uri = named[0] if isinstance(named, list) and len(named) == 1 else named
        endpoint = resources.endpoint_of(uri) if isinstance(uri, str) else None
        asked = {resources.asked_for(other) for other in self.request.resources}
        if endpoint is None or asked - {endpoint} or not resources.open_to(self.asking, endpoint):
            raise OAuthError(ErrorCode.INVALID_TARGET, "the assertion is for another resource")
        self.request.endpoint = endpoint
        return True

    def create_token_response(self) -> Response:
        """Begin a family of one access token, so that it can be revoked with the person's others."""
        endpoint, user = self.request.endpoint, self.request.user
        scopes = self.server.resources.granted(self.request.scope, self.asking, endpoint)
        grant = Grant(
            id=ASSERTED + self.server.new_id(),
            user_id=user.id,
            client_id=self.asking.id,
            endpoint=endpoint,
            scopes=scopes,
            created_at=self.now,
            expires_at=self.now + self.server.lifetimes.access_s,
        )
        issued = self.for_person(grant, user, scopes)
        self.server.stores.grants.begin_family(grant, None)
        return 200, issued, ()


def _refusal(detail: str) -> OAuthError:
    return OAuthError(ErrorCode.INVALID_GRANT, _REFUSED, detail=detail)

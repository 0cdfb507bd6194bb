"""Clients that act for themselves (RFC 6749 section 4.4)."""

from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant

from gateway.domain.identity import AuthMethod, ClientKind
from gateway.oauth.client_authentication import CONFIDENTIAL
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.grants.issuing import Issuing, Response


class OwnGrant(Issuing, ClientCredentialsGrant):
    """A registered client gets what its registration gives it: no person stands behind it."""

    TOKEN_ENDPOINT_AUTH_METHODS: tuple[AuthMethod, ...] = CONFIDENTIAL

    def validate_requested_scope(self) -> None:
        """Leave the scopes to `Resources.granted`, and see who vouches for the client."""
        if self.asking.kind is not ClientKind.REGISTERED:
            raise OAuthError(
                ErrorCode.UNAUTHORIZED_CLIENT, "the client needs a person who consents"
            )

    def create_token_response(self) -> Response:
        """Make the one token; it belongs to no family and cannot be refreshed."""
        client, resources = self.asking, self.server.resources
        if not self.request.resources and len(client.resources) != 1:
            raise OAuthError(ErrorCode.INVALID_TARGET, "resource is required")
        endpoint = resources.requested(self.request.resources, client)
        scopes = resources.granted(self.request.form.get("scope"), client, endpoint)
        return 200, self.for_itself(endpoint, scopes), ()

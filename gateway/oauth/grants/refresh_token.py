"""Refresh tokens: each used once, in a chain that ends when one comes twice (RFC 9700 section 4.14)."""

from typing import Any

from authlib.oauth2.rfc6749.grants import RefreshTokenGrant

from gateway.domain._value import value
from gateway.domain.grants import Grant, RefreshToken
from gateway.domain.identity import User
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.grants.issuing import Issuing, Response
from gateway.oauth.protocol import token_hash

_REFUSED = "the refresh token is not valid"


@value
class HeldToken:
    """A refresh token of this client, and the family that it belongs to."""

    token: RefreshToken
    grant: Grant
    user: User

    def check_client(self, client: Any) -> bool:
        return bool(client.get_client_id() == self.token.client_id)


class RotatingGrant(Issuing, RefreshTokenGrant):
    """A refresh token is traded for an access token and its own successor.

    Two processes of one client, or an answer that was lost, bring a used one again within seconds.
    For that long the same successor comes back, as long as nobody has used it. Any other replay
    revokes the family: somebody else has the token.
    """

    REQUIRED: tuple[str, ...] = ("refresh_token",)

    def authenticate_refresh_token(self, refresh_token: str) -> HeldToken:
        """Return the token of that text, used or not: a replay must be told from a guess."""
        found = self.server.stores.grants.refresh_token(token_hash(refresh_token))
        if found is None or found.client_id != self.asking.id:
            detail = "unknown token" if found is None else "another client's token"
            raise OAuthError(ErrorCode.INVALID_GRANT, _REFUSED, detail=detail)
        grant, user = self.living(found.grant_id)
        if found.used_at is None and found.expires_at <= self.now:
            raise OAuthError(ErrorCode.INVALID_GRANT, _REFUSED, detail="unused for too long")
        return HeldToken(token=found, grant=grant, user=user)

    def create_token_response(self) -> Response:
        """Make the tokens, then use the old one up; of several that come at once, one does."""
        held: HeldToken = self.request.refresh_token
        if held.token.used_at is None:
            self.check_resource(held.grant)
            rotated = self._rotated(held)
            if rotated is not None:
                return rotated
            # Another was faster by a moment, which is a replay like any other.
            held = self.authenticate_refresh_token(self.request.form["refresh_token"])
        return self._repeated(held)

    def _rotated(self, held: HeldToken) -> Response | None:
        """Return the new tokens; nothing if the old one was used meanwhile."""
        token, grants = held.token, self.server.stores.grants
        text, successor = self.refresh_token(held.grant, parent_hash=token.token_hash)
        sealed = ""
        if self.server.lifetimes.grace_s > 0:
            sealed = self.server.stores.sealer.seal(text.encode(), _row(token))
        issued = self.for_person(held.grant, held.user, self._scopes(held.grant), text)
        if not grants.rotate(token.token_hash, successor, sealed=sealed, at=self.now):
            return None
        return 200, issued, ()

    def _repeated(self, held: HeldToken) -> Response:
        """Return the successor of a used token once more, or end its family."""
        successor = self._successor(held.token)
        if not successor:
            grants, grant_id = self.server.stores.grants, held.grant.id
            grants.revoke_grant(grant_id, "refresh token used twice", at=self.now)
            detail = f"the token was used before: grant {grant_id} is revoked"
            raise OAuthError(ErrorCode.INVALID_GRANT, _REFUSED, detail=detail)
        self.check_resource(held.grant)
        return 200, self.for_person(held.grant, held.user, self._scopes(held.grant), successor), ()

    def _successor(self, used: RefreshToken) -> str:
        """Return the token that came after `used`, while it may be given again."""
        used_at = self.now if used.used_at is None else used.used_at
        if not used.successor or self.now > used_at + self.server.lifetimes.grace_s:
            return ""
        text = self.server.stores.sealer.open(used.successor, _row(used)).decode()
        following = self.server.stores.grants.refresh_token(token_hash(text))
        return text if following is not None and following.used_at is None else ""

    def _validate_token_scope(self, token: HeldToken) -> None:
        """Do what Authlib wants done here later, where a refusal cannot hide a replay."""

    def _scopes(self, grant: Grant) -> frozenset[str]:
        """Return what of the grant is asked for: less, never more, and the rest is not lost."""
        asked = self.request.form.get("scope")
        scopes = grant.scopes if asked is None else frozenset(asked.split(" "))
        if not scopes <= grant.scopes:
            raise OAuthError(ErrorCode.INVALID_SCOPE, "the grant has not all of these scopes")
        return scopes


def _row(token: RefreshToken) -> str:
    return f"refresh_tokens:{token.token_hash}:successor"

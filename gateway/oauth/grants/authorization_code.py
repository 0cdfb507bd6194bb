"""The authorization code, where it becomes a token (RFC 6749 section 4.1.3)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant

from gateway.domain._value import value
from gateway.domain.grants import AuthorizationCode, Grant
from gateway.domain.identity import User
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.grants.issuing import Issuing, Response
from gateway.oauth.protocol import token_hash
from gateway.oauth.resources import ADMIN_API

_REFUSED = "the authorization code is not valid"


@value
class HeldCode:
    """A code that this client was given and that has not expired; it may have been used."""

    code: AuthorizationCode

    @property
    def code_challenge(self) -> str:
        return self.code.code_challenge

    def get_redirect_uri(self) -> str:
        return self.code.redirect_uri


class CodeGrant(Issuing, AuthorizationCodeGrant):
    """A code opens one family, once, for the client that it was given to.

    Only a request that is right in everything uses the code up, and only such a replay revokes: a
    wrong guess at a verifier must not sign anybody out (OAuth 2.1 section 4.1.3).
    """

    RESPONSE_TYPES: frozenset[str] = (
        frozenset()
    )  # the authorization endpoint has its own half of this grant
    REQUIRED: tuple[str, ...] = ("code", "redirect_uri", "code_verifier")

    def query_authorization_code(self, code: str, client: Any) -> HeldCode:
        """Return the code of that text, used or not: a replay must be told from a guess."""
        found = self.server.stores.grants.code(token_hash(code))
        if found is None or found.client_id != client.get_client_id():
            detail = "unknown code" if found is None else "another client's code"
            raise OAuthError(ErrorCode.INVALID_GRANT, _REFUSED, detail=detail)
        if found.expires_at <= self.now:
            raise OAuthError(ErrorCode.INVALID_GRANT, _REFUSED, detail="the code has expired")
        return HeldCode(code=found)

    def create_token_response(self) -> Response:
        """Make the tokens, then use the code up; of several that come at once, one does."""
        held: HeldCode = self.request.authorization_code
        grant, user = self.living(held.code.grant_id)
        self.check_resource(grant)
        if held.code.bound_to and held.code.bound_to != self.shown_key(grant.endpoint):
            # Before a replay is one: who has not the key cannot sign out who has.
            raise OAuthError(
                ErrorCode.INVALID_GRANT, _REFUSED, detail="the code is bound to another key"
            )
        if held.code.used_at is not None:
            raise self._replayed(grant)
        return self._redeemed(held.code, grant, user)

    def _redeemed(self, code: AuthorizationCode, grant: Grant, user: User) -> Response:
        text, first = self.first_refresh_token(grant)
        issued = replace(
            self.for_person(grant, user, grant.scopes, text), members=_proven(code, grant)
        )
        if not self.server.stores.grants.redeem_code(code.code_hash, first, at=self.now):
            raise self._replayed(grant)
        return 200, issued, ()

    def _replayed(self, grant: Grant) -> OAuthError:
        """Revoke what the code led to: one of the two who have it is a thief."""
        self.server.stores.grants.revoke_grant(grant.id, "code used twice", at=self.now)
        detail = f"the code was used before: grant {grant.id} is revoked"
        return OAuthError(ErrorCode.INVALID_GRANT, _REFUSED, detail=detail)


def _proven(code: AuthorizationCode, grant: Grant) -> Mapping[str, int]:
    """Return when the person signed in, for what administers the gateway, if that is known.

    It is called what an identity provider calls it (OpenID Connect Core section 2).
    """
    known = grant.endpoint == ADMIN_API and code.proven_at > 0
    return {"auth_time": int(code.proven_at)} if known else {}

"""Refresh tokens: each used once, in a chain; what a second use means is told by evidence.

A client of several processes, one that was killed before it had stored an answer, and a thief all
bring a used token. They differ in when it comes, in what became of its successor, and in who else
goes on (RFC 9700 section 4.14; decision 0034).
"""

from dataclasses import replace
from typing import Any, Final

from authlib.oauth2.rfc6749.grants import RefreshTokenGrant

from gateway.domain._value import value
from gateway.domain.grants import Grant, RefreshToken
from gateway.domain.identity import AuthMethod, User
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.grants.issuing import Issuing, Response
from gateway.oauth.protocol import Reuse, token_hash
from gateway.oauth.redirects import is_of_the_device

_REFUSED = "the refresh token is not valid"
_FAR: Final = 3
"""Generations that a chain of one client is ahead of its access tokens' lives at most."""
_PACE_S: Final = 1.0
"""A family has a new refresh token so many seconds after the last one, and not before."""


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

    A used one gives the same successor again while nobody has used that: an answer was lost. After
    that, within a moment, it gives an access token and nothing else: its client is faster than
    itself. Later it gives nothing, and ends the family if there is evidence of a second holder.

    However fast a client is, its chain grows by one a second: in between it gets access tokens.
    """

    REQUIRED: tuple[str, ...] = ("refresh_token",)

    def authenticate_refresh_token(self, refresh_token: str) -> HeldToken:
        """Return the token of that text, used or not: a replay must be told from a guess."""
        found = self.server.stores.grants.refresh_token(token_hash(refresh_token))
        if found is None:
            raise OAuthError(ErrorCode.INVALID_GRANT, _REFUSED, detail="unknown token")
        if found.client_id != self.asking.id:
            raise self._ended(found.grant_id, "another client has its refresh token")
        grant, user = self.living(found.grant_id)
        if found.bound_to and found.bound_to != self.shown_key(grant.endpoint):
            raise self._of_another_key(found)
        if found.used_at is None and found.expires_at <= self.now:
            raise OAuthError(ErrorCode.INVALID_GRANT, _REFUSED, detail="unused for too long")
        return HeldToken(token=found, grant=grant, user=user)

    def create_token_response(self) -> Response:
        """Make the tokens, then use the old one up; of several that come at once, one does."""
        held: HeldToken = self.request.refresh_token
        if held.token.used_at is None:
            self.check_resource(held.grant)
            if self._is_too_soon(held.token):
                return self._answer(held, code="refresh_paced")
            proven = self.request.auth_method is AuthMethod.PRIVATE_KEY_JWT
            bound = proven or held.token.bound_to
            answer = self._kept(held) if bound else self._rotated(held)
            if answer is not None:
                return answer
            # Another was faster by a moment, which is a replay like any other.
            held = self.authenticate_refresh_token(self.request.form["refresh_token"])
        return self._repeated(held)

    def _is_too_soon(self, token: RefreshToken) -> bool:
        """Whether `token` took its predecessor's place a moment ago: several processes refresh, each
        what the one before it got, and who is left behind must not look like a thief's victim.
        """
        if token.parent_hash is None or self.server.lifetimes.grace_s <= 0:
            return False
        return 0 <= self.now - token.issued_at < _PACE_S

    def _kept(self, held: HeldToken) -> Response | None:
        """Return an access token of a client with a key: nobody else can use the token it keeps.

        What is bound to its sender need not be rotated (OAuth 2.1 section 4.3.1), so several
        processes that hold one key cannot race.
        """
        answer = self._answer(held)
        until = self.waits_until(held.grant)
        kept = self.server.stores.grants.prolong(held.token.token_hash, until=until, at=self.now)
        return answer if kept else None

    def _rotated(self, held: HeldToken) -> Response | None:
        """Return the new tokens; nothing if the old one was used meanwhile."""
        token, grants = held.token, self.server.stores.grants
        text, successor = self.refresh_token(
            held.grant, parent_hash=token.token_hash, generation=token.generation + 1
        )
        sealed = ""
        if self.server.lifetimes.lost_s > 0:
            sealed = self.server.stores.sealer.seal(text.encode(), _row(token))
        answer = self._answer(held, text)
        if not grants.rotate(token.token_hash, successor, sealed=sealed, at=self.now):
            return None
        return 200, replace(answer[1], used=token.token_hash), ()

    def _repeated(self, held: HeldToken) -> Response:
        """Return what a used token is good for still, or refuse it."""
        token, lifetimes = held.token, self.server.lifetimes
        used_at = self.now if token.used_at is None else token.used_at
        # Whoever races may race for an answer that was given again.
        since_s = self.now - max(used_at, token.again_at or 0.0)
        behind = self.server.stores.grants.newest_generation(held.grant.id) - token.generation
        if behind == 1 and token.successor and self.now - used_at <= lifetimes.lost_s:
            return self._given_again(held, late=since_s > lifetimes.grace_s)
        if since_s <= lifetimes.grace_s > 0:
            self.check_resource(held.grant)
            return self._answer(held, code="refresh_raced")
        if behind - since_s / lifetimes.access_of(self.asking) > _FAR:
            raise self._ended(
                held.grant.id, f"a refresh token came back {behind} generations later"
            )
        raise self._reused(held, behind)

    def _given_again(self, held: HeldToken, *, late: bool) -> Response:
        """Return the successor that nobody has used; twice in a row somebody else goes on."""
        token, stores = held.token, self.server.stores
        self.check_resource(held.grant)
        text = stores.sealer.open(token.successor, _row(token)).decode()
        known = "refresh_lost" if token.lost_at is not None else "refresh_given_again"
        status, issued, headers = self._answer(held, text, code=known)
        if late:
            before = token.parent_hash and stores.grants.refresh_token(token.parent_hash)
            if before and before.again_at is not None:
                raise self._ended(held.grant.id, "two holders use its refresh tokens in turns")
            stores.grants.note_again(token.token_hash, at=self.now)
        return status, replace(issued, used=token.token_hash), headers

    def _of_another_key(self, token: RefreshToken) -> OAuthError:
        """Return the refusal of a bound token without its key; its family goes on, as a thief's try
        is worth nothing.
        """
        return OAuthError(
            ErrorCode.INVALID_GRANT,
            _REFUSED,
            detail=f"no proof of the key that it is bound to: grant {token.grant_id} goes on",
            reason="refresh_other_key",
        )

    def _reused(self, held: HeldToken, behind: int) -> OAuthError:
        """Return the refusal of a used token of which nobody can say who has it."""
        by_client = Reuse.REFUSE if is_of_the_device(self.asking) else Reuse.REVOKE
        if (self.server.reuse or by_client) is Reuse.REVOKE:
            return self._ended(held.grant.id, "refresh token used twice")
        self.server.stores.grants.doubt(held.grant.id, at=self.now)
        return OAuthError(
            ErrorCode.INVALID_GRANT,
            _REFUSED,
            detail=f"used before, {behind} generations ago: grant {held.grant.id} goes on",
            reason="refresh_reused",
        )

    def _ended(self, grant_id: str, why: str) -> OAuthError:
        """End the family of a token that somebody else has; return the refusal."""
        self.server.stores.grants.revoke_grant(grant_id, why, at=self.now)
        return OAuthError(
            ErrorCode.INVALID_GRANT,
            _REFUSED,
            detail=f"{why}: grant {grant_id} is revoked",
            reason="refresh_revoked",
        )

    def _answer(self, held: HeldToken, text: str = "", *, code: str = "issued") -> Response:
        """Make the tokens of an answer, with `text` as its refresh token."""
        scopes = self._scopes(held.grant)
        issued = self.for_person(held.grant, held.user, scopes, text)
        return 200, replace(issued, code=code), ()

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

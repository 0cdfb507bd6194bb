"""The bearer gate: who holds the access token that a request carries (RFC 6750, RFC 8707)."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Final

from gateway.domain._value import value
from gateway.domain.bounded import Bounded, octets_of
from gateway.domain.calls import Call
from gateway.domain.epoch import Epoch
from gateway.domain.identity import (
    BearerToken,
    Client,
    Credential,
    Principal,
    User,
    acting,
    named_in_records,
)
from gateway.domain.scripts import ScriptId
from gateway.errors import Unauthenticated
from gateway.oauth.builtin import with_builtin
from gateway.oauth.keys import KeyRing
from gateway.oauth.possession import Possession, without_proofs
from gateway.oauth.resources import Resources
from gateway.oauth.tokens import LEEWAY_S, AccessToken, verify
from gateway.ports import Clock
from gateway.ports.identity import ClientStore, UserStore
from gateway.ports.scripts import ScriptStore

_OCTETS: Final = 32 * 1024**2
"""What is remembered of tokens: others issue them, and say in them what they like."""


@value
class _Seen:
    """A token whose signature was good, and who it was for when it was last looked at."""

    token: AccessToken
    client: Client
    user: User | None
    principal: Principal
    epoch: int
    """In which that was; -1 where something else has a say in it, which is asked every time."""
    octets: int


class TokenGate:
    """`ports.Authenticator` for tokens that this gateway issued.

    What is remembered is that a signature was good, never that a token is still valid: its expiry
    and its program are looked at on every call; its family, its client and its person whenever
    anything of any of them has changed, which turns `epoch`. `keys` may be replaced at any time:
    tokens that were admitted before stay good until they end.
    """

    def __init__(
        self,
        *,
        resources: Resources,
        keys: KeyRing,
        clients: ClientStore,
        users: UserStore,
        is_revoked: Callable[[str, str], bool],
        scripts: ScriptStore,
        clock: Clock,
        epoch: Epoch,
        people: Callable[[], int],
        possession: Possession | None = None,
        desk: Client | None = None,
        most_tokens: int = 10_000,
    ) -> None:
        """Without `possession` a token that is bound to a key opens nothing.

        `is_revoked` is asked about a grant and the id of a token of it; see `GrantStore`.
        `desk` is the client that the desk is, where it is one. `people` says how often rights of
        anybody have ended, by what the stores show.
        """
        self.keys = keys
        self._resources = resources
        self._find_client = with_builtin(clients, desk)
        self._find_user = users.find
        self._is_revoked = is_revoked
        self._find_script = scripts.find
        self._clock = clock
        self._epoch = epoch
        self._people = people
        self._possession = possession or without_proofs()
        # By hash, so that a memory dump yields no usable tokens; by endpoint as well, so that a
        # token that is good for one is verified anew at another.
        self._seen: Bounded[tuple[str, bytes], _Seen] = Bounded(most=most_tokens, octets=_OCTETS)

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        """Return who holds `credential`, with what registration and people give it now.

        Raises:
            Unauthenticated: No token, one that is not valid now and for `endpoint` alone, one that
                was revoked, one of a client or a person that may no longer use it, or one that is
                bound to a key which whoever sends it does not prove to hold.

        """
        if credential is None:
            raise Unauthenticated("an access token is required")
        now = self._clock()
        key = endpoint, sha256(credential.text.encode("utf-8", "surrogatepass")).digest()
        seen = self._seen.get(key)
        if seen is None or now + LEEWAY_S < seen.token.issued_at:
            # Not remembered; or the clock has gone back, and its end would be too far away.
            seen = self._admit(key, self._verified(credential.text, endpoint, now))
        elif now >= seen.token.expires_at:
            self._seen.pop(key)
            raise Unauthenticated("the access token has expired", detail=seen.token.token_id)
        elif seen.epoch != self._epoch.now:
            seen = self._looked_at_again(key, seen)
        bound, rules = seen.token.bound_to, self._possession.rules
        if bound or endpoint in rules.required or not isinstance(credential, BearerToken):
            owner = seen.principal.person
            await self._possession.require(bound, credential, endpoint, owner=owner)
        return seen.principal

    def require_still(self, call: Call) -> None:
        """Return if whoever made `call` may call by its token still; what was proven then is not asked for anew.

        Raises:
            Unauthenticated: They may not.

        """
        text = "" if call.credential is None else call.credential.text
        self._looked_up(self._verified(text, call.endpoint, self._clock()), call.endpoint)

    def _looked_at_again(self, key: tuple[str, bytes], seen: _Seen) -> _Seen:
        """Return what stands behind a token; the very same principal, unless it is another one."""
        token, epoch, people = seen.token, self._epoch.now, self._people()
        user = self._find_user(token.subject) if token.grant_id else None
        if (
            self._is_revoked(token.grant_id, token.token_id)
            or self._find_client(token.client_id) is not seen.client
            or user is not seen.user
            or (token.script is not None and self._is_over(token, token.script))
        ):
            return self._admit(key, token)
        if seen.principal.people != people:
            seen = replace(seen, principal=replace(seen.principal, people=people))
            self._seen.put(key, seen, seen.octets)
        if token.script is not None:
            return seen
        seen = replace(seen, epoch=epoch)
        self._seen.put(key, seen, seen.octets)
        return seen

    def _verified(self, text: str, endpoint: str, now: float) -> AccessToken:
        audience = self._resources.uris.get(endpoint)
        if audience is None:
            raise Unauthenticated("no token is for this endpoint", detail="unknown endpoint")
        issuer = self._resources.public_url
        return verify(text, keys=self.keys, issuer=issuer, audience=audience, now=now)

    def _admit(self, key: tuple[str, bytes], token: AccessToken) -> _Seen:
        """Look up who a verified token is for, and remember it."""
        try:
            seen = self._looked_up(token, key[0])
        except Unauthenticated:
            self._seen.pop(key)
            raise
        self._seen.put(key, seen, seen.octets)
        return seen

    def _looked_up(self, token: AccessToken, endpoint: str) -> _Seen:
        """Look up who stands behind a verified token now."""
        # Before anything is looked up; of a program's end nothing is told beside asking for it.
        people = self._people()
        epoch = self._epoch.now if token.script is None else -1
        if self._is_revoked(token.grant_id, token.token_id):
            raise Unauthenticated("the access token was revoked", detail=token.token_id)
        if token.script is not None and self._is_over(token, token.script):
            raise Unauthenticated(
                "the program that this token is for has ended", detail=token.script
            )
        client = self._find_client(token.client_id)
        if client is None:
            raise Unauthenticated("the client was removed", detail=token.client_id)
        if not self._resources.open_to(client, endpoint):
            raise Unauthenticated("the client may not use this endpoint", detail=token.client_id)
        user = None
        if token.grant_id:
            user = self._find_user(token.subject)
            if user is None or user.disabled:
                raise Unauthenticated("the person may not sign in", detail=token.subject)
        elif token.subject != client.id:
            raise Unauthenticated("nobody granted this token", detail=token.token_id)
        principal = _principal(token, client, user, people)
        return _Seen(
            token=token,
            client=client,
            user=user,
            principal=principal,
            epoch=epoch,
            octets=octets_of(principal),
        )

    def _is_over(self, token: AccessToken, script: ScriptId) -> bool:
        """Whether a program's token has lost its program, or what it was traded for."""
        return (
            self._is_revoked(token.grant_id, token.subject_token_id)
            or self._find_script(script, now=self._clock()) is None
        )


def _principal(token: AccessToken, client: Client, user: User | None, people: int) -> Principal:
    """Join what the token says with what stands behind it now: never more than either."""
    return Principal(
        issuer=token.issuer if user is None else user.issuer,
        subject=token.subject if user is None else user.subject,
        named="" if user is None else named_in_records(user.issuer, user.subject, own=token.issuer),
        user_id="" if user is None else user.id,
        client_id=client.id,
        client_name=client.known_as,
        # A client that acts for itself has the groups of its registration, as they are now.
        groups=client.groups if user is None else user.groups,
        scopes=client.ceiling(token.scopes),
        token_id=token.token_id,
        expires_at=float(token.expires_at),
        people=people,
        # What runs for a host's user is not the host: it declares no task and begins no runs.
        trusted_host=client.trusted_host and token.script is None,
        script=token.script,
        program="" if user is None else acting(client, user).program,
    )

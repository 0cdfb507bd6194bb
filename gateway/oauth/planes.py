"""Who makes a call that a registered plane asks about: whom the plane names, if it may."""

import math
from collections.abc import Callable, Mapping
from typing import Final

from gateway.domain.bounded import Bounded, octets_of
from gateway.domain.calls import AGGREGATE
from gateway.domain.identity import (
    BY_PLANE,
    Asserted,
    Carried,
    Client,
    Credential,
    Principal,
    User,
    acting,
    named_in_records,
)
from gateway.domain.planes import Plane
from gateway.domain.tools import OWN, UpstreamId
from gateway.errors import Unauthenticated
from gateway.oauth.builtin import with_builtin
from gateway.ports.identity import ClientStore, UserStore

_MOST: Final = 10_000
_OCTETS: Final = 16 * 1024**2

_Seen = tuple[Principal, User | None, Client | None]


class PlaneGate:
    """`ports.Authenticator` for what planes say: a plane's own proof was looked at before.

    It vouches that somebody is who it says. What they may do here is what they may do at the door of
    the gateway itself: nobody unknown or disabled gets in, unless an operator lets the plane vouch.
    """

    def __init__(
        self,
        planes: Mapping[str, Plane],
        *,
        users: UserStore,
        clients: ClientStore,
        own_issuer: str,
        is_revoked: Callable[[str, str], bool],
        people: Callable[[], int],
    ) -> None:
        """Ask `is_revoked` about the grant and the id of a token of ours that a plane shows.

        `people` says how often rights of anybody have ended, by what all of them show.
        """
        self._planes = planes
        self._users = users
        self._find_client = with_builtin(clients)
        self._own_issuer = own_issuer
        self._is_revoked = is_revoked
        self._people = people
        self._seen: Bounded[Asserted, _Seen] = Bounded(most=_MOST, octets=_OCTETS)

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:  # noqa: ARG002 - planes ask at one
        """Return whom a plane names, with what is known of them now.

        Raises:
            Unauthenticated: Nobody of that name is known here, or they may not sign in; their client
                may not use that server; or it is no plane that says so.

        """
        if not isinstance(credential, Asserted):
            raise Unauthenticated("only registered planes may ask here")
        people = self._people()  # before anything is looked up
        client = self._find_client(credential.client_id)
        _require_open(client, credential.server)
        if credential.shown is not None:
            _require_unbound(credential.shown)
            if credential.issuer == self._own_issuer:
                self._require_good(credential.shown, client, credential.server)
        user = self._user(credential, client)
        seen = self._seen.get(credential)
        if seen is not None and seen[1] is user and seen[2] is client and seen[0].people == people:
            return seen[0]  # the very same one: what is known of it is known by which it is
        principal = self._principal(credential, user, client, people)
        self._seen.put(credential, (principal, user, client), 2 * octets_of(principal))
        return principal

    def _require_good(self, token: Carried, client: Client | None, server: UpstreamId) -> None:
        """Return if a token of ours would open our own door to `server` as well.

        Raises:
            Unauthenticated: It was revoked, its client was removed, it names somebody who acts, or it
                is for another server.

        """
        if token.is_for_another:
            raise _no_good("bound_token", "a plane shows no proof of whoever acts by this token")
        if client is None:
            raise Unauthenticated("the client is not known here", detail="a token by a plane")
        if self._is_revoked(token.grant_id, token.token_id):
            raise Unauthenticated("the access token was revoked", detail=token.token_id)
        doors = {AGGREGATE} if server == OWN else {AGGREGATE, f"{AGGREGATE}/{server}"}
        if token.audience not in {self._own_issuer + door for door in doors}:
            raise _no_good("other_audience", "the token is for another server than this")

    def _user(self, said: Asserted, client: Client | None) -> User | None:
        """Return the person; `None` for a client that acts for itself, and for a stranger who is vouched for.

        Tokens of ours name people by our own ids.

        Raises:
            Unauthenticated: There is none, and the plane may not vouch for one; or they are disabled.

        """
        user = self._users.by_subject(said.issuer, said.subject)
        if user is None and said.issuer == self._own_issuer:
            user = self._users.find(said.subject)
        if user is None and (self._planes[said.plane].vouches or self._is_itself(said, client)):
            return None
        if user is None or user.disabled:
            why = [("unknown_subject", "nobody of that name may sign in here")]
            raise Unauthenticated("the subject is not known here", reasons=why)
        return user

    def _is_itself(self, said: Asserted, client: Client | None) -> bool:
        """Whether the subject is a client that is known here: our tokens for one say so."""
        return client is not None and (said.issuer, said.subject) == (self._own_issuer, client.id)

    def _principal(
        self, said: Asserted, user: User | None, client: Client | None, people: int
    ) -> Principal:
        plane = self._planes[said.plane]
        issuer = said.issuer if user is None else user.issuer
        subject = said.subject if user is None else user.subject
        program = "" if user is None or client is None else acting(client, user).program
        return Principal(
            issuer=issuer,
            subject=subject,
            named=named_in_records(issuer, subject, own=self._own_issuer),
            user_id="" if user is None else user.id,
            client_id=said.client_id,
            client_name=said.client_id if client is None else client.known_as,
            groups=self._groups(said, user, client),
            scopes=self._scopes(said, client),
            token_id=BY_PLANE + said.plane,
            expires_at=math.inf,
            people=people,
            program=program,
            trusted_host=plane.tasks and client is not None and client.trusted_host,
        )

    def _scopes(self, said: Asserted, client: Client | None) -> frozenset[str]:
        """Return what a call may do: what the plane's may, its client, and the token of ours it came with."""
        most = self._planes[said.plane].scopes
        if said.shown is not None and said.issuer == self._own_issuer:
            most &= said.shown.scopes
        return most if client is None else client.ceiling(most)

    def _groups(self, said: Asserted, user: User | None, client: Client | None) -> frozenset[str]:
        """Return whose groups count: a plane gives nobody who is known here any other."""
        if user is not None:
            return user.groups
        if client is not None and self._is_itself(said, client):
            return client.groups
        return said.groups


def _require_open(client: Client | None, server: UpstreamId) -> None:
    """Return if a client that is known here gets tokens by which it reaches `server`.

    Raises:
        Unauthenticated: It does not.

    """
    if client is None or server == OWN:
        return
    if not any(client.may_use(each) for each in (AGGREGATE, f"{AGGREGATE}/{server}")):
        why = [("not_registered", "the client is registered for other servers than this")]
        raise Unauthenticated("the client may not use this server", reasons=why)


def _require_unbound(token: Carried) -> None:
    """Return if a token is good without more, whoever gave it out.

    Raises:
        Unauthenticated: It is bound to a key, of which a plane shows no proof; or the plane shows too
            little of it to tell.

    """
    if token.is_bound:
        raise _no_good(
            "bound_token", "a plane shows no proof of the key that this token is bound to"
        )
    if not token.is_whole:
        raise _no_good(
            "claims_unseen",
            "the plane has to forward all that the token says, `scope` and `cnf` among it: "
            "`metadata: {claims: jwt}` of agentgateway",
        )


def _no_good(code: str, why: str) -> Unauthenticated:
    return Unauthenticated("the token is not good by a plane", reasons=[(code, why)])

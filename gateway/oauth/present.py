"""Whether those whom something was allowed to are still there."""

import math
from collections.abc import Callable, Iterator, Mapping

from gateway.domain.identity import Absence, Principal
from gateway.oauth.builtin import with_builtin
from gateway.ports.identity import ClientStore, UserStore


class Present:
    """Reads from memory, by the identities and the configuration in force."""

    def __init__(
        self,
        *,
        users: UserStore,
        clients: ClientStore,
        planes: Callable[[], Mapping[str, float]],
        elsewhere: bool,
    ) -> None:
        """`planes` names those that may ask, planes and hosts that invoke interceptors, and since when.

        With `elsewhere` another authorization server knows people, and few or none are stored here.
        """
        self._users = users
        self._find_client = with_builtin(clients)
        self._planes = planes
        self._elsewhere = elsewhere

    def absence(self, *, plane: str, user_id: str, client_id: str, client_name: str) -> Absence:
        """Return who was not there last, and until when: also where they are there again.

        What is empty was nobody. A plane may have spoken for people and clients who were never known
        here: of such a client the id is also the name.
        """
        found = [*self._of_plane(plane), *self._of_person(user_id)]
        if client_name != client_id:
            found += self._of_client(client_id)
        return max(found, key=lambda one: one.until, default=Absence())

    def of(self, plane: str, principal: Principal) -> Absence:
        """Return as much of a principal, for whom a plane may have spoken."""
        return self.absence(
            plane=plane,
            user_id=principal.user_id,
            client_id=principal.client_id,
            client_name=principal.client_name,
        )

    def _of_plane(self, plane: str) -> Iterator[Absence]:
        if plane:
            yield Absence(who="the plane was removed", until=self._planes().get(plane, math.inf))

    def _of_person(self, user_id: str) -> Iterator[Absence]:
        user = self._users.find(user_id) if user_id else None
        if user is not None:
            until = math.inf if user.disabled else user.disabled_at
            yield Absence(who="the person was disabled", until=until)
        elif user_id and not self._elsewhere:
            yield Absence(who="the person was removed", until=math.inf)

    def _of_client(self, client_id: str) -> Iterator[Absence]:
        client = self._find_client(client_id)
        if client is None:
            yield Absence(who="the client was removed", until=math.inf)
        else:
            # Whoever comes by its id is it no more, also where its document says something else.
            yield Absence(who="the client is another one by now", until=client.created_at)

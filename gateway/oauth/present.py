"""Whether those whom something was allowed to are still there."""

from collections.abc import Callable, Collection

from gateway.oauth.builtin import with_builtin
from gateway.ports.identity import ClientStore, UserStore


class Present:
    """Reads from memory, by the identities and the configuration in force."""

    def __init__(
        self,
        *,
        users: UserStore,
        clients: ClientStore,
        planes: Callable[[], Collection[str]],
        elsewhere: bool,
    ) -> None:
        """`planes` names those that may ask: planes, and hosts that invoke interceptors.

        With `elsewhere` another authorization server knows people, and few or none are stored here.
        """
        self._users = users
        self._find_client = with_builtin(clients)
        self._planes = planes
        self._elsewhere = elsewhere

    def lacking(self, *, plane: str, user_id: str, client_id: str, client_name: str) -> str:
        """Return who is not there any more, in a few words; nothing if all are.

        What is empty was nobody. A plane may have spoken for people and clients who were never known
        here: of such a client the id is also the name.
        """
        if plane and plane not in self._planes():
            return "the plane was removed"
        if user_id:
            user = self._users.find(user_id)
            if user is None and not self._elsewhere:
                return "the person was removed"
            if user is not None and user.disabled:
                return "the person was disabled"
        if client_name != client_id and self._find_client(client_id) is None:
            return "the client was removed"
        return ""

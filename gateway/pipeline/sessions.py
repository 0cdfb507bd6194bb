"""Sessions that their clients have ended: none of them is one any more, whatever its server thinks."""

from collections.abc import Callable

from gateway.domain.calls import Form, Permit
from gateway.domain.tools import OWN, UpstreamId
from gateway.ports.front import SessionStore


class Sessions:
    """What is open of sessions that are sealed, and so need no store to begin.

    A seal holds as long as its key, over every restart; that a session has ended is what is kept.
    """

    def __init__(self, store: SessionStore, *, is_over: Callable[[str], bool]) -> None:
        """`is_over` says of a session of our own, by its id, whether it has lasted too long."""
        self._store = store
        self._is_over = is_over

    def have_ended(self, server: UpstreamId, principal: str, session: str) -> bool:
        """Whether a principal, by its key, has ended `session`; one of ours is over by itself too."""
        if server == OWN and self._is_over(session):
            return True
        return self._store.has_ended(principal, _named(server, session))

    def are_over_for(self, permit: Permit) -> bool:
        """Whether what is under way belongs to a session with its server that has ended since."""
        call = permit.call
        if permit.session is None or call.session_of == OWN:
            return False
        return self.have_ended(call.session_of, permit.principal.key, permit.session)

    async def end(self, permit: Permit) -> None:
        """Keep that a session with a server ends, if that is what is permitted; durable on return.

        Raises:
            AuditUnavailable: It could not be written.

        """
        call = permit.call
        if call.message.form is not Form.END or permit.session is None or call.server == OWN:
            return
        who, session = permit.principal, _named(call.session_of, permit.session)
        await self._store.end(who.key, session, person=who.person)


def _named(server: UpstreamId, session: str) -> str:
    # No id has a blank in it, so those of two servers are never one.
    return session if server == OWN else f"{server} {session}"

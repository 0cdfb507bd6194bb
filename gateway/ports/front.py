"""What sessions at the endpoint in front of all servers leave behind."""

from collections.abc import Sequence
from typing import Protocol


class SessionStore(Protocol):
    """Which sessions have ended, and what those that have not want to hear of; durable.

    A session is known by its principal's key and its id, unsealed; `person` is the principal's, in whose
    share it is. Reading is from memory and never
    waits.
    """

    def has_ended(self, principal: str, session: str) -> bool: ...

    def subscribed(self, principal: str, session: str) -> Sequence[str]:
        """Return the URIs that the session subscribed to, as its client calls them."""
        ...

    async def subscribe(self, principal: str, session: str, uri: str, *, person: str) -> None:
        """Keep a subscription.

        Raises:
            LimitExceeded: The session, its person, or all of them have too many.
            AuditUnavailable: It could not be written.

        """
        ...

    async def unsubscribe(self, principal: str, session: str, uri: str, *, person: str) -> None:
        """Forget a subscription, if there is one.

        Raises:
            AuditUnavailable: It could not be written.

        """
        ...

    async def end(self, principal: str, session: str, *, person: str) -> None:
        """End a session: forget what it subscribed to, and keep that it has ended.

        Raises:
            AuditUnavailable: It could not be written.

        """
        ...

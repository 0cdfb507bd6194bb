"""What sessions at the endpoint in front of all servers leave behind, and who is told of news there."""

from collections.abc import Sequence
from typing import Protocol

from gateway.domain.calls import Permit
from gateway.domain.tools import UpstreamId


class SessionStore(Protocol):
    """Which sessions have ended, and what those that have not want to hear of; durable.

    A session is known by its principal's key and its id, unsealed. Reading is from memory and never
    waits.
    """

    def has_ended(self, principal: str, session: str) -> bool: ...

    def subscribed(self, principal: str, session: str) -> Sequence[str]:
        """Return the URIs that the session subscribed to, as its client calls them."""
        ...

    async def subscribe(self, principal: str, session: str, uri: str) -> None:
        """Keep a subscription.

        Raises:
            LimitExceeded: The session, or all of them, have too many.
            AuditUnavailable: It could not be written.

        """
        ...

    async def unsubscribe(self, principal: str, session: str, uri: str) -> None:
        """Forget a subscription, if there is one.

        Raises:
            AuditUnavailable: It could not be written.

        """
        ...

    async def end(self, principal: str, session: str) -> None:
        """End a session: forget what it subscribed to, and keep that it has ended.

        Raises:
            AuditUnavailable: It could not be written.

        """
        ...


class Listeners(Protocol):
    """Whoever wants to hear of resources: a session, or one stream of the stateless revision."""

    async def joined(self, permit: Permit, uri: str) -> None:
        """Note that the permit's holder has subscribed to its server's resource `uri`.

        Raises:
            LimitExceeded: It has too many subscriptions.
            AuditUnavailable: It could not be written.

        """
        ...

    async def left(self, permit: Permit, uri: str) -> None:
        """Note that it has unsubscribed.

        Raises:
            AuditUnavailable: It could not be written.

        """
        ...

    def updated(self, principal: str, holder: str, server: UpstreamId, uri: str) -> None:
        """Note that a resource, which the holder subscribed to, has changed; told soon."""
        ...

    def relisted(self, server: UpstreamId, principal: str) -> None:
        """Note that a server said that it lists other resources: to a session of a principal's.

        An empty `principal` is everybody.
        """
        ...


def holder_of(permit: Permit) -> str:
    """Return what a subscription is held by: a client's session, or the call that listens.

    Empty where nothing could ever be told.
    """
    return permit.session or str(permit.call.parent or "")

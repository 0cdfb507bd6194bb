"""Who is told of news at the endpoint in front of all servers."""

from typing import Protocol

from gateway.domain.calls import Permit
from gateway.domain.tools import UpstreamId


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

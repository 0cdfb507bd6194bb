"""Requests that their clients have cancelled, and of which nothing was sent by then."""

from typing import Final

from gateway.domain.bounded import Shared, digest_of
from gateway.domain.calls import Call, Permit
from gateway.domain.identity import Principal
from gateway.errors import UpstreamFailed
from gateway.wire.operations import CANCELLED

_OCTETS: Final = 1024**2


class Cancelled:
    """What is sent already, is for whoever has sent it to cancel.

    A cancellation is small, and may be read while the request that it names still is.
    """

    def __init__(self) -> None:
        self.latest = 0
        """When the latest one came: whatever came after that is none that was cancelled."""
        self._came: Shared[str, bytes, int] = Shared(octets=_OCTETS)

    def note(self, call: Call, principal: Principal, session: str | None) -> None:
        """Note what `call`, if it is a cancellation, says of a request of its session."""
        if call.message.method == CANCELLED and session is not None and call.arrived:
            self.latest = max(self.latest, call.arrived)
            key = _key(principal, session, call.message.params.get("requestId"))
            self._came.put(principal.person, key, call.arrived)

    def require_wanted(self, permit: Permit) -> None:
        """Return unless the request of `permit` was cancelled after it came: its id may be another's by now.

        Raises:
            UpstreamFailed: It was.

        """
        if permit.session is not None:
            key = _key(permit.principal, permit.session, permit.call.message.id)
            if (self._came.get(permit.principal.person, key) or 0) > permit.call.arrived:
                raise UpstreamFailed("the client cancelled the call")


def _key(principal: Principal, session: str, id_: object) -> bytes:
    """Return how a request is known; 1 and "1" are different ids (JSON-RPC 2.0 section 4)."""
    return digest_of(principal.key, session, id_ if isinstance(id_, str | int) else None)

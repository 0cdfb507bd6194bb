"""What planes ask, on record: also what could not be read."""

from collections.abc import Callable

from gateway.domain._value import value
from gateway.domain.audit import RecordKind
from gateway.domain.calls import Call, CallId
from gateway.domain.identity import Asserted
from gateway.domain.planes import Plane
from gateway.errors import GatewayError, Unauthenticated
from gateway.pipeline.plane_calls import unread
from gateway.pipeline.trail import Trail
from gateway.ports import AuditLog, Clock


@value
class Asking:
    """Who asks, and how they call their question."""

    plane: Plane
    source_ip: str
    request_id: str


def asked_by(plane: Plane) -> str:
    """Return whose turn is taken for what a plane asks, or shows."""
    return f"plane:{plane.name}"


def said_by(plane: Plane, issuer: object, subject: object) -> str:
    """Return whose turn, and place, is taken for whoever calls by a plane, as it says them."""
    return f"{asked_by(plane)}|{issuer}|{subject}"


def turn_of(plane: Plane, call: Call) -> str:
    """Return whose turn is taken for a call that `plane` shows, before anybody is asked who that is."""
    said = call.credential
    return said_by(plane, said.issuer, said.subject) if isinstance(said, Asserted) else ""


class PlaneRecords:
    def __init__(self, audit: AuditLog, *, clock: Clock, new_id: Callable[[], str]) -> None:
        self._audit = audit
        self._clock = clock
        self._new_id = new_id

    def new_call(self) -> CallId:
        return CallId(self._new_id())

    def unread(self, asking: Asking, id_: CallId) -> Trail:
        """Begin the record of a call that was not read yet."""
        return self.trail(asking, unread(id_, source_ip=asking.source_ip))

    def trail(self, asking: Asking, call: Call) -> Trail:
        """Begin the record of a call that a plane asks about."""
        return self._begun(call, asking.plane.name, asking.request_id)

    async def keep(self, trail: Trail, kind: RecordKind = RecordKind.OUTCOME) -> None:
        """Put what came of a call on record.

        Raises:
            AuditUnavailable: It is not.

        """
        await self._audit.append(trail.outcome(kind))

    async def refuse(self, trail: Trail, error: GatewayError) -> None:
        """Put a no on record.

        Raises:
            AuditUnavailable: It is not.

        """
        trail.error(error)
        is_auth = isinstance(error, Unauthenticated)
        await self.keep(trail, RecordKind.AUTH if is_auth else RecordKind.OUTCOME)
        error.recorded = True

    async def refuse_unread(
        self, error: GatewayError, *, source_ip: str, request_id: str, plane: Plane | None
    ) -> Trail:
        """Put on record that a question was refused unread; it says nothing of whose it is.

        Raises:
            AuditUnavailable: It is not.

        """
        name = "" if plane is None else plane.name
        trail = self._begun(unread(self.new_call(), source_ip=source_ip), name, request_id)
        await self.refuse(trail, error)
        return trail

    def _begun(self, call: Call, plane: str, request_id: str) -> Trail:
        return Trail(call, clock=self._clock, new_id=self._new_id).plane(plane, request_id)

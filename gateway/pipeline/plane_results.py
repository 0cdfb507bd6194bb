"""What came of a call that a plane was allowed, judged before it is given out: stages 10 to 12."""

from gateway.domain._value import value
from gateway.domain.audit import RecordKind
from gateway.domain.calls import Call, Permit
from gateway.domain.flow import NOWHERE
from gateway.domain.planes import REPLACE_RESULT, Plane
from gateway.errors import (
    AuditUnavailable,
    GatewayError,
    IdentityUnavailable,
    PolicyUnavailable,
    RateLimited,
    Refusal,
    UpstreamFailed,
)
from gateway.pipeline.admission import Admission
from gateway.pipeline.asides import heard
from gateway.pipeline.debts import Debts, Owed
from gateway.pipeline.labels import Labeller
from gateway.pipeline.plane_answers import cannot, replaces, unmet
from gateway.pipeline.release import Release
from gateway.pipeline.trail import Trail, outcome_kind
from gateway.ports import AuditLog
from gateway.wire.jsontext import WireLimits
from gateway.wire.server_message import ServerMessage

NO_ANSWER = (AuditUnavailable, PolicyUnavailable, IdentityUnavailable)
"""Nobody knows what the answer would be: what is owed stays owed."""


@value
class Pending:
    """A call that a plane was allowed, and that has no result yet."""

    permit: Permit
    trail: Trail
    owed: Owed | None
    """`None`: what comes of it raises no run, as the protocol's own messages."""
    going: Call | None = None
    """What is sent in its place where its plane sends what it is told; see `sent`."""

    @property
    def sent(self) -> Call:
        """What its plane is told to send: its id and what stands beside it may be of ours."""
        return self.permit.call if self.going is None else self.going


class PlaneResults:
    def __init__(
        self,
        *,
        admission: Admission,
        release: Release,
        labels: Labeller,
        debts: Debts,
        audit: AuditLog,
        limits: WireLimits,
    ) -> None:
        self._admission = admission
        self._release = release
        self._labels = labels
        self._debts = debts
        self._audit = audit
        self._limits = limits

    async def judged(self, plane: Plane, pending: Pending, body: bytes, status: int = 200) -> bytes:
        """Return what may be given out of `body`, with its outcome on record and its debt paid.

        Raises:
            GatewayError: Nothing may; that is on record, and paid, unless nobody could tell.

        """
        permit, trail = pending.permit, pending.trail
        is_complete = False
        try:
            heard_ = await heard(permit, body, self._limits)
            went = pending.sent.message
            message = await self._admission.asides.home(permit, went, heard_)
            _require_complete(message)
            is_complete = True
            given = await self._release.response(permit, message, trail)
            came = body if message is heard_ else message.data
            if given != came and not replaces(plane):
                raise unmet([REPLACE_RESULT])
            self._admission.require_going()
        except NO_ANSWER:
            raise
        except GatewayError as error:
            if not (is_complete and isinstance(error, Refusal)) and pending.owed is not None:
                # It could not be read to its end, or it was not the end.
                await self._labels.raise_to(permit, pending.owed.debt.source, NOWHERE)
            trail.answer(status, body)
            trail.error(error)
            await self._ended(pending)
            raise
        trail.answer(status, body)
        await self._ended(pending, outcome_kind(permit))
        return given

    async def failed(
        self, pending: Pending, why: str | RateLimited, status: int | None = None
    ) -> GatewayError:
        """Return why there is nothing to give out, with that on record and the debt paid.

        What came instead, if anything did, its caller is not shown. `why` is what was wrong with it,
        or the no itself.

        Raises:
            AuditUnavailable: It is not on record; what is owed stays owed.

        """
        error: GatewayError
        if isinstance(why, str):
            error = UpstreamFailed("the upstream server gave no answer", detail=why)
        else:
            error = why
        if status is not None:
            pending.trail.answer(status, None)
        pending.trail.error(error)
        await self._ended(pending)
        return error

    async def _ended(self, pending: Pending, kind: RecordKind = RecordKind.OUTCOME) -> None:
        await self._audit.append(pending.trail.outcome(kind))
        if pending.owed is not None:
            self._debts.pay(pending.owed)


def _require_complete(message: ServerMessage) -> None:
    """Return if nothing comes past the decision later.

    Raises:
        Denied: It asks its client for something, or is a task.

    """
    if (message.result or {}).get("resultType", "complete") != "complete":
        raise cannot("not_complete", "a plane gives out complete results only")

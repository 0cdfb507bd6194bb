"""Calls that a plane shows whole: they walk the one path, and the plane forwards.

`DecisionPoint` is asked about a call in AuthZEN's words. Here is the call itself, as its client sent it;
what is decided on is what the plane is told to send, and what it gives out is what it is told.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.audit import RecordKind
from gateway.domain.calls import Call, CallId, Message, OriginKind, Permit
from gateway.domain.identity import Asserted, Carried
from gateway.domain.labels import STRICTEST_DEFAULT, Label
from gateway.domain.nodes import most_nodes
from gateway.domain.planes import Plane, Reports
from gateway.domain.tools import Profile, UpstreamId
from gateway.domain.tracing import TraceContext
from gateway.errors import Fault, GatewayError, Unauthenticated
from gateway.pipeline.admission import Admission
from gateway.pipeline.debts import Debts
from gateway.pipeline.decision_point import Asking
from gateway.pipeline.labels import Labeller
from gateway.pipeline.plane_answers import cannot
from gateway.pipeline.plane_calls import METHODS, asserted_by, unread
from gateway.pipeline.plane_limits import PlaneLimits
from gateway.pipeline.plane_results import NO_ANSWER, Pending, PlaneResults
from gateway.pipeline.recording import recorded, while_it_changes
from gateway.pipeline.trail import Trail
from gateway.ports import AuditLog, Clock, Ledger
from gateway.turns import finished
from gateway.wire.authzen import Entity, Evaluation
from gateway.wire.extensions import asking_nothing

_NOTICES: Final = frozenset(
    {
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/roots/list_changed",
    }
)
_CLIENT_CLAIMS: Final = ("client_id", "azp")
"""Where a token says which client it is for (RFC 9068 section 2.2; OpenID Connect Core section 2)."""

logger = logging.getLogger(__name__)


@value
class Shown:
    """A call as a plane shows it: read, and nothing of it verified here."""

    endpoint: str
    """Which of a plane's services it came in at."""
    server: str
    """What the plane calls the server."""
    claims: Mapping[str, Any]
    """What the plane says of whoever calls."""
    message: Message
    revision: str
    profile: Profile
    headers: tuple[tuple[str, str], ...] = ()
    trace: TraceContext | None = None


@value
class Turned:
    """A no, and what the record knows it by."""

    error: GatewayError
    decision_id: str


class PlaneTraffic:
    def __init__(
        self,
        *,
        admission: Admission,
        possible: PlaneLimits,
        results: PlaneResults,
        labels: Labeller,
        debts: Debts,
        audit: AuditLog,
        ledger: Ledger,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        """Take an `admission` that knows principals by what registered planes say of them."""
        self._admission = admission
        self._possible = possible
        self._results = results
        self._labels = labels
        self._debts = debts
        self._audit = audit
        self._ledger = ledger
        self._clock = clock
        self._new_id = new_id

    async def refuse(
        self, error: GatewayError, *, source_ip: str, request_id: str, plane: Plane | None
    ) -> Turned:
        """Return the no to what could not be read, on record.

        Raises:
            AuditUnavailable: It is not on record.

        """
        trail = self._trail(unread(CallId(self._new_id()), source_ip=source_ip))
        trail.plane("" if plane is None else plane.name, request_id)
        await self._recorded(trail, error)
        return Turned(error=error, decision_id=trail.decision_id)

    async def admit(self, asking: Asking, shown: Shown) -> Pending | Turned:
        """Carry a call through stages 2 to 8, and return what is to be sent in its place, or a no.

        Raises:
            AuditUnavailable: The no is not on record.

        """
        id_ = CallId(self._new_id())
        trail = self._trail(unread(id_, source_ip=asking.source_ip))
        trail.plane(asking.plane.name, asking.request_id)
        try:
            call = _call(asking, shown, id_)
            trail = self._trail(call).plane(asking.plane.name, asking.request_id)
            return await while_it_changes(partial(self._admitted, asking.plane, call, trail), trail)
        except GatewayError as error:
            await self._recorded(trail, error)
            return Turned(error=error, decision_id=trail.decision_id)
        except Exception:
            logger.exception("a call of plane %s met a bug", asking.plane.name)
            fault = Fault("the gateway failed")
            await self._recorded(trail, fault)
            return Turned(error=fault, decision_id=trail.decision_id)

    async def give(
        self, plane: Plane, pending: Pending, body: bytes, status: int = 200
    ) -> bytes | Turned:
        """Carry what came back through stages 10 to 12, and return what is to be given out, or a no."""
        claimed = self._claimed(plane, pending)
        if claimed is None:
            return _late(pending)
        try:
            return await self._results.judged(plane, claimed, body, status)
        except GatewayError as error:
            return self._turned(claimed, error)
        except BaseException:
            self._unclaimed(claimed)
            raise

    async def took(self, pending: Pending, status: int) -> Turned | None:
        """Put on record that a server took what has no answer; return the no if that is not possible."""
        pending.trail.answer(status, None)
        try:
            await self._audit.append(pending.trail.outcome())
        except GatewayError as error:
            return self._turned(pending, error)
        return None

    async def fail(
        self, plane: Plane, pending: Pending, why: str, status: int | None = None
    ) -> Turned:
        """Return the no in place of an answer that did not come, or that is none."""
        claimed = self._claimed(plane, pending)
        if claimed is None:
            return _late(pending)
        try:
            return self._turned(claimed, await self._results.failed(claimed, why, status))
        except GatewayError as error:
            return self._turned(claimed, error)

    def _turned(self, pending: Pending, error: GatewayError) -> Turned:
        if isinstance(error, NO_ANSWER):
            # What it says is not known: it stays owed, and counts as its worst if nobody tells.
            self._unclaimed(pending)
        return Turned(error=error, decision_id=pending.trail.decision_id)

    def _claimed(self, plane: Plane, pending: Pending) -> Pending | None:
        if pending.permit.access is None:
            return pending
        owed = self._debts.claim(plane, pending.permit.decision.id)
        return None if owed is None else replace(pending, owed=owed)

    def _unclaimed(self, pending: Pending) -> None:
        if pending.owed is not None:
            self._debts.unclaim(pending.owed)

    async def _admitted(self, plane: Plane, call: Call, trail: Trail) -> Pending:
        """Carry a call through stages 2 to 8; the debt is durable before the yes is given."""
        self._debts.require_room()
        nodes = most_nodes(len(call.message.body))
        call = await finished(call.source_ip, nodes, self._admission.narrowed, call)
        if plane.gives_ours:
            # Nothing that a server asks would come by: it is not told that it could.
            call = replace(call, message=asking_nothing(call.message, call.profile))
        permit = await self._admission.permit(call, trail)
        await self._possible.require_possible(plane, permit)
        record = partial(recorded, self._ledger, self._admission, permit, trail)
        if permit.access is None:
            await record()
            trail.sent = True
        else:
            await self._debts.owe(plane, permit, trail, self._worst(permit), record)
        try:
            self._admission.require_unchanged(permit)
        except GatewayError:
            if (owed := self._debts.claim(plane, permit.decision.id)) is not None:
                await self._debts.pay(owed)
            raise
        if permit.access is None and plane.reports is Reports.NONE:
            trail.unknown("unreported", "the plane does not report what came of it")
            await self._audit.append(trail.outcome(RecordKind.OUTCOME))
        return Pending(permit=permit, trail=trail, owed=None)

    def _worst(self, permit: Permit) -> Label:
        """Return what the permitted call may bring at worst: nobody here has read what it does."""
        return self._labels.of_result(permit).join(STRICTEST_DEFAULT)

    async def _recorded(self, trail: Trail, error: GatewayError) -> None:
        trail.error(error)
        is_auth = isinstance(error, Unauthenticated)
        await self._audit.append(trail.outcome(RecordKind.AUTH if is_auth else RecordKind.OUTCOME))

    def _trail(self, call: Call) -> Trail:
        return Trail(call, clock=self._clock, new_id=self._new_id)


def _call(asking: Asking, shown: Shown, id_: CallId) -> Call:
    """Return the call that `shown` is.

    Raises:
        Denied: It is about nothing that this plane may carry.
        ProtocolError: What is said of its caller has another form.

    """
    plane, message = asking.plane, shown.message
    said = _said(plane, shown.claims)
    server = plane.servers.get(shown.server)
    if server is None:
        raise cannot("unknown_server", "this plane may not carry calls to such a server")
    if message.method not in METHODS and message.method not in _NOTICES:
        raise cannot("unknown_action", "calls of this method do not pass by a plane")
    return Call(
        id=id_,
        endpoint=shown.endpoint,
        server=UpstreamId(server),
        message=message,
        revision=shown.revision,
        profile=shown.profile,
        headers=shown.headers,
        credential=said,
        session=None,
        source_ip=asking.source_ip,
        trace=shown.trace,
        origin=OriginKind.PLANE,
    )


def _said(plane: Plane, claims: Mapping[str, Any]) -> Asserted:
    """Return who calls, by the claims that the plane has verified: subject and issuer, both named."""
    subject, issuer = claims.get("sub"), claims.get("iss")
    if not (isinstance(subject, str) and subject and isinstance(issuer, str) and issuer):
        raise cannot("unknown_subject", "the plane does not say who calls: `sub` and `iss`")
    named = [claims[name] for name in _CLIENT_CLAIMS if name in claims]
    client = next((one for one in named if isinstance(one, str)), "")
    said = asserted_by(
        plane,
        Evaluation(
            subject=Entity(type="identity", id=subject, properties=claims),
            action="",
            resource=Entity(type="", id="", properties={}),
            action_properties={},
            agent=client,
        ),
    )
    return replace(said, shown=_carried(claims))


def _carried(claims: Mapping[str, Any]) -> Carried:
    """Return what a token says of itself (RFC 9068 section 2.2, RFC 7800 section 3, RFC 8693 section 4.1)."""
    scope, grant, token = (claims.get(name) for name in ("scope", "gid", "jti"))
    return Carried(
        scopes=frozenset(scope.split()) if isinstance(scope, str) else frozenset(),
        grant_id=grant if isinstance(grant, str) else "",
        token_id=token if isinstance(token, str) else "",
        is_bound="cnf" in claims or "act" in claims,
    )


def _late(pending: Pending) -> Turned:
    return Turned(
        error=cannot("reported_before", "a result is given out once, and in time"),
        decision_id=pending.trail.decision_id,
    )

"""Calls that a plane shows whole: they walk the one path, and the plane forwards.

`DecisionPoint` is asked about a call in AuthZEN's words. Here is the call itself, as its client sent it;
what is decided on is what the plane is told to send, and what it gives out is what it is told.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.calls import Call, CallId, Message, OriginKind
from gateway.domain.identity import Asserted, Carried
from gateway.domain.planes import Plane, Reports
from gateway.domain.tools import Profile, UpstreamId
from gateway.domain.tracing import TraceContext
from gateway.errors import Fault, GatewayError, RateLimited, UpstreamFailed
from gateway.pipeline.debts import Debts
from gateway.pipeline.plane_answers import cannot
from gateway.pipeline.plane_calls import METHODS, asserted_by
from gateway.pipeline.plane_permits import PlanePermits
from gateway.pipeline.plane_records import Asking, PlaneRecords
from gateway.pipeline.plane_results import NO_ANSWER, Pending, PlaneResults
from gateway.pipeline.recording import while_it_changes
from gateway.pipeline.trail import Trail
from gateway.wire.authzen import Entity, Evaluation
from gateway.wire.extensions import asking_nothing
from gateway.wire.session import seal

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
    are_whole: bool = True
    """Whether these are all that the token says."""
    message: Message
    revision: str
    profile: Profile
    headers: tuple[tuple[str, str], ...] = ()
    session: str | None = None
    """The session id of its client, where the plane gives out those that are sealed."""
    trace: TraceContext | None = None


@value
class Turned:
    """A no, and what the record knows it by."""

    error: GatewayError
    decision_id: str

    def __post_init__(self) -> None:
        # What it was raised through holds the whole message, as long as the plane's stream lasts.
        self.error.__traceback__ = self.error.__cause__ = self.error.__context__ = None


class PlaneTraffic:
    def __init__(
        self,
        *,
        permits: PlanePermits,
        results: PlaneResults,
        debts: Debts,
        records: PlaneRecords,
        seal_key: bytes,
    ) -> None:
        self._permits = permits
        self._results = results
        self._debts = debts
        self._records = records
        self._seal_key = seal_key

    def sealed(self, pending: Pending, session: str) -> str | None:
        """Return what the caller is given in place of a server's `session` id; `None` for what is none."""
        permit = pending.permit
        try:
            return seal(self._seal_key, permit.call.server, permit.principal.key, session)
        except UpstreamFailed:
            return None

    async def refuse(
        self, error: GatewayError, *, source_ip: str, request_id: str, plane: Plane | None
    ) -> Turned:
        """Return the no to what could not be read, on record.

        Raises:
            AuditUnavailable: It is not on record.

        """
        trail = await self._records.refuse_unread(
            error, source_ip=source_ip, request_id=request_id, plane=plane
        )
        return Turned(error=error, decision_id=trail.decision_id)

    async def admit(self, asking: Asking, shown: Shown) -> Pending | Turned:
        """Carry a call through stages 2 to 8, and return what is to be sent in its place, or a no.

        Raises:
            AuditUnavailable: The no is not on record.

        """
        id_ = self._records.new_call()
        trail = self._records.unread(asking, id_)
        try:
            call = _call(asking, shown, id_)
            trail = self._records.trail(asking, call)
            admitted = partial(self._admitted, asking.plane, call, trail)
            return await while_it_changes(admitted, trail, self._permits.caught_up)
        except GatewayError as error:
            await self._records.refuse(trail, error)
            return Turned(error=error, decision_id=trail.decision_id)
        except Exception:
            logger.exception("a call of plane %s met a bug", asking.plane.name)
            fault = Fault("the gateway failed")
            await self._records.refuse(trail, fault)
            return Turned(error=fault, decision_id=trail.decision_id)

    async def give(
        self, plane: Plane, pending: Pending, body: bytes, status: int = 200
    ) -> bytes | Turned:
        """Carry what came back through stages 10 to 12, and return what is to be given out, or a no."""
        claimed = self._claimed(plane, pending)
        if claimed is None:
            return await self._late(plane, pending)
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
            await self._records.keep(pending.trail)
        except GatewayError as error:
            return self._turned(pending, error)
        return None

    async def fail(
        self, plane: Plane, pending: Pending, why: str | RateLimited, status: int | None = None
    ) -> Turned:
        """Return the no in place of an answer that did not come, is none, or is one too many at once."""
        claimed = self._claimed(plane, pending)
        if claimed is None:
            return await self._late(plane, pending)
        try:
            return self._turned(claimed, await self._results.failed(claimed, why, status))
        except GatewayError as error:
            return self._turned(claimed, error)

    async def withdraw(self, plane: Plane, pending: Pending, error: GatewayError) -> Turned:
        """Return `error`, in place of a yes that its plane was never given.

        That nothing was sent is on record, nothing is owed for it, and it has used up no quota. What
        counts as its worst by then, because its plane reports nothing or nobody did in time, does so
        for good, and is on record as that.
        """
        claimed = self._claimed(plane, pending)
        if claimed is None or plane.reports is Reports.NONE:
            return Turned(error=error, decision_id=pending.trail.decision_id)
        claimed.trail.sent = False
        claimed.trail.error(error)
        try:
            await self._records.keep(claimed.trail)
        except GatewayError as unrecorded:
            return self._turned(claimed, unrecorded)
        if claimed.owed is not None:
            self._debts.pay(claimed.owed)
        return Turned(error=error, decision_id=pending.trail.decision_id)

    def _turned(self, pending: Pending, error: GatewayError) -> Turned:
        if isinstance(error, NO_ANSWER):
            # What it says is not known: it stays owed, and counts as its worst if nobody tells.
            self._unclaimed(pending)
        return Turned(error=error, decision_id=pending.trail.decision_id)

    async def _late(self, plane: Plane, pending: Pending) -> Turned:
        """Return the no to a result that is told too late or too often, on record beside its call."""
        permit = pending.permit
        call = replace(
            permit.call, id=self._records.new_call(), parent=CallId(pending.trail.decision_id)
        )
        asking = Asking(plane=plane, source_ip=call.source_ip, request_id="")
        trail = self._records.trail(asking, call)
        trail.run(permit.run)
        trail.principal(permit.principal, ())
        error: GatewayError = cannot("reported_before", "a result is given out once, and in time")
        try:
            await self._records.refuse(trail, error)
        except GatewayError as unrecorded:
            error = unrecorded
        return Turned(error=error, decision_id=trail.decision_id)

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
        call = await self._permits.narrowed(plane, call)
        if plane.gives_ours:
            # Nothing that a server asks would come by: it is not told that it could.
            call = replace(call, message=asking_nothing(call.message, call.profile))
        permit = await self._permits.permitted(plane, call, trail)
        if permit.access is None:
            trail.sent = True
        if permit.access is None and plane.reports is Reports.NONE:
            trail.unknown("unreported", "the plane does not report what came of it")
            await self._records.keep(trail)
        going = (
            await self._permits.going(permit) if plane.gives_ours else self._permits.headed(permit)
        )
        return Pending(permit=permit, trail=trail, owed=None, going=going)


def _call(asking: Asking, shown: Shown, id_: CallId) -> Call:
    """Return the call that `shown` is.

    Raises:
        Denied: It is about nothing that this plane may carry.
        ProtocolError: What is said of its caller has another form.

    """
    plane, message = asking.plane, shown.message
    said = _said(plane, shown.claims, are_whole=shown.are_whole)
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
        credential=replace(said, server=server),
        session=shown.session,
        source_ip=asking.source_ip,
        trace=shown.trace,
        origin=OriginKind.PLANE,
    )


def _said(plane: Plane, claims: Mapping[str, Any], *, are_whole: bool) -> Asserted:
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
    return replace(said, shown=replace(_carried(claims), is_whole=are_whole))


def _carried(claims: Mapping[str, Any]) -> Carried:
    """Return what a token says of itself (RFC 9068 section 2.2, RFC 7800 section 3, RFC 8693 section 4.1)."""
    scope, grant, token = (claims.get(name) for name in ("scope", "gid", "jti"))
    audience = claims.get("aud")
    if isinstance(audience, list) and len(audience) == 1:
        (audience,) = audience
    return Carried(
        scopes=frozenset(scope.split()) if isinstance(scope, str) else frozenset(),
        audience=audience if isinstance(audience, str) else "",
        grant_id=grant if isinstance(grant, str) else "",
        token_id=token if isinstance(token, str) else "",
        is_bound="cnf" in claims,
        is_for_another="act" in claims,
    )

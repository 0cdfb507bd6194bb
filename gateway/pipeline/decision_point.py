"""Whoever asks from outside walks the one path: stages 2 to 8 for a question, 10 to 12 for a report.

Between them is somebody else's data plane, which forwards (AuthZEN Authorization API 1.0).
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from gateway.domain.approvals import ApprovalId
from gateway.domain.audit import RecordKind
from gateway.domain.calls import Call, Permit
from gateway.domain.flow import NOWHERE, RunHint, Source, source_name
from gateway.domain.identity import Asserted
from gateway.domain.labels import STRICTEST_DEFAULT, ServerRule
from gateway.domain.nodes import amount, weight
from gateway.domain.planes import Plane, Reports
from gateway.domain.tools import OWN, UpstreamId
from gateway.errors import (
    Denied,
    Fault,
    GatewayError,
    ProtocolError,
)
from gateway.pipeline.admission import Admission
from gateway.pipeline.debts import Debts, Owed
from gateway.pipeline.plane_answers import (
    as_answered,
    cannot,
    promising,
    refused,
    released,
    replacing,
)
from gateway.pipeline.plane_calls import (
    call_of,
    list_call_of,
    methods_of,
    profiled,
    require_told,
    unread,
)
from gateway.pipeline.plane_limits import PlaneLimits
from gateway.pipeline.plane_permits import PlanePermits
from gateway.pipeline.plane_records import Asking, PlaneRecords
from gateway.pipeline.plane_results import NO_ANSWER, Pending, PlaneResults
from gateway.pipeline.recording import while_it_changes
from gateway.pipeline.trail import Trail
from gateway.ports import PinStore, RunStore
from gateway.turns import QUICK_NODES, finished
from gateway.wire.authzen import Answer, Evaluation, Reported, Search
from gateway.wire.operations import Sender, find

logger = logging.getLogger(__name__)


class Requests(Protocol):
    """What a plane is told that submits its refusals, so that a person is asked."""

    async def told(
        self, asking: Asking, asked: Evaluation, call: Call, error: GatewayError, decision: str
    ) -> Mapping[str, Any]:
        """Return what a refusal says beside its reasons."""
        ...

    def approved(self, id_: ApprovalId, plane: Plane) -> Mapping[str, Any]:
        """Return by which yes a call goes out, if this plane asked for it."""
        ...


class DecisionPoint:
    def __init__(
        self,
        *,
        admission: Admission,
        permits: PlanePermits,
        possible: PlaneLimits,
        results: PlaneResults,
        pins: PinStore,
        runs: RunStore,
        servers: Mapping[UpstreamId, ServerRule],
        debts: Debts,
        records: PlaneRecords,
        requests: Requests,
    ) -> None:
        """Take an `admission` that knows principals by what registered planes say of them."""
        self._admission = admission
        self._permits = permits
        self._possible = possible
        self._results = results
        self._profiled = partial(profiled, pins)
        self._runs = runs
        self._servers = servers
        self._debts = debts
        self._records = records
        self._requests = requests

    async def refuse(
        self, error: GatewayError, *, source_ip: str, request_id: str, plane: Plane | None = None
    ) -> None:
        """Put on record that a question was refused unread; it says nothing of whose it is.

        Raises:
            AuditUnavailable: It is not on record.

        """
        await self._records.refuse_unread(
            error, source_ip=source_ip, request_id=request_id, plane=plane
        )

    async def answer(self, asking: Asking, asked: Evaluation) -> Answer:
        """Answer one question. A no is an answer.

        Raises:
            ProtocolError: It cannot be a question of this plane's.
            Fault: Nobody knows the answer, or it could not be recorded.

        """
        if asked.supported is not None:
            asking = replace(asking, plane=promising(asking.plane, asked.supported))
        id_ = self._records.new_call()
        call: Call | None = None
        trail: Trail | None = None
        try:
            call = call_of(asking.plane, asked, self._profiled, id_=id_, source_ip=asking.source_ip)
            trail = self._records.trail(asking, call)
            if asked.reported is not None:
                return await self._reported(asking, call, asked.reported, trail)
            decided = partial(self._asked, asking, asked, call, trail)
            return await while_it_changes(decided, trail, self._permits.caught_up)
        except GatewayError as error:
            call = call or unread(id_, source_ip=asking.source_ip)
            trail = trail or self._records.trail(asking, call)
            await self._records.refuse(trail, error)
            if isinstance(error, (ProtocolError, *NO_ANSWER)):
                raise
            more = await self._requests.told(asking, asked, call, error, trail.decision_id)
            return refused(error, trail.decision_id, more)
        except Exception as bug:
            logger.exception("a question of plane %s met a bug", asking.plane.name)
            fault = Fault("the gateway failed")
            trail = trail or self._records.unread(asking, id_)
            await self._records.refuse(trail, fault)
            raise fault from bug

    async def search(
        self, asking: Asking, search: Search, *, for_actions: bool
    ) -> tuple[Sequence[Mapping[str, str]], str, int]:
        """Return a page of what a principal may see of what is searched for, as a list shows it.

        Returns where the next page begins, empty after the last, and how much there is in all.
        Whatever is unknown is found nowhere, and that is no error.

        Raises:
            ProtocolError: It is no search of this plane's.
            Fault: Nobody knows what there is, or it could not be recorded.

        """
        id_ = self._records.new_call()
        trail = self._records.unread(asking, id_)
        try:
            call = list_call_of(
                asking.plane, search.asked, self._profiled, id_=id_, source_ip=asking.source_ip
            )
            trail = self._records.trail(asking, call)
            shown = await self._shown(call, trail)
            await self._records.keep(trail, RecordKind.LIST)
        except GatewayError as error:
            await self._records.refuse(trail, error)
            if isinstance(error, (ProtocolError, Fault)):
                raise
            return (), "", 0
        type_ = search.asked.resource.type
        if for_actions:
            named = search.asked.resource.id in shown
            return [{"name": one} for one in methods_of(type_) if named], "", int(named)
        rest = [name for name in shown if name > search.after]
        page = rest[: search.limit]
        after = page[-1] if len(rest) > len(page) else ""
        return [{"type": type_, "id": name} for name in page], after, len(shown)

    async def _shown(self, call: Call, trail: Trail) -> Sequence[str]:
        """Return the names that a list would show to whoever `call` is made for, in their order."""
        permit = await self._admission.permit(call, trail)
        row = find(Sender.CLIENT, call.message.method)
        if row is None or row.lists is None:
            return ()
        listed = await self._possible.listed(call, row.lists, permit.principal)
        trail.reasons("shown", f"{len(listed.names)} of {listed.known} are shown")
        return listed.names

    async def _asked(self, asking: Asking, asked: Evaluation, call: Call, trail: Trail) -> Answer:
        """Carry a question through stages 2 to 8; the debt is durable before the yes is given."""
        plane = asking.plane
        call = await self._permits.narrowed(plane, call)
        permit = await self._permits.permitted(
            plane, call, trail, partial(_require_told, plane, asked)
        )
        context: dict[str, Any] = {"decision_id": trail.decision_id}
        if permit.premises.yes is not None:
            context |= self._requests.approved(permit.premises.yes, plane)
        if permit.access is not None and plane.reports is Reports.RESULTS:
            context["report_within"] = round(plane.report_within_s)
        return Answer(decision=True, context=context)

    async def _reported(
        self, asking: Asking, call: Call, reported: Reported, trail: Trail
    ) -> Answer:
        """Carry a report through stages 10 to 12, and say whether it may be given out."""
        owed = self._debts.claim(asking.plane, reported.decision)
        if owed is None:
            raise await self._nothing_owed(asking, call, reported, trail)
        try:
            return await self._judged(asking.plane, owed, reported)
        except BaseException:
            # What it says is not known yet: it stays owed, and may be reported once more.
            self._debts.unclaim(owed)
            raise

    async def _judged(self, plane: Plane, owed: Owed, reported: Reported) -> Answer:
        permit, trail = owed.permit, owed.trail
        who, nodes = permit.principal.person, amount(reported.content, QUICK_NODES)
        body = await finished(who, nodes, as_answered, permit.call.message.id, reported)
        try:
            pending = Pending(permit=permit, trail=trail, owed=owed)
            given = await self._results.judged(plane, pending, body)
        except NO_ANSWER:
            raise
        except GatewayError as error:
            return refused(error, trail.decision_id)
        if given == body:
            return released(trail.decision_id)
        return await finished(who, weight(given), replacing, trail.decision_id, given)

    async def _nothing_owed(
        self, asking: Asking, call: Call, reported: Reported, trail: Trail
    ) -> Denied:
        """Return why a report is of no call that this plane was allowed and has not reported.

        If it never was, the plane has carried what it may not: its caller has read who knows what.
        """
        if self._debts.is_over(asking.plane, reported.decision):
            return cannot("reported_before", "a result is reported once, and in time")
        whose = call.credential
        if isinstance(whose, Asserted):  # wherever they may not call, they have read it
            whose = replace(whose, server=OWN)
        principal = await self._admission.gate.authenticate(whose, call.endpoint)
        trail.principal(principal, ())
        run = trail.run(await self._runs.of(principal, RunHint()))
        worst = self._servers[call.server].default.join(STRICTEST_DEFAULT)
        name = source_name(call.message.method)
        source = Source(server=call.server, tool=name, record=trail.intent_id, label=worst)
        run = await self._runs.raise_label(run.id, worst, source, heard=NOWHERE)
        trail.label(run.label)
        return cannot("plane_bypassed", "this plane was allowed no such call")


def _require_told(plane: Plane, asked: Evaluation, permit: Permit) -> None:
    if permit.access is not None:
        require_told(plane, asked, permit.access.pinned.manifest)

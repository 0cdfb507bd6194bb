"""Planes ask people by submitting a refusal (AuthZEN, Access Request and Approval Profile).

It is one more door to the questions that there are: who answers them, for what, and for how long is
as for every other, and nothing that a submission wishes for widens an answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.domain.access_requests import Binding
from gateway.domain.approvals import Approval, ApprovalId, ApprovalState
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.calls import Call
from gateway.domain.document import Digest, quoted_name
from gateway.domain.nodes import most_nodes
from gateway.domain.planes import Plane
from gateway.domain.tools import Kind
from gateway.errors import (
    AccessRequestRefused,
    Denied,
    GatewayError,
    NotFound,
    ProtocolError,
    RateLimited,
    Refusal,
)
from gateway.pipeline.admission import Admission
from gateway.pipeline.approvals import Approvals, Requestable
from gateway.pipeline.plane_calls import Profiled, call_of
from gateway.pipeline.plane_records import Asking, PlaneRecords, turn_of
from gateway.pipeline.reasked import next_step
from gateway.pipeline.submissions import Submissions
from gateway.pipeline.trail import Trail
from gateway.ports import ApprovalStore, AuditLog, Clock
from gateway.turns import finished
from gateway.wire.access_requests import Status, Submission, Task, approval_of
from gateway.wire.authzen import Evaluation

_STATUS: Final[Mapping[ApprovalState, Status]] = {
    ApprovalState.WAITING: Status.PENDING,
    ApprovalState.ALLOWED: Status.APPROVED,
    ApprovalState.USED: Status.APPROVED,
    ApprovalState.DENIED: Status.DENIED,
    ApprovalState.EXPIRED: Status.EXPIRED,
    ApprovalState.WITHDRAWN: Status.CANCELLED,
}


class AccessRequests:
    def __init__(
        self,
        *,
        admission: Admission,
        approvals: Approvals,
        submissions: Submissions,
        store: ApprovalStore,
        audit: AuditLog,
        profiled: Profiled,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        """Take the `admission` of what planes ask."""
        self._admission = admission
        self._approvals = approvals
        self._submissions = submissions
        self._store = store
        self._audit = audit
        self._records = PlaneRecords(audit, clock=clock, new_id=new_id)
        self._profiled = profiled
        self._clock = clock
        self._new_id = new_id

    async def told(
        self, asking: Asking, asked: Evaluation, call: Call, error: GatewayError, decision: str
    ) -> Mapping[str, Any]:
        """Return what a refusal says beside its reasons: how to submit it, and what to do with a yes."""
        plane = asking.plane
        more: Mapping[str, Any] = {}
        if isinstance(error, Requestable):
            more = self._submissions.requestable(plane, asked, error.request, decision)
        if asked.approval is None or not plane.access_requests:
            return more
        claimed = self._submissions.found(plane, asked.approval)
        if claimed is not None and claimed.request.principal != await self._principal(call):
            claimed = None
        return {**more, **next_step(claimed, error)}

    def approved(self, id_: ApprovalId, plane: Plane) -> Mapping[str, Any]:
        """Return by which yes a call goes out, and until when that counts, if this plane asked for it."""
        found = self._store.get(id_, now=self._clock())
        if found is None or found.request.plane != plane.name:
            return {}
        told = approval_of(self._task(found))
        return {"approval": {name: told[name] for name in ("id", "approved_until")}}

    async def submit(self, asking: Asking, submitted: Submission, key: str) -> Task:
        """Have a person asked about what was refused; that is on record on return.

        What was submitted before, under the same `key` or by the same refusal, is no other question.

        Raises:
            AccessRequestRefused: It is not what was refused, or there is nothing to ask any more.
            RateLimited: Too many questions wait, or were asked.
            Fault: It could not be recorded, or nobody knows.

        """
        trail = self._records.unread(asking, self._records.new_call())
        name = self._submissions.name(asking.plane, key)
        try:
            binding = self._submissions.known(asking.plane, submitted, name)
            if isinstance(binding, Approval):
                return self._task(binding)
            call = self._call(asking, submitted)
            trail = self._records.trail(asking, call)
            with self._submissions.alone(name):
                filed = await self._filed(call, submitted, binding, name, trail)
        except GatewayError as error:
            await self._records.refuse(trail, error)
            raise
        return self._task(filed)

    async def look(self, asking: Asking, handle: str) -> Task:
        """Return how far a request of this plane's is.

        Raises:
            AccessRequestRefused: There is none, or its answer has run out; that is on record.
            AuditUnavailable: It could not be recorded.

        """
        found = await self._own(asking, handle)
        if found.state is ApprovalState.EXPIRED and found.at is not None:
            raise await self._refused(asking, AccessRequestRefused.task_expired())
        return self._task(found)

    async def cancel(self, asking: Asking, handle: str) -> Task:
        """Have nobody answer a request of this plane's; that is on record before.

        Raises:
            AccessRequestRefused: There is none, or it waits no more; that is on record.
            AuditUnavailable: It could not be recorded.

        """
        found = await self._own(asking, handle)
        if found.state is not ApprovalState.WAITING:
            raise await self._refused(asking, AccessRequestRefused.invalid_task_state())
        await self._audit.append(self._withdrawal(asking, found))
        try:
            return self._task(await self._store.withdraw(found.request.id, now=self._clock()))
        except (NotFound, Denied) as late:
            raise await self._refused(asking, AccessRequestRefused.invalid_task_state()) from late

    async def _principal(self, call: Call) -> str:
        """Return the key of who asks, as far as that is known."""
        try:
            return (await self._admission.gate.authenticate(call.credential, call.endpoint)).key
        except GatewayError:
            return ""

    def _call(self, asking: Asking, submitted: Submission) -> Call:
        id_, ip = self._records.new_call(), asking.source_ip
        try:
            call = call_of(asking.plane, submitted.asked, self._profiled, id_=id_, source_ip=ip)
            return replace(call, asker=turn_of(asking.plane, call))
        except (Denied, ProtocolError) as error:
            raise AccessRequestRefused.not_requestable(error.public) from error

    async def _filed(
        self,
        call: Call,
        submitted: Submission,
        binding: Binding,
        name: Digest | None,
        trail: Trail,
    ) -> Approval:
        """File the question that was refused; it is on record that it was not allowed."""
        asked = await self._asked(call, trail)
        if str(asked.request.fingerprint) != binding.question:
            # Its run has read something since, the definition is another one, or policy is.
            raise AccessRequestRefused.invalid_denial_binding("it is refused otherwise by now")
        filed = await self._approvals.submit(
            asked, trail, denied=binding.decision, submission=name, submitted=submitted.body
        )
        await self._records.refuse(trail, asked)
        return filed

    async def _asked(self, call: Call, trail: Trail) -> Requestable:
        """Return the question that a call would put now: it is decided anew.

        Raises:
            AccessRequestRefused: It puts none.
            RateLimited: There were too many.
            Fault: Nobody knows.

        """
        nodes = most_nodes(len(call.message.body))
        try:
            call = await finished(call.asker, nodes, self._admission.narrowed, call)
            await self._admission.permit(call, trail)
        except Requestable as asked:
            return asked
        except RateLimited:
            raise
        except Refusal as error:
            raise AccessRequestRefused.not_requestable(error.public) from error
        trail.not_used()
        raise AccessRequestRefused.not_requestable("it is allowed by now; ask again")

    def _task(self, found: Approval) -> Task:
        request, status = found.request, _STATUS[found.state]
        is_theirs = request.self_approval and status is Status.PENDING
        return Task(
            id=self._submissions.handle(request),
            status=status,
            expires_at=request.expires_at,
            approved_at=found.at,
            ticket=self._approvals.page(request.id) if is_theirs else "",
        )

    async def _own(self, asking: Asking, handle: str) -> Approval:
        """Return the request of this plane's; whoever tries names is on record."""
        found = self._submissions.found(asking.plane, handle)
        if found is None:
            raise await self._refused(asking, AccessRequestRefused.unknown_task())
        return found

    async def _refused(self, asking: Asking, error: AccessRequestRefused) -> AccessRequestRefused:
        await self._records.refuse(self._records.unread(asking, self._records.new_call()), error)
        return error

    def _withdrawal(self, asking: Asking, found: Approval) -> AuditRecord:
        request = found.request
        name = request.target.name
        if request.target.kind is Kind.RESOURCE:
            name = quoted_name(name)  # as much what the call says as its arguments
        about = f"{request.target.server}/{request.target.kind}/{name} for {request.subject}"
        fields = {
            "method": "approvals.withdraw",
            "plane": asking.plane.name,
            "request_id": asking.request_id,
            "source_ip": asking.source_ip,
            "server": request.target.server,
            "target": name,
            "pin_digest": str(request.pin_digest),
            "run": request.run,
            "approval_id": request.id,
            "decision_id": request.decision_id,
            "verdict": "deny",
            "code": "withdrawn",
            "reasons": [{"code": "withdrawn", "message": about}],
        }
        return AuditRecord(
            kind=RecordKind.APPROVAL,
            time=self._clock(),
            id=self._new_id(),
            fields=fields,
            tool=name if request.target.kind is Kind.TOOL else "",
        )

"""Runs that trusted hosts begin and end: asked of the gateway, and answered by it."""

from gateway.domain.audit import RecordKind
from gateway.domain.calls import Call, Reply
from gateway.domain.flow import RunHint
from gateway.domain.identity import Principal
from gateway.errors import Denied
from gateway.pipeline.admission import Admission
from gateway.pipeline.trail import Trail
from gateway.ports import AuditLog, RunStore
from gateway.wire.own import begins, declared_task, named_handle, reply


class BegunRuns:
    def __init__(
        self, *, admission: Admission, runs: RunStore, audit: AuditLog, idle_s: float
    ) -> None:
        """Take after how many seconds without a call a run ends; hosts are told."""
        self._admission = admission
        self._runs = runs
        self._audit = audit
        self._idle_s = idle_s

    async def answer(self, call: Call, trail: Trail) -> Reply:
        """Begin or end a run for `call`, whose record is durable by then. Nothing is forwarded.

        Raises:
            Denied: Its client is not one that an administrator trusts to keep its runs apart.
            GatewayError: It is refused as any other call would be, or cannot be recorded.

        """
        principal = await self._admission.join_own(call, trail)
        if not principal.trusted_host:
            message = "only a client that an administrator marked as a trusted host may do this"
            raise Denied(
                "this client may not begin runs", reasons=[("not_a_trusted_host", message)]
            )
        if begins(call.message):
            return await self._begin(call, principal, trail)
        return await self._end(call, principal, trail)

    async def _begin(self, call: Call, principal: Principal, trail: Trail) -> Reply:
        task = declared_task(call.message)
        handle, run = await self._runs.begin(principal, task)
        trail.own(run, "begun", call.message.params.get("task"))
        await self._audit.append(trail.outcome(RecordKind.RUN))
        return reply(call, {"run": handle, "idle_s": round(self._idle_s)})

    async def _end(self, call: Call, principal: Principal, trail: Trail) -> Reply:
        hint = RunHint(handle=named_handle(call.message))
        run = await self._runs.of(principal, hint)
        is_live = run.part_of is not None
        trail.own(run, "ended" if is_live else "no_such_run", None)
        # Before it is done: what cannot be recorded does not happen.
        await self._audit.append(trail.outcome(RecordKind.RUN))
        ended = is_live and await self._runs.end(run.id) is not None
        return reply(call, {"ended": ended})

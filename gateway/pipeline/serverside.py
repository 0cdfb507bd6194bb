"""What a server asks of the client: judged like a call, in the other direction."""

from collections.abc import Callable, Mapping
from typing import Any

from gateway.domain.calls import Permit
from gateway.domain.flow import FlowReview
from gateway.domain.nodes import amount
from gateway.domain.tools import Kind, Target
from gateway.errors import GatewayError, PinPending
from gateway.flow.content import LONGEST_READ
from gateway.pins.verify import verify
from gateway.pipeline.decide import Subject, call_question, require_allow
from gateway.pipeline.duties import Duties
from gateway.pipeline.filter import Carrier, meet
from gateway.pipeline.labels import Labeller, decided_label, read_content
from gateway.pipeline.rules import Rules
from gateway.pipeline.trail import Trail
from gateway.ports import AuditLog, Clock, PinStore, PolicyEngine
from gateway.turns import QUICK_NODES, finished


class ServerRequests:
    """Sampling, elicitation, roots: on a stream, or inside an `input_required` result."""

    def __init__(
        self,
        *,
        policy: PolicyEngine,
        pins: PinStore,
        rules: Rules,
        labels: Labeller,
        duties: Duties,
        audit: AuditLog,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._policy = policy
        self._pins = pins
        self._rules = rules
        self._labels = labels
        self._duties = duties
        self._audit = audit
        self._clock = clock
        self._new_id = new_id

    async def judge(
        self, permit: Permit, method: str, params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return what the client may be asked by `method`, if it may; the record is durable by then.

        It is `params` with every duty met: of the call that it is asked in, of the decision about
        the question, and of the one about what it says.

        Raises:
            GatewayError: It may not, and that is recorded too.

        """
        trail = Trail(permit.call, clock=self._clock, new_id=self._new_id)
        trail.principal(permit.principal, self._rules.roles_of(permit.principal.groups))
        trail.run(permit.run)
        trail.asked_by_server(method, permit.decision.id)
        try:
            question = trail.asked(self.question(permit, method, params, trail))
            decision = trail.decision(await self._policy.evaluate(question))
            require_allow(decision, permit.principal)
            self._duties.count(permit, decision, method)
            base = question if permit.access is None else permit.access.asked
            told = {"request": {"method": method, "params": params}}
            second = await self._duties.asked(base, told, permit.run)
            trail.result_decision(second)
            await self._duties.require(permit, second, f"{method}|result", None)
            obligations = (
                *permit.decision.obligations,
                *decision.obligations,
                *second.obligations,
            )
            who, nodes = permit.principal.key, amount(params, QUICK_NODES)
            met = await finished(who, nodes, meet, obligations, params, Carrier.REQUEST)
            said = await read_content(who, params, LONGEST_READ, trail)
            content = said.join(decided_label(decision)).join(decided_label(second))
        except GatewayError as error:
            trail.error(error)
            await self._audit.append(trail.outcome())
            raise
        entry = await self._audit.append(trail.outcome())
        await self._labels.raise_for_server(permit, method, entry.leaf_index, content)
        return met

    def question(
        self, permit: Permit, method: str, params: Mapping[str, Any], trail: Trail | None = None
    ) -> Mapping[str, Any]:
        """Return the question about what the server says by itself, under its own approval.

        Raises:
            PinMismatch: Nobody has approved the server, or it is not what was approved.

        """
        call = permit.call
        target = Target(server=call.server, kind=Kind.SERVER_REQUEST, name=method)
        pin_of = Target(server=call.server, kind=Kind.SERVER, name=call.server)
        pin = self._rules.own.get((pin_of, call.profile)) or self._pins.find(pin_of, call.profile)
        if trail is not None:
            trail.target(target, pin, params)
        if pin is None:
            raise PinPending("nobody has approved this server itself yet")
        verify(pin_of, pin, identity=self._rules.identities[call.server])
        asked = call_question(
            call,
            permit.principal,
            Subject.of(target, self._rules.servers[call.server].tool(""), pin),
            run=permit.run.id,
            arguments=params,
            review=FlowReview(label=permit.run.label, sources=permit.run.sources),
            task=None,
            now=self._clock(),
        )
        return {**asked, "method": method}

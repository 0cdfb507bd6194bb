"""What a server asks of the client: judged like a call, in the other direction."""

from collections.abc import Callable, Mapping
from typing import Any

from gateway.domain.calls import Permit
from gateway.domain.decisions import Decision
from gateway.domain.flow import FlowReview
from gateway.domain.tools import Kind, Target
from gateway.errors import GatewayError, PinPending
from gateway.pins.verify import verify
from gateway.pipeline.decide import Subject, call_question, require_allow
from gateway.pipeline.labels import Labeller, read_content
from gateway.pipeline.rules import Rules
from gateway.pipeline.trail import Trail
from gateway.ports import AuditLog, Clock, PinStore, PolicyEngine


class ServerRequests:
    """Sampling, elicitation, roots: on a stream, or inside an `input_required` result."""

    def __init__(
        self,
        *,
        policy: PolicyEngine,
        pins: PinStore,
        rules: Rules,
        labels: Labeller,
        audit: AuditLog,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._policy = policy
        self._pins = pins
        self._rules = rules
        self._labels = labels
        self._audit = audit
        self._clock = clock
        self._new_id = new_id

    async def judge(self, permit: Permit, method: str, params: Mapping[str, Any]) -> None:
        """Return if the client may be asked `method`; the record is durable by then.

        Raises:
            GatewayError: It may not, and that is recorded too.

        """
        trail = Trail(permit.call, clock=self._clock, new_id=self._new_id)
        trail.principal(permit.principal, self._rules.roles_of(permit.principal.groups))
        trail.run(permit.run)
        trail.asked_by_server(method, permit.decision.id)
        try:
            decision = await self._decide(permit, method, params, trail)
            require_allow(decision, permit.principal)
            content = read_content(params, trail)
        except GatewayError as error:
            trail.error(error)
            await self._audit.append(trail.outcome())
            raise
        entry = await self._audit.append(trail.outcome())
        await self._labels.raise_for_server(permit, method, entry.leaf_index, content)

    async def _decide(
        self, permit: Permit, method: str, params: Mapping[str, Any], trail: Trail
    ) -> Decision:
        call = permit.call
        target = Target(server=call.server, kind=Kind.SERVER_REQUEST, name=method)
        pin_of = Target(server=call.server, kind=Kind.SERVER, name=call.server)
        pin = self._rules.own.get((pin_of, call.profile)) or self._pins.find(pin_of, call.profile)
        trail.target(target, pin, params)
        if pin is None:
            raise PinPending("nobody has approved this server itself yet")
        verify(pin_of, pin, identity=self._rules.identities[call.server])
        rule = self._rules.servers[call.server].tool("")
        asked = call_question(
            call,
            permit.principal,
            Subject.of(target, rule, pin),
            run=permit.run.id,
            arguments=params,
            review=FlowReview(label=permit.run.label, sources=permit.run.sources),
            task=None,
            now=self._clock(),
        )
        question = trail.asked({**asked, "method": method})
        return trail.decision(await self._policy.evaluate(question))

"""What policy is asked about a call: its subject, its flow, its task (stage 6)."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.calls import AccessRequest, Call
from gateway.domain.flow import FlowReview, Run, Task
from gateway.domain.identity import Principal
from gateway.domain.labels import Integrity
from gateway.domain.tools import Pin, PinStatus, Target
from gateway.flow.review import Knowledge, Use, review
from gateway.flow.task import narrowed
from gateway.pipeline.decide import Subject, call_question
from gateway.pipeline.memory import ProvenanceMemory
from gateway.pipeline.rules import Rules
from gateway.ports import Clock


class Questions:
    """Puts calls into the words in which every engine is asked."""

    def __init__(self, *, rules: Rules, memory: ProvenanceMemory, clock: Clock) -> None:
        self._rules = rules
        self._memory = memory
        self._clock = clock

    def subject(self, target: Target, pin: Pin, suppose: PinStatus | None = None) -> Subject:
        """Return what a question about `target` is about; see `Subject.of`."""
        rule = self._rules.servers[target.server].tool(target.name)
        return Subject.of(target, rule, pin, suppose=suppose)

    def review(self, call: Call, principal: Principal, run: Run, subject: Subject) -> FlowReview:
        """Return where the data of a call comes from, and where they go."""
        return review(
            run,
            Use(
                server=subject.target.server,
                tool=subject.target.name,
                rule=subject.rule,
                effect=subject.effect,
                arguments=call.message.params.get("arguments") or {},
            ),
            Knowledge(
                tenant=self._rules.tenant,
                task=narrowed(run.task, _task(call, principal)),
                provenance=self._memory.of(run),
            ),
        )

    def of(
        self, call: Call, principal: Principal, run: Run, subject: Subject, flow: FlowReview
    ) -> Mapping[str, Any]:
        """Return the question of phase `call`."""
        return call_question(
            call,
            principal,
            subject,
            run=run.id,
            arguments=call.message.params.get("arguments") or {},
            review=flow,
            task=narrowed(run.task, _task(call, principal)),
            now=self._clock(),
        )

    def note_sent(self, access: AccessRequest) -> None:
        """Take note of what a permitted call sends: what comes back with it was not minted there."""
        self._memory.of(access.run).sends(
            access.call.message.params.get("arguments") or {},
            access.effect,
            clean=access.run.label.integrity is Integrity.TRUSTED,
        )


def _task(call: Call, principal: Principal) -> Task | None:
    """Return the user's task, if a host declares it that an administrator trusts to."""
    return call.declared if principal.trusted_host else None

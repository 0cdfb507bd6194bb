"""What policy is asked about a call: its subject, its flow, its task (stage 6)."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.domain.calls import AccessRequest, Call
from gateway.domain.flow import FlowReview, Run, Task
from gateway.domain.identity import Principal
from gateway.domain.labels import Effect, Integrity
from gateway.domain.tools import Kind, Pin, PinStatus, Target
from gateway.flow.review import Knowledge, Use, review
from gateway.flow.task import narrowed
from gateway.flow.templates import filled_in, names_in
from gateway.pipeline.decide import Subject, call_question
from gateway.pipeline.memory import ProvenanceMemory
from gateway.pipeline.outgoing import beside
from gateway.pipeline.rules import Rules
from gateway.ports import Clock, PinStore
from gateway.wire.outgoing import said

_ASKS = frozenset({Kind.RESOURCE, Kind.PROMPT, Kind.TEMPLATE, Kind.COMPLETION})
"""Kinds of which a call asks for something and writes nothing."""


class Questions:
    """Puts calls into the words in which every engine is asked."""

    def __init__(
        self, *, rules: Rules, memory: ProvenanceMemory, pins: PinStore, clock: Clock
    ) -> None:
        self._rules = rules
        self._memory = memory
        self._pins = pins
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
                arguments=said(call.message),
                beside=beside(
                    call.message,
                    given=lambda name: self.is_given(call, name),
                    expanded=lambda uri: self._filled_in(call, uri),
                    declared=frozenset(_declared(subject.pin)),
                ),
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
            arguments=said(call.message),
            review=flow,
            task=narrowed(run.task, _task(call, principal)),
            now=self._clock(),
        )

    def is_given(self, call: Call, name: str) -> bool:
        """Tell whether the server of `call` gave out `name`, or a person approved it as its own."""
        if self._memory.given.has(call.server, name):
            return True
        pin = self._pins.find(
            Target(server=call.server, kind=Kind.RESOURCE, name=name), call.profile
        )
        return pin is not None and pin.approved is not None

    def _filled_in(self, call: Call, uri: str) -> tuple[str, ...] | None:
        """Return what was put into an approved template of the server's to get `uri`."""
        templates = (
            pin.target.name
            for pin in self._pins.all(call.server)
            if pin.target.kind is Kind.TEMPLATE
            and pin.profile is call.profile
            and pin.status is PinStatus.APPROVED
        )
        return next((v for t in templates if (v := filled_in(t, uri)) is not None), None)

    def note_sent(self, access: AccessRequest) -> None:
        """Take note of what a permitted call sends: what comes back with it was not minted there."""
        asks = access.target.kind in _ASKS
        self._memory.of(access.run).sends(
            said(access.call.message),
            Effect.READ if asks else access.effect,
            clean=access.run.label.integrity is Integrity.TRUSTED,
        )


def _declared(pin: Pin) -> Iterator[str]:
    """Yield the names of values that an approved prompt or template asks for."""
    if pin.approved is None:
        return
    if pin.target.kind is Kind.TEMPLATE:
        yield from names_in(pin.target.name)
    arguments = pin.approved.definition.content.get("arguments")
    for one in arguments if isinstance(arguments, list) else ():
        if isinstance(one, dict) and isinstance(name := one.get("name"), str):
            yield name


def _task(call: Call, principal: Principal) -> Task | None:
    """Return the user's task, if a host declares it that an administrator trusts to."""
    return call.declared if principal.trusted_host else None

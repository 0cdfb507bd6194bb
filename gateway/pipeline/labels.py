"""Stage 10: the run's label is raised, durably, before a byte of what raises it is given out."""

from gateway.domain.calls import Permit
from gateway.domain.decisions import Decision, Duty
from gateway.domain.flow import Run, Source
from gateway.domain.labels import BOTTOM, Confidentiality, Integrity, Label
from gateway.domain.tools import Kind
from gateway.flow.effects import result_label
from gateway.pipeline.admission import Rules
from gateway.ports import RunStore


class Labeller:
    def __init__(self, *, runs: RunStore, rules: Rules) -> None:
        self._runs = runs
        self._rules = rules

    async def raise_for_result(self, permit: Permit, record: int) -> Run:
        """Raise the run to what the permitted call's result carries, and return the run after.

        `record` is where the call's intent stands in the log. The protocol's own messages carry
        nothing of anybody's.
        """
        access = permit.access
        if access is None:
            return permit.run
        server = self._rules.servers[access.target.server]
        if access.target.kind is Kind.TOOL:
            label = result_label(server.tool(access.target.name), server)
        else:
            label = server.default
        label = label.join(_duty_label(permit.decision))
        source = Source(
            server=access.target.server, tool=access.target.name, record=record, label=label
        )
        return await self._runs.raise_label(permit.run.id, label, source)

    async def raise_for_decision(self, permit: Permit, decision: Decision) -> Run | None:
        """Raise the run to what a decision about the result asks for; `None` if it asks nothing."""
        label = _duty_label(decision)
        if label == BOTTOM:
            return None
        return await self._runs.raise_label(permit.run.id, label, None)

    async def raise_untrusted(self, permit: Permit, record: int) -> Run:
        """Raise the run to untrusted, for a result that is not what was approved."""
        label = Label(integrity=Integrity.UNTRUSTED, confidentiality=BOTTOM.confidentiality)
        tool = "" if permit.access is None else permit.access.target.name
        source = Source(server=permit.call.server, tool=tool, record=record, label=label)
        return await self._runs.raise_label(permit.run.id, label, source)

    async def raise_for_server(self, permit: Permit, what: str, record: int) -> Run:
        """Raise the run to what the server says by itself, in a request or a log message."""
        label = self._rules.servers[permit.call.server].default
        source = Source(server=permit.call.server, tool=what, record=record, label=label)
        return await self._runs.raise_label(permit.run.id, label, source)


def _duty_label(decision: Decision) -> Label:
    label = BOTTOM
    for obligation in decision.obligations:
        if obligation.duty is Duty.LABEL:
            detail = obligation.detail
            integrity = detail.get("integrity", BOTTOM.integrity.word)
            confidentiality = detail.get("confidentiality", BOTTOM.confidentiality.word)
            label = label.join(
                Label(
                    integrity=Integrity[integrity.upper()],
                    confidentiality=Confidentiality[confidentiality.upper()],
                )
            )
    return label

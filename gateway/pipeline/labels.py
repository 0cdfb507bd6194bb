"""Stage 10: the run's label is raised, durably, before a byte of what raises it is given out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.domain.calls import Permit
from gateway.domain.decisions import Decision, Duty
from gateway.domain.document import quoted_name
from gateway.domain.flow import NOWHERE, Run, RunHint, RunId, Source, source_name
from gateway.domain.labels import BOTTOM, Confidentiality, Integrity, Label
from gateway.domain.tools import OWN, Kind
from gateway.errors import AuditUnavailable, Fault
from gateway.flow.content import SAID, content_label
from gateway.pipeline.rules import Rules
from gateway.pipeline.trail import Trail
from gateway.ports import RunStore
from gateway.turns import finished
from gateway.wire.outgoing import continues


class Labeller:
    def __init__(self, *, runs: RunStore, rules: Rules) -> None:
        self._runs = runs
        self._rules = rules

    def of_result(self, permit: Permit) -> Label:
        """Return what the permitted call's result carries, before anybody has read it.

        The protocol's own messages carry nothing of anybody's.
        """
        access = permit.access
        if access is None:
            return BOTTOM
        server = self._rules.servers[access.target.server]
        if access.target.kind is Kind.TOOL:
            label = server.result_of(access.target.name)
        else:
            label = server.default
        if permit.decision.obligations:
            label = label.join(decided_label(permit.decision))
        return label

    async def now(self, permit: Permit) -> Run:
        """Return the run that calls of the permit's caller are in now: what it has read by now counts.

        A stream may stay open for long after its call was decided on. It is at least as strict as then.

        Raises:
            AuditUnavailable: Its run has ended, and the beginning of another one cannot be written.

        """
        run = await self._runs.of(permit.principal, RunHint(handle=permit.call.run_hint))
        return _as_strict(run, permit)

    async def raise_for_result(self, permit: Permit, record: str) -> Run:
        """Raise the run to what the permitted call's result carries, and return the run after.

        `record` is the id of its intent's record.
        """
        if permit.access is None:
            return permit.run
        return await self.raise_to(permit, source_of(permit, self.of_result(permit), record))

    async def raise_to(self, permit: Permit, source: Source, heard: Run | None = None) -> Run:
        """Raise the run to the label of `source`: what the call's answer turned out to carry.

        It is remembered in the run that has `heard` it, and else in the one that is returned.
        """
        label = source.label
        if permit.call.server == OWN and (began := self._ended(permit)) is not None:
            # What a program has read its calls have raised its own run to, which remembered it: the one
            # there is now has seen nothing of it.
            label, heard = label.join(began.label), NOWHERE
            source = replace(source, label=label)
        return await self._raised(permit, label, source, heard)

    def _ended(self, permit: Permit) -> Run | None:
        """Return the permit's run if it has ended meanwhile."""
        state = self._runs.find(permit.run.id)
        return None if state is None or state.live else state.run

    async def raise_for_decision(
        self, permit: Permit, decision: Decision, record: str | None
    ) -> Run | None:
        """Raise the run to what a decision about the result asks for; `None` if it asks nothing.

        The call is its source: a run is known to have read what policy says that it read.
        """
        label = decided_label(decision)
        if label == BOTTOM:
            return None
        source = None if record is None else source_of(permit, label, record)
        return await self._raised(permit, label, source)

    async def raise_for_server(
        self, permit: Permit, what: str, record: str, content: Label = BOTTOM
    ) -> tuple[Run, Source]:
        """Raise the run to what the server says by itself, in a request or a log message.

        `content` is what its text raises besides. Return the run, and as what source it knows it.
        """
        label = self._rules.servers[permit.call.server].default.join(content)
        name = source_name(what)
        source = Source(server=permit.call.server, tool=name, record=record, label=label)
        return await self._raised(permit, label, source), source

    async def _raised(
        self, permit: Permit, label: Label, source: Source | None, heard: Run | None = None
    ) -> Run:
        """Raise the permit's run; it stays at least as strict as the call was decided in it."""
        program = permit.principal.script
        run = await self._runs.raise_label(permit.run.id, label, source, program, heard=heard)
        if permit.late is not None and not permit.is_of_its_run:
            await self._raise_beginning(permit.late.run, label, source, heard or run)
        return _as_strict(run, permit)

    async def _raise_beginning(
        self, run: RunId, label: Label, source: Source | None, heard: Run
    ) -> None:
        """Raise the run in which a late call began, unless it is so long over that it is forgotten."""
        try:
            await self._runs.raise_label(run, label, source, heard=heard)
        except AuditUnavailable:
            raise
        except Fault:
            return  # nobody can call in it any more, and its principal's whole run is raised anyhow


def _as_strict(run: Run, permit: Permit) -> Run:
    joined = run.label.join(permit.run.label)
    return run if joined is run.label else replace(run, label=joined)


def is_clean(permit: Permit) -> bool:
    """Whether nobody outside can have led the permitted call: its run had read nothing untrusted by then.

    Of one that goes on where its server, or we, had interrupted it, it is not told in which run it
    began; unless a person has allowed it, for a yes holds in its own run.
    """
    if permit.late is not None:
        return permit.late.clean and not permit.late.progress.led
    goes_on = continues(permit.call.message) or (
        permit.call.answered is not None and permit.premises.yes is None
    )
    return permit.run.is_trusted and not goes_on


def source_of(permit: Permit, label: Label, record: str) -> Source:
    """Name the permitted call as where data labelled `label` comes from."""
    if permit.access is None:
        server, name = permit.call.server, permit.call.message.method
    else:
        target = permit.access.target
        server, name = target.server, target.name
        # Without a scheme it is no URI, and is not to pass for a tool's name.
        if target.kind is Kind.RESOURCE and ":" not in name:
            name = quoted_name(name)
    return Source(server=server, tool=source_name(name), record=record, label=label)


async def read_content(who: str, nodes: int, content: Mapping[str, Any], trail: Trail) -> Label:
    """Return what the text of `content` raises by itself, and note why; never what it says.

    It is as much work as `nodes`, `who` the person whose turn is taken for it.
    """
    label, codes = await finished(who, nodes, content_label, content)
    for code in codes:
        trail.reasons(code, SAID[code])
    return label


def decided_label(decision: Decision) -> Label:
    """Return what the obligations of `decision` raise."""
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

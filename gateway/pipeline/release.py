"""Stages 10 and 11 on one message: what an upstream said becomes what the caller may see."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.calls import AccessRequest, Call, Form, Permit
from gateway.domain.decisions import Decision, Duty, Obligation
from gateway.domain.flow import FlowReview, Run
from gateway.domain.labels import BOTTOM, Integrity, Label
from gateway.domain.tools import OWN, Kind, Target
from gateway.errors import UpstreamFailed
from gateway.flow.provenance import Answered
from gateway.pins.ui import is_ui
from gateway.pipeline.decide import require_allow, result_question
from gateway.pipeline.filter import meet
from gateway.pipeline.labels import Labeller, decided_label, read_content, source_of
from gateway.pipeline.lists import ListFilter
from gateway.pipeline.memory import ProvenanceMemory
from gateway.pipeline.prompts import Prompts
from gateway.pipeline.rules import Rules
from gateway.pipeline.schemas import Schemas
from gateway.pipeline.serverside import ServerRequests
from gateway.pipeline.trail import Trail
from gateway.ports import PinStore, PolicyEngine
from gateway.wire.extensions import approved_only
from gateway.wire.operations import Operation, Sender, find
from gateway.wire.server_message import ServerMessage, with_items, with_member

_GREETINGS = frozenset({"initialize", "server/discover"})
"""Methods whose result says what the server itself is."""
_MOST_ITEMS = 10_000
"""Of one page of a list: as many as one server can have pins of a kind."""
_UNVOUCHED = Label(integrity=Integrity.UNTRUSTED, confidentiality=BOTTOM.confidentiality)
_REWRITES = frozenset({Duty.REDACT, Duty.TRUNCATE, Duty.DROP_STRUCTURED})


def require_answer(permit: Permit, message: ServerMessage) -> None:
    """Return if `message` answers the permit's own request.

    Raises:
        UpstreamFailed: It answers another one, or nothing. 1 and "1" are different ids (JSON-RPC
            2.0 section 4).

    """
    asked = permit.call.message.id
    if (
        message.form is not Form.RESPONSE
        or message.id != asked
        or type(message.id) is not type(asked)
    ):
        raise UpstreamFailed(
            "the upstream server answered another request", detail=f"id {message.id!r}"
        )


class Release:
    def __init__(
        self,
        *,
        policy: PolicyEngine,
        pins: PinStore,
        rules: Rules,
        lists: ListFilter,
        labels: Labeller,
        memory: ProvenanceMemory,
        requests: ServerRequests,
        schemas: Schemas,
        prompts: Prompts,
    ) -> None:
        self._policy = policy
        self._pins = pins
        self._rules = rules
        self._lists = lists
        self._labels = labels
        self._memory = memory
        self._requests = requests
        self._schemas = schemas
        self._prompts = prompts

    async def response(
        self, permit: Permit, message: ServerMessage, data: bytes, trail: Trail
    ) -> bytes:
        """Return the response that the caller may see: `data` itself, where nothing changes it.

        `data` is what `message` was read from. What it says has raised the run by then.

        Raises:
            UpstreamFailed: It answers another request than the permit's.
            GatewayError: Policy refuses the result, or cannot say.

        """
        require_answer(permit, message)
        if permit.call.server == OWN and permit.access is None:
            return data  # made of what policy lets the principal see, and of nothing else
        if message.error is not None:
            return await self.error(permit, message, data, trail)
        result = message.result or {}
        if permit.access is not None:
            return await self._content(
                permit, permit.access, message=message, data=data, trail=trail
            )
        operation = find(Sender.CLIENT, permit.call.message.method)
        if operation is not None and operation.lists is not None:
            return await self._list(permit, operation, message, trail)
        if permit.call.message.method in _GREETINGS:
            if permit.call.server in self._rules.per_person:
                await self._lists.meet(permit, result)
            return self._greeting(permit, message, data)
        await self._raise_for(permit, result, trail)
        return data

    async def error(
        self, permit: Permit, message: ServerMessage, data: bytes, trail: Trail
    ) -> bytes:
        """Return an error with the call's obligations met: its text is as much the upstream's."""
        error = message.error or {}
        label = self._labels.of_result(permit).join(read_content(error, trail))
        run = await self._raised(permit, label, trail)
        if permit.access is not None:
            decision = await self._judged(permit, permit.access, run, {"error": error}, trail)
            label = label.join(decided_label(decision))
            # What it repeats of a record is found again, but nothing in it was promised an id.
            said = {"structuredContent": error}
            self._remember(permit, run, said, label=label, failed=True, size=len(data), trail=trail)
            return _rewritten(
                (*permit.decision.obligations, *decision.obligations), message, "error", data
            )
        return data

    async def notification(
        self, permit: Permit, message: ServerMessage, data: bytes, trail: Trail
    ) -> bytes:
        """Return a notification with the call's obligations met on what it carries.

        What it says by itself has raised the run by then.
        """
        await self._raise_for(permit, message.params, trail)
        return _rewritten(permit.decision.obligations, message, "params", data)

    async def _content(
        self,
        permit: Permit,
        access: AccessRequest,
        *,
        message: ServerMessage,
        data: bytes,
        trail: Trail,
    ) -> bytes:
        """Judge a result (policy's phase `result`), remember it, and meet what was asked of it."""
        result = message.result or {}
        match result.get("resultType", "complete"):
            case "complete" if _reads_interface(permit, access):
                await self._lists.require_interface(permit, access.target.name, result)
            case "complete":
                pass
            case "input_required":
                await self._judge_inputs(permit, result)
            case other:
                # A task's result would come later and elsewhere, past what was decided here; of
                # any other type nobody knows what it means (MCP 2026-07-28, result types).
                raise UpstreamFailed(
                    "the upstream server's answer is of an unknown type", detail=str(other)[:100]
                )
        label = await self._label(permit, access, result=result, size=len(data), trail=trail)
        run = await self._raised(permit, label, trail)
        decision = await self._judged(permit, access, run, result, trail)
        label = label.join(decided_label(decision))
        failed = result.get("isError") is True
        self._remember(permit, run, result, label=label, failed=failed, size=len(data), trail=trail)
        return _rewritten(
            (*permit.decision.obligations, *decision.obligations), message, "result", data
        )

    async def _judged(
        self,
        permit: Permit,
        access: AccessRequest,
        run: Run,
        result: Mapping[str, Any],
        trail: Trail,
    ) -> Decision:
        """Return what policy says of a result; what it adds to the label is in the run by then.

        Raises:
            GatewayError: Policy refuses the result, or cannot say.

        """
        flow = FlowReview(label=run.label, sources=run.sources)
        decision = await self._policy.evaluate(result_question(access.asked, flow, result))
        trail.result_decision(decision)
        require_allow(decision, permit.principal)
        await self._raise(permit, decision, trail)
        return decision

    async def _label(
        self,
        permit: Permit,
        access: AccessRequest,
        *,
        result: Mapping[str, Any],
        size: int,
        trail: Trail,
    ) -> Label:
        """Return what this one result carries: what is configured, and what it turned out to be.

        For one that is not what the approved definition says nobody vouches, whatever the
        configuration says of the tool.
        """
        label = self._labels.of_result(permit).join(read_content(result, trail))
        problems: tuple[str, ...] = ()
        if access.target.kind is Kind.TOOL:
            problems = self._schemas.result_problems(access.pinned, result, size)
        elif access.target.kind is Kind.PROMPT:
            problems = await self._prompts.problems(access, result)
        for problem in problems:
            trail.reasons("invalid_result", problem)
        return label.join(_UNVOUCHED) if problems else label

    async def _raise_for(self, permit: Permit, content: Mapping[str, Any], trail: Trail) -> None:
        """Raise the run to what the text of `content` carries by itself."""
        label = read_content(content, trail)
        if label != BOTTOM:
            await self._raised(permit, label, trail)

    async def _raised(self, permit: Permit, label: Label, trail: Trail) -> Run:
        """Return the run, durably raised to `label`."""
        if label == BOTTOM and permit.access is None:
            return permit.run
        run = await self._labels.raise_to(permit, label, trail.intent_index)
        trail.label(run.label)
        return run

    def _remember(
        self,
        permit: Permit,
        run: Run,
        content: Mapping[str, Any],
        *,
        label: Label,
        failed: bool,
        size: int,
        trail: Trail,
    ) -> None:
        """Keep what was answered as a source of later calls' values, labelled as it is by itself.

        What else its run has seen takes nothing from what it proves.
        """
        access = permit.access
        if permit.call.server == OWN:
            # Made of what a program's calls answered, each of which is remembered by itself: what
            # the program made of it proves nothing about where it may go.
            return
        before = permit.run.label
        self._memory.of(run).remember(
            Answered(
                source=source_of(permit, label, trail.intent_index),
                effect=None if access is None else access.effect,
                arguments=_asked(permit),
                content=content,
                octets=size,
                typed=() if failed else self._typed(access),
                clean=before.integrity is Integrity.TRUSTED,
                failed=failed,
            )
        )

    def _typed(self, access: AccessRequest | None) -> tuple[str, ...]:
        """Return where identifiers are, as the configuration and the approved definition say."""
        if access is None or access.target.kind is not Kind.TOOL:
            return ()
        rule = self._rules.servers[access.target.server].tool(access.target.name)
        return (*rule.typed, *self._schemas.typed(access.pinned))

    async def _raise(self, permit: Permit, decision: Decision, trail: Trail) -> None:
        raised = await self._labels.raise_for_decision(permit, decision)
        if raised is not None:
            trail.label(raised.label)

    async def _judge_inputs(self, permit: Permit, result: Mapping[str, Any]) -> None:
        """Judge each question of a multi-round-trip result (MCP 2026-07-28, input required)."""
        asked = result.get("inputRequests")
        for request in asked.values() if isinstance(asked, dict) else ():
            if not isinstance(request, dict) or not isinstance(request.get("method"), str):
                raise UpstreamFailed("the upstream server asks for input in no known form")
            params = request.get("params")
            await self._requests.judge(
                permit, request["method"], params if isinstance(params, dict) else {}
            )

    async def _list(
        self, permit: Permit, operation: Operation, message: ServerMessage, trail: Trail
    ) -> bytes:
        member, kind = operation.member, operation.lists
        items = (message.result or {}).get(member or "")
        if member is None or kind is None or not isinstance(items, list):
            raise UpstreamFailed("the upstream server's list is no list")
        if len(items) > _MOST_ITEMS:
            raise UpstreamFailed("the upstream server's list is too long", detail=str(len(items)))
        _require_progress(permit.call.message.params, message.result or {})
        shown = await self._lists.show(permit, kind, items)
        trail.reasons("shown", f"{len(shown.items)} of {shown.offered} are shown")
        if kind is Kind.RESOURCE:
            # Definitions are shown as a person approved them; of resources nobody has seen any.
            await self._raise_for(permit, message.result or {}, trail)
        return with_items(message, member, shown.items)

    def _greeting(self, permit: Permit, message: ServerMessage, data: bytes) -> bytes:
        """Serve a handshake or a discovery with what is approved of instructions and extensions."""
        call = permit.call
        served = dict(message.result or {})
        if "capabilities" in served:
            extensions = self._rules.extensions.get(call.server, frozenset())
            served["capabilities"] = approved_only(served["capabilities"], extensions)
        if "instructions" in served:
            approved = self._instructions(call)
            if approved is None:
                del served["instructions"]
            else:
                served["instructions"] = approved
        return data if served == message.result else with_member(message, "result", served)

    def _instructions(self, call: Call) -> Any:
        target = Target(server=call.server, kind=Kind.SERVER, name=call.server)
        pin = self._pins.find(target, call.profile)
        if pin is None or pin.approved is None or not self._lists.is_served(pin):
            return None
        return pin.approved.definition.content.get("instructions")


def _asked(permit: Permit) -> Mapping[str, Any]:
    """Return all that the call said: of what is no tool, its name is the caller's choice, too."""
    params = permit.call.message.params
    if permit.access is not None and permit.access.target.kind is Kind.TOOL:
        return params.get("arguments") or {}
    return {name: member for name, member in params.items() if name != "_meta"}


def _reads_interface(permit: Permit, access: AccessRequest) -> bool:
    return permit.call.message.method == "resources/read" and is_ui(access.target.name)


def _require_progress(params: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Return if a list's next page is another one.

    Raises:
        UpstreamFailed: It would be this page again, and so on for ever.

    """
    cursor = result.get("nextCursor")
    if cursor is not None and (not isinstance(cursor, str) or cursor == params.get("cursor")):
        raise UpstreamFailed("the upstream server's list does not end", detail=str(cursor)[:100])


def _rewritten(
    obligations: tuple[Obligation, ...], message: ServerMessage, member: str, data: bytes
) -> bytes:
    content = message.content.get(member)
    if content is None or not any(obligation.duty in _REWRITES for obligation in obligations):
        return data
    return with_member(message, member, meet(obligations, content))

"""What a server asks of the client: judged like a call, in the other direction."""

from collections.abc import Callable, Mapping, Sized
from functools import partial
from typing import Any, Final

from gateway.domain.calls import Permit
from gateway.domain.flow import FlowReview, Run
from gateway.domain.nodes import amount, most_nodes
from gateway.domain.question import NOTHING_FOUND
from gateway.domain.quotas import UNCOUNTED
from gateway.domain.tools import OWN, Kind, Target
from gateway.errors import GatewayError, PinPending, UpstreamFailed
from gateway.flow.content import LONGEST_READ
from gateway.pins.verify import verify
from gateway.pipeline.decide import Subject, call_question, require_allow
from gateway.pipeline.duties import Duties
from gateway.pipeline.filter import Carrier, meet
from gateway.pipeline.labels import Labeller, decided_label, read_content
from gateway.pipeline.memory import ProvenanceMemory
from gateway.pipeline.rules import Rules
from gateway.pipeline.sensitive import MASKING
from gateway.pipeline.trail import Trail, shown_digest
from gateway.ports import AuditLog, Clock, PinStore, PolicyEngine
from gateway.turns import QUICK_NODES, finished
from gateway.wire.in_our_name import asks_in_our_name
from gateway.wire.operations import ELICIT
from gateway.wire.rounds import REQUESTS

LINKS: Final = "elicitations"
"""The member of an error's data that holds where the user is sent to."""
_MOST_INPUTS: Final = 100
"""Questions of one result, or links of one error: each is judged and put on record, and a person answers them together."""


class ServerRequests:
    """Sampling, elicitation, roots: on a stream, or inside an `input_required` result."""

    def __init__(
        self,
        *,
        policy: PolicyEngine,
        pins: PinStore,
        rules: Rules,
        labels: Labeller,
        memory: ProvenanceMemory,
        duties: Duties,
        audit: AuditLog,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._policy = policy
        self._pins = pins
        self._rules = rules
        self._labels = labels
        self._memory = memory
        self._duties = duties
        self._audit = audit
        self._clock = clock
        self._new_id = new_id

    async def judge(
        self,
        permit: Permit,
        method: str,
        params: Mapping[str, Any],
        *,
        asked_in: Trail | None = None,
    ) -> Mapping[str, Any]:
        """Return what the client may be asked by `method`, if it may; the record is durable by then.

        The call that it is `asked_in`, on its stream, carries it as well.

        It is `params` with every duty met: of the call that it is asked in, of the decision about
        the question, and of the one about what it says.

        Raises:
            GatewayError: It may not, and that is recorded too.

        """
        trail = Trail(permit.call, clock=self._clock, new_id=self._new_id)
        trail.principal(permit.principal, self._rules.roles_of(permit.principal.groups))
        trail.asked_by_server(method, permit.decision.id)
        shown = await self._duties.recorded(permit.principal.person, params)
        noted = partial(trail.target, arguments=shown)
        try:
            run = trail.run(await self._labels.now(permit))
            question = trail.asked(self.question(permit, method, params, run, noted))
            decision = trail.decision(await self._policy.evaluate(question))
            require_allow(decision, permit.principal)
            await self._duties.count(permit, decision, method)
            base = question if permit.access is None else permit.access.asked
            told = {"request": {"method": method, "params": params}}
            second = await self._duties.asked(permit, base, told, run, size=LONGEST_READ)
            trail.result_decision(second)
            await self._duties.require(permit, second, f"{method}|result", None)
            obligations = (
                *permit.decision.obligations,
                *decision.obligations,
                *second.obligations,
            )
            who, nodes = permit.principal.person, amount(params, QUICK_NODES)
            masker = self._duties.masker(permit, obligations)
            if masker is not None:
                nodes = max(nodes, MASKING)
            met = await finished(who, nodes, meet, obligations, params, Carrier.REQUEST, masker)
            said = await read_content(who, most_nodes(LONGEST_READ), params, trail)
            owed = decided_label(second).join(decided_label(decision))
            owed = owed.join(self._labels.of_result(permit))
        except GatewayError as error:
            trail.error(error)
            await self._audit.append(trail.outcome())
            raise
        entry = await self._audit.append(trail.outcome())
        raised, source = await self._labels.raise_for_server(
            permit, method, entry.id, said.join(owed)
        )
        if asked_in is not None:
            asked_in.label(raised.label)
        level = self._rules.servers[permit.call.server].default.join(owed).confidentiality
        size = LONGEST_READ
        await self._memory.hear(permit, raised, params, size=size, source=source, level=level)
        return met

    async def inputs(self, permit: Permit, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `result` with each question of it judged (MCP 2026-07-28, input required).

        Whatever type it says it is of: a client may look for the questions alone.

        Raises:
            UpstreamFailed: It asks in the gateway's name, for too much, or in a form that is not known.
            GatewayError: One of the questions may not be asked.

        """
        if permit.call.server != OWN and asks_in_our_name(result):
            raise UpstreamFailed("the upstream server asks for input in the gateway's name")
        asked = result.get(REQUESTS)
        if asked is None:
            return result
        if not isinstance(asked, dict):
            raise _no_question()
        _require_few(asked)
        judged = {name: await self._input(permit, request) for name, request in asked.items()}
        return result if judged == asked else {**result, REQUESTS: judged}

    async def _input(self, permit: Permit, request: Any) -> Mapping[str, Any]:
        """Return a question as its method and its params: of what stands beside them no client knows."""
        if not isinstance(request, dict) or not isinstance(method := request.get("method"), str):
            raise _no_question()
        params = request.get("params", {})
        if not isinstance(params, dict):
            raise _no_question()
        met = await self.judge(permit, method, params)
        return {"method": method, "params": met} if "params" in request else {"method": method}

    async def links(self, permit: Permit, error: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `error` with each link judged that it sends the user to (MCP 2025-11-25, elicitation).

        It is a question of the server's, in other words.

        Raises:
            UpstreamFailed: One is in a form that is not known, or there are too many.
            GatewayError: The user may not be sent to one.

        """
        data = error.get("data")
        if not isinstance(data, dict) or not isinstance(asked := data.get(LINKS), list):
            return error
        _require_few(asked)
        judged = []
        for params in asked:
            if not isinstance(params, dict):
                raise _no_question()
            judged.append(await self.judge(permit, ELICIT, params))
        return error if judged == asked else {**error, "data": {**data, LINKS: judged}}

    def question(
        self,
        permit: Permit,
        method: str,
        params: Mapping[str, Any],
        run: Run,
        noted: Callable[[Target, str], None] = lambda *_: None,
    ) -> Mapping[str, Any]:
        """Return the question about what the server says by itself, under its own approval.

        `run` is the one that its client's calls are in now. What it is about, and the digest of that
        approval, are `noted`, also where there is none.

        Raises:
            PinMismatch: Nobody has approved the server, or it is not what was approved.

        """
        call = permit.call
        target = Target(server=call.server, kind=Kind.SERVER_REQUEST, name=method)
        pin_of = Target(server=call.server, kind=Kind.SERVER, name=call.server)
        pin = self._rules.own.get((pin_of, call.profile)) or self._pins.find(pin_of, call.profile)
        noted(target, shown_digest(pin))
        if pin is None:
            raise PinPending("nobody has approved this server itself yet")
        verify(pin_of, pin, identity=self._rules.identities[call.server])
        asked = call_question(
            call,
            permit.principal,
            Subject.of(target, self._rules.servers[call.server].tool(""), pin),
            run=run.id,
            arguments=params,
            review=FlowReview(label=run.label, sources=run.sources),
            task=None,
            usage=UNCOUNTED,
            dlp=NOTHING_FOUND,
            now=self._clock(),
        )
        return {**asked, "method": method}


def _require_few(asked: Sized) -> None:
    if len(asked) > _MOST_INPUTS:
        raise UpstreamFailed("the upstream server asks for too much at once")


def _no_question() -> UpstreamFailed:
    return UpstreamFailed("the upstream server asks for input in no known form")

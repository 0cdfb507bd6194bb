"""What a server says of a late call becomes what its caller may see: the one door of every answer."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from gateway.domain.calls import AccessRequest, Call, Permit
from gateway.domain.decisions import Duty, Obligation
from gateway.domain.document import DEEPEST
from gateway.domain.flow import FlowReview
from gateway.domain.late import LONGEST_NAME, MOST_ASKED, LateCall, Stage, asks, decision_of
from gateway.domain.nodes import most_nodes
from gateway.domain.question import NOTHING_FOUND
from gateway.domain.quotas import UNCOUNTED
from gateway.domain.tools import Kind, Profile, Target
from gateway.errors import (
    ApprovalRequired,
    AuditUnavailable,
    Denied,
    GatewayError,
    LimitExceeded,
    PinMismatch,
    PinRevoked,
)
from gateway.pins.verify import verify
from gateway.pipeline.decide import Subject, call_question, late_permit
from gateway.pipeline.labels import Labeller
from gateway.pipeline.late_ends import LateEnds
from gateway.pipeline.release import Release
from gateway.pipeline.rules import Rules
from gateway.pipeline.sensitive import Edge
from gateway.pipeline.serverside import ServerRequests
from gateway.pipeline.trail import Trail
from gateway.ports import Catalogs, Clock, PinStore
from gateway.ports.late import LateCalls
from gateway.turns import finished
from gateway.wire import jsontext
from gateway.wire.outgoing import said
from gateway.wire.replies import refusal_body
from gateway.wire.rounds import REQUESTS
from gateway.wire.tasks import Seen, Status, as_call, handle_of, remark, response, told

_WITHHELD: Final = (Denied, PinMismatch, ApprovalRequired)
"""What an answer is withheld for. Anything else may be otherwise when it is asked for again."""
_OK: Final = 200
_STAGES: Final = {
    Status.COMPLETED: Stage.COMPLETED,
    Status.FAILED: Stage.FAILED,
    Status.CANCELLED: Stage.CANCELLED,
}
_UNVOUCHED: Final = Obligation(duty=Duty.LABEL, detail={"integrity": "untrusted"})
_NOT_ASKED: Final = "The server asks for something that may not be asked for here."


class LateAnswers:
    """Judges what a server says of a late call, as it would have been had it come at once."""

    def __init__(
        self,
        *,
        store: LateCalls,
        ends: LateEnds,
        release: Release,
        requests: ServerRequests,
        labels: Labeller,
        rules: Rules,
        pins: PinStore,
        catalogs: Catalogs,
        seal_key: bytes,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._ends = ends
        self._release = release
        self._requests = requests
        self._labels = labels
        self._rules = rules
        self._pins = pins
        self._catalogs = catalogs
        self._seal_key = seal_key
        self._clock = clock
        self._new_id = new_id

    async def of(
        self, late: LateCall, permit: Permit, seen: Seen, trail: Trail
    ) -> Mapping[str, Any]:
        """Return what the caller is told; whatever it says has raised the run by then.

        `permit` is that of who asks, `trail` that of their asking.

        Raises:
            GatewayError: It cannot be told now.

        """
        stage, progress = _STAGES.get(seen.status), late.progress
        if progress.has_ended and stage is not progress.stage:
            return await self._withheld(late, permit, _changed(), trail)
        if stage is None:
            return await self._on_its_way(late, permit, seen, trail)
        if stage is Stage.CANCELLED:
            await self._ends.end(late, stage, self._trail(late, permit))
            return self._told(late, Status.CANCELLED)
        return await self._answered(late, permit, seen, trail)

    def settled(self, late: LateCall, permit: Permit) -> Mapping[str, Any] | None:
        """Return what is told of one of which its server is not asked again; `None` of any other."""
        match late.progress.stage:
            case Stage.CANCELLED:
                return self._told(late, Status.CANCELLED)
            case Stage.WITHHELD:
                why = "the answer of this task is withheld"
                error = Denied(why, reasons=[(late.progress.code, why)])
                return self._refusal(late, permit, error)
            case _:
                return None

    async def lost(self, late: LateCall, permit: Permit) -> None:
        """End one that its server does not know any more."""
        await self._ends.end(late, Stage.LOST, self._trail(late, permit))

    def call_of(self, late: LateCall, call: Call) -> Call:
        """Return the call that `late` is, as whoever makes `call` about it would make it now."""
        message = as_call(call.message, late.params)
        return replace(
            call,
            message=message,
            answered=None,
            declared=None,
            restored=late.restored,
            written=late.written,
        )

    async def _answered(
        self, late: LateCall, permit: Permit, seen: Seen, trail: Trail
    ) -> Mapping[str, Any]:
        """Give out an answer that has come: to whoever asks first it is the call's outcome."""
        failed = seen.status is Status.FAILED
        member, content = ("error", seen.error) if failed else ("result", seen.result)
        who, nodes = permit.principal.person, most_nodes(seen.size)
        text, digest = await finished(who, nodes, _written, content)
        if late.progress.answer not in {"", digest}:
            return await self._withheld(late, permit, _changed(), trail)
        about = trail if late.progress.has_ended else self._trail(late, permit)
        try:
            creating = await self._creating(late, permit, about)
            rpc_id = permit.call.message.id
            answer = await finished(who, nodes, response, rpc_id, member, content)
            body = await self._release.response(creating, answer, about)
        except _WITHHELD as error:
            return await self._withheld(late, permit, error, about)
        about.answer(_OK, text)
        if about is not trail:
            await self._ends.end(late, _STAGES[seen.status], about, answer=digest)
            # Who looked at the same time may have been first, and have been told something else.
            late = self._store.find(late.id) or late
            if late.progress.answer != digest:
                return await self._withheld(late, permit, _changed(), trail)
        given = await finished(who, nodes, jsontext.read_lenient, body, DEEPEST)
        return self._told(late, seen.status, **{member: given[member]})

    async def _withheld(
        self, late: LateCall, permit: Permit, error: GatewayError, about: Trail
    ) -> Mapping[str, Any]:
        """Tell that the answer is withheld, as an answer: whoever waits for one waits no more."""
        about.error(error)
        if not late.progress.has_ended:
            await self._ends.end(late, Stage.WITHHELD, about, code=error.code)
        return self._refusal(late, permit, error)

    async def _on_its_way(
        self, late: LateCall, permit: Permit, seen: Seen, trail: Trail
    ) -> Mapping[str, Any]:
        """Tell how far it is, and what its server asks for meanwhile."""
        if not seen.message and not seen.requests:
            return self._told(late, Status.WORKING)
        try:
            creating = await self._creating(late, permit, trail)
        except PinMismatch as error:
            trail.withheld("tasks/get", error)
            return self._told(late, Status.WORKING)
        message = await self._remark(creating, late, seen.message, trail)
        open_ = {n: r for n, r in seen.requests.items() if n not in late.progress.answered}
        if not open_:
            return self._told(late, Status.WORKING, **message)
        kept = await self._judged(creating, late, open_, trail)
        asked = await self._asked(creating, kept, most_nodes(seen.size), trail) if kept else {}
        await self._store.change(late.id, partial(asks, names=list(asked)))
        if not asked:
            message = {"statusMessage": _NOT_ASKED}
        return self._told(late, Status.INPUT_REQUIRED, **message, **{REQUESTS: asked})

    async def _remark(
        self, creating: Permit, late: LateCall, message: str, trail: Trail
    ) -> Mapping[str, Any]:
        """Return what the server says of how far it is, judged as what it says beside an answer."""
        if not message:
            return {}
        await self._labels.raise_for_result(creating, late.record)
        body = await self._release.notification(creating, remark(message), trail, Edge())
        if not body:
            return {}
        told = jsontext.read_lenient(body, DEEPEST)["params"]
        return {"statusMessage": told.get("message", "")}

    async def _judged(
        self, creating: Permit, late: LateCall, requests: Mapping[str, Any], trail: Trail
    ) -> Mapping[str, Any]:
        """Return those of the server's questions that its caller may be asked, each judged by itself."""
        kept: dict[str, Any] = {}
        known = {*late.progress.asked}
        for name, request in requests.items():
            if len(name.encode(errors="replace")) > LONGEST_NAME:
                trail.withheld("inputRequests", LimitExceeded("a name in it is too long"))
                continue
            if name not in known and len(known) >= MOST_ASKED:
                trail.withheld("inputRequests", LimitExceeded("the server asks too much"))
                continue
            # Also what is refused is judged and put on record: it counts in each look.
            known.add(name)
            try:
                judged = await self._requests.inputs(creating, {REQUESTS: {name: request}})
            except AuditUnavailable:
                raise
            except GatewayError as error:
                trail.withheld("inputRequests", error)
                continue
            kept |= judged[REQUESTS]
        return kept

    async def _asked(
        self, creating: Permit, kept: Mapping[str, Any], nodes: int, trail: Trail
    ) -> Mapping[str, Any]:
        """Return what of these questions is asked, judged together as the result that they would be.

        One whose name may not be shown as it is nobody could answer.
        """
        who, id_ = creating.principal.person, creating.call.message.id
        asking = {"resultType": "input_required", REQUESTS: kept}
        try:
            message = await finished(who, nodes, response, id_, "result", asking)
            body = await self._release.response(creating, message, trail, asked=True)
        except AuditUnavailable:
            raise
        except GatewayError as error:
            trail.withheld(REQUESTS, error)
            return {}
        told = await finished(who, nodes, jsontext.read_lenient, body, DEEPEST)
        shown = told["result"].get(REQUESTS)
        asked = {n: shown[n] for n in shown if n in kept} if isinstance(shown, dict) else {}
        if len(asked) < len(kept):
            trail.withheld(REQUESTS, Denied("a name in it may not be shown as it is"))
        return asked

    async def _creating(self, late: LateCall, permit: Permit, trail: Trail) -> Permit:
        """Return what the call went out with, as it would be judged now.

        Raises:
            PinMismatch: Its definition is not approved any more.
            InsufficientScope: The token lacks what the decision asked of it.
            GatewayError: It cannot be told whether it is approved.

        """
        target = Target(server=late.server, kind=Kind.TOOL, name=late.target)
        principal, run, call = permit.principal, permit.run, self.call_of(late, permit.call)
        await self._catalogs.refresh(late.server, Profile.MODERN, Kind.TOOL, principal)
        pin = self._pins.find(target, Profile.MODERN)
        if pin is None:
            raise PinRevoked("there is no such tool any more")
        pinned = verify(target, pin, identity=self._rules.identities[late.server])
        # What its questions were answered with is not kept, so nobody could tell an echo of it.
        decision, unvouched = decision_of(late), late.progress.led
        if str(pinned.manifest.digest) != late.definition:
            # It may be read, but nobody vouches that it is what the definition promised then.
            trail.reasons("approved_anew", "another definition was approved since it began")
            unvouched = True
        if unvouched:
            decision = replace(decision, obligations=(*decision.obligations, _UNVOUCHED))
        subject = Subject.of(target, self._rules.servers[late.server].tool(late.target), pin)
        review = FlowReview(label=run.label, sources=run.sources)
        asked = call_question(
            call,
            principal,
            subject,
            run=run.id,
            arguments=said(call.message),
            review=review,
            task=None,
            usage=UNCOUNTED,
            dlp=NOTHING_FOUND,
            now=self._clock(),
        )
        access = AccessRequest(
            call=call,
            principal=principal,
            run=run,
            target=target,
            effect=subject.effect,
            pinned=pinned,
            review=review,
            asked=asked,
        )
        return late_permit(access, decision, late)

    def _trail(self, late: LateCall, permit: Permit) -> Trail:
        call = self.call_of(late, permit.call)
        return Trail.of_late(late, call, clock=self._clock, new_id=self._new_id)

    def _told(self, late: LateCall, status: Status, **more: Any) -> Mapping[str, Any]:
        return told(late, handle_of(self._seal_key, late), status, now=self._clock(), **more)

    def _refusal(self, late: LateCall, permit: Permit, error: GatewayError) -> Mapping[str, Any]:
        """Return a task that has ended with our no: a tool's result, for that reaches the model."""
        call = self.call_of(late, permit.call)
        body = refusal_body(error, call.message, call.profile, decision_id=late.decision["id"])
        result = jsontext.read_lenient(body, DEEPEST)["result"]
        return self._told(late, Status.COMPLETED, result=result)


def _written(content: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the text of an answer, and by what it is known again."""
    text = jsontext.write(content).encode()
    return text, f"sha256:{hashlib.sha256(text).hexdigest()}"


def _changed() -> Denied:
    why = "the server says something else of a task than when that had ended"
    return Denied(why, reasons=[("task_result_changed", why)])

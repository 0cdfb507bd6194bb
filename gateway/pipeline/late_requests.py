"""Requests about a call whose answer is late: looked at, answered, cancelled by whoever made it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from gateway.domain.bounded import Bounded
from gateway.domain.calls import Call, Permit, Reply
from gateway.domain.flow import RunId
from gateway.domain.late import LateCall, LateId, Progress, open_in
from gateway.domain.nodes import most_nodes
from gateway.domain.scripts import ScriptId
from gateway.domain.tools import OWN, Kind, Profile, Target
from gateway.errors import GatewayError, is_nothing_done
from gateway.pipeline.admission import Admission
from gateway.pipeline.late import LateBeginnings
from gateway.pipeline.late_answers import LateAnswers
from gateway.pipeline.late_exchange import LateExchange
from gateway.pipeline.late_handles import LateHandles
from gateway.pipeline.release import Release
from gateway.pipeline.trail import Trail
from gateway.ports import AuditLog, Clock, PinStore
from gateway.ports.late import LateCalls
from gateway.turns import finished
from gateway.wire import jsontext
from gateway.wire.extensions import with_params
from gateway.wire.inbound import CONTENT_TYPE
from gateway.wire.jsonrpc import INVALID_PARAMS
from gateway.wire.operations import TASKS_CANCEL, TASKS_GET
from gateway.wire.param_headers import params_mirrored
from gateway.wire.rounds import REQUESTS, RESPONSES
from gateway.wire.server_message import ServerMessage
from gateway.wire.tasks import (
    TASK_ID,
    bad_answers,
    declares_tasks,
    not_offered,
    read_seen,
    undeclared,
    unknown_task,
)

_MOST: Final = 20_000
_OCTETS: Final = 8 * 1024**2
_ACK: Final[Mapping[str, Any]] = {"resultType": "complete"}
_SAID: Final = frozenset({"statusMessage", REQUESTS})
"""What of a task that is not over is its server's."""
_Whose = tuple[RunId, ScriptId | None]


class LateRequests:
    """Carries requests about tasks, each with a record of its own; the call's outcome is another."""

    def __init__(
        self,
        *,
        admission: Admission,
        beginnings: LateBeginnings,
        answers: LateAnswers,
        release: Release,
        store: LateCalls,
        pins: PinStore,
        exchange: LateExchange,
        audit: AuditLog,
        handles: LateHandles,
        clock: Clock,
    ) -> None:
        self._admission = admission
        self._beginnings = beginnings
        self._answers = answers
        self._release = release
        self._store = store
        self._pins = pins
        self._exchange = exchange
        self._audit = audit
        self._handles = handles
        self._clock = clock
        self._looked: Bounded[LateId, tuple[float, _Whose, Mapping[str, Any]]] = Bounded(
            most=_MOST, octets=_OCTETS
        )
        """Until when each need not be asked about again, to whom something was told of it, and what."""
        self.servers = beginnings.servers
        """Those whose calls may have their answers late."""
        self.require_room: Callable[[Permit], None] = beginnings.require_room

    async def answer(self, call: Call, trail: Trail) -> Reply:
        """Return the reply to a request about a task.

        Raises:
            ProtocolError: Nothing of the kind is offered here, or there is no such task: for
                whatever reason there is none, in the same words.
            GatewayError: The refusal or the fault that ends it.

        """
        permit = await self._admission.permit(call, trail)
        late = self._found(permit)
        trail.about(late)
        match call.message.method:
            case method if method == TASKS_GET:
                return await self._get(late, permit, trail)
            case method if method == TASKS_CANCEL:
                return await self._cancel(late, permit, trail)
            case _:
                return await self._update(late, permit, trail)

    def _found(self, permit: Permit) -> LateCall:
        call, message = permit.call, permit.call.message
        if call.server not in self.servers and not (call.server == OWN and self.servers):
            raise not_offered(message)
        if not declares_tasks(message):
            raise undeclared(message)
        late = self._handles.find(
            message.params.get(TASK_ID),
            principal=permit.principal.key,
            server=call.server,
            endpoint=call.endpoint,
        )
        if late is None:
            raise unknown_task(message)
        return late

    async def _get(self, late: LateCall, permit: Permit, trail: Trail) -> Reply:
        if (told := self._told_just_now(late, permit)) is not None:
            return await _reply(permit, told)
        settled = self._answers.settled(late, permit)
        if settled is not None:
            return await self._out(late, permit, settled, trail)
        message = await self._exchange.asked(late, permit, trail)
        if message.error is not None:
            if message.error.get("code") == INVALID_PARAMS:
                await self._answers.lost(late, permit)
                raise unknown_task(permit.call.message)
            return await self._error(permit, message, trail)
        seen = read_seen(late, message.result or {}, len(message.data))
        # What it was when it was asked about may be another by now.
        late = self._store.find(late.id) or late
        told = await self._answers.of(late, permit, seen, trail)
        return await self._out(late, permit, told, trail, size=seen.size)

    def _told_just_now(self, late: LateCall, permit: Permit) -> Mapping[str, Any] | None:
        """Return what was told of one that is not over, where it is too soon to ask again.

        It has its record; whoever asks and asks makes no more of them, and no work for the server.
        What its server says in it has raised the run that heard it, and none but that hears it again.
        """
        known = self._looked.get(late.id)
        if known is None or self._clock() >= known[0]:
            return None
        _, whose, told = known
        heard_it = whose == _whose(permit) or told.keys().isdisjoint(_SAID)
        return told if heard_it else None

    async def _out(
        self,
        late: LateCall,
        permit: Permit,
        told: Mapping[str, Any],
        trail: Trail,
        *,
        size: int = 0,
    ) -> Reply:
        """Give out what is told of `late`, once that is on record."""
        trail.reasons("task", str(told["status"]))
        await self._audit.append(trail.outcome())
        self._admission.require_going()
        known = self._store.find(late.id)
        if known is not None and not known.progress.has_ended:
            until = self._clock() + late.poll_s / 2
            self._looked.put(late.id, (until, _whose(permit), told), size)
        return await _reply(permit, told, size)

    async def _cancel(self, late: LateCall, permit: Permit, trail: Trail) -> Reply:
        """Ask the server to give up: the owner may, whatever policy says of the call by now."""
        self._looked.pop(late.id)
        if not late.progress.has_ended:
            await self._store.change(late.id, lambda now: replace(now, cancel_asked=True))
            message = await self._exchange.asked(late, permit, trail)
            if message.error is not None:
                return await self._error(permit, message, trail)
        return await self._acknowledged(permit, trail)

    async def _update(self, late: LateCall, permit: Permit, trail: Trail) -> Reply:
        """Send answers to the server's questions: judged as another round of the call that it is."""
        answers = permit.call.message.params.get(RESPONSES)
        if not isinstance(answers, dict):
            raise bad_answers(permit.call.message)
        names = [] if late.progress.has_ended else open_in(late.progress, answers)
        if not names:
            return await self._acknowledged(permit, trail)
        judged = await self._judged(late, permit, {n: answers[n] for n in names}, trail)
        self._looked.pop(late.id)
        params = judged.call.message.params
        kept = {n: params[n] for n in ("_meta", RESPONSES) if n in params}
        message = replace(permit.call.message, params={**kept, TASK_ID: ""})
        going = replace(judged, call=replace(judged.call, message=message))
        answer = await self._told(late, going, names, trail)
        if answer is None:
            return await self._acknowledged(permit, trail)
        if answer.error is not None:
            return await self._error(going, answer, trail)
        return await self._acknowledged(permit, trail)

    async def _judged(
        self, late: LateCall, permit: Permit, answers: Mapping[str, Any], trail: Trail
    ) -> Permit:
        """Return leave for the call with `answers` to go out, as policy gives it now."""
        call = self._answers.call_of(late, permit.call)
        of_now: dict[str, Any] = {RESPONSES: answers}
        if "_meta" in permit.call.message.params:
            of_now["_meta"] = permit.call.message.params["_meta"]
        params = {**late.params, **of_now}
        target = Target(server=late.server, kind=Kind.TOOL, name=late.target)
        pin = self._pins.find(target, Profile.MODERN)
        headers = call.headers
        if pin is not None and pin.approved is not None:
            mirrored = params_mirrored(params.get("arguments") or {}, pin.approved.definition)
            headers = (*headers, *mirrored)
        message = with_params(call.message, params)
        answered = permit.call.answered
        # What a person and the record are shown says the tokens that its caller wrote.
        written = None if late.written is None else {**late.written, **of_now}
        judged = replace(call, message=message, headers=headers, answered=answered, written=written)
        return await self._admission.permit(judged, trail)

    async def _told(
        self, late: LateCall, going: Permit, names: list[str], trail: Trail
    ) -> ServerMessage | None:
        """Send answers to these questions, each once; `None` if one was answered meanwhile.

        A question is answered from when its answer's intent is durable: until then, and where nothing
        was sent after all, it can be answered again.
        """
        prepared = await self._exchange.prepared(late, going, trail)
        if not await self._taken(late, names, led=not going.run.is_trusted):
            return None
        try:
            return await self._exchange.sent(prepared, trail)
        except GatewayError as error:
            if not trail.sent or is_nothing_done(error):
                await self._store.change(late.id, partial(_reopened, names=names))
            raise

    async def _taken(self, late: LateCall, names: list[str], *, led: bool) -> bool:
        """Take these questions for answered, each once; whether all of them were open until now."""
        before = await self._store.change(late.id, partial(_answered, names=names, led=led))
        return before is not None and open_in(before, names) == names

    async def _error(self, permit: Permit, message: ServerMessage, trail: Trail) -> Reply:
        body = await self._release.error(permit, message, trail)
        await self._audit.append(trail.outcome())
        self._admission.require_going()
        return Reply(status=HTTPStatus.OK, headers=(CONTENT_TYPE,), body=body)

    async def _acknowledged(self, permit: Permit, trail: Trail) -> Reply:
        await self._audit.append(trail.outcome())
        self._admission.require_going()
        return await _reply(permit, _ACK)


def _whose(permit: Permit) -> _Whose:
    """Return what is raised by what `permit` lets somebody hear."""
    return permit.run.id, permit.principal.script


def _answered(progress: Progress, names: list[str], *, led: bool) -> Progress:
    if open_in(progress, names) != names:
        return progress
    return replace(progress, answered=(*progress.answered, *names), led=progress.led or led)


def _reopened(progress: Progress, names: list[str]) -> Progress:
    left = tuple(name for name in progress.answered if name not in names)
    return replace(progress, answered=left)


async def _reply(permit: Permit, told: Mapping[str, Any], size: int = 0) -> Reply:
    whole = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": told}
    body = await finished(permit.principal.person, most_nodes(size), jsontext.write, whole)
    return Reply(status=HTTPStatus.OK, headers=(CONTENT_TYPE,), body=body.encode())

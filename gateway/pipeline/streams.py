"""A streamed answer: each event judged and filtered as it comes, the response last of all."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TypeAlias

from gateway.domain.calls import Form, Message, Permit, ServerEvent
from gateway.domain.nodes import weight
from gateway.errors import AuditUnavailable, Denied, GatewayError, UpstreamBroke
from gateway.pipeline.asides import heard
from gateway.pipeline.conversations import Conversations, asked_by
from gateway.pipeline.labels import Labeller, source_of
from gateway.pipeline.release import Release
from gateway.pipeline.sensitive import Edge
from gateway.pipeline.serverside import ServerRequests
from gateway.pipeline.sessions import Sessions
from gateway.pipeline.trail import Trail, outcome_kind
from gateway.ports import AuditLog, UpstreamDirectory
from gateway.turns import finished
from gateway.wire.jsontext import WireLimits
from gateway.wire.operations import CANCELLED, Handling, Operation, Sender, find
from gateway.wire.replies import refusal_event, reject
from gateway.wire.server_message import ServerMessage, with_member
from gateway.wire.sse import event_id, framed

Events: TypeAlias = AsyncIterator[ServerEvent]

_FAREWELL_S = 1.0
_OK = 200


class StreamRelay:
    """Turns an upstream's events into what the caller gets.

    A permit's intent is durable and its run is labelled before the first event is asked for.
    """

    def __init__(
        self,
        *,
        release: Release,
        requests: ServerRequests,
        labels: Labeller,
        conversations: Conversations,
        upstreams: UpstreamDirectory,
        audit: AuditLog,
        limits: WireLimits,
        sessions: Sessions,
        require_going: Callable[[], None],
    ) -> None:
        """Give nothing out where `require_going` raises."""
        self._release = release
        self._requests = requests
        self._labels = labels
        self._conversations = conversations
        self._upstreams = upstreams
        self._audit = audit
        self._limits = limits
        self._sessions = sessions
        self._require_going = require_going

    async def relay(
        self, permit: Permit, went: Message, events: Events, trail: Trail
    ) -> AsyncGenerator[bytes, None]:
        """Yield what the caller gets; the outcome is durable before the final response is.

        `went` is what went out for `permit`.

        A fault on the way puts a refusal in the response's place. A stream that is cut short, by
        either side, is recorded as an outcome that nobody knows.
        """
        edge, resumable, is_withheld = Edge(), False, False
        try:
            # Whoever has begun to read has to end this properly, also before the first event.
            yield b""
            async for event in events:
                # Many may have come at once: others have their turn between two of them.
                await asyncio.sleep(0)
                if self._sessions.are_over_for(permit):
                    break
                self._conversations.asides.gave(permit, event)
                resumable = resumable or bool(permit.session and event_id(event))
                if event.data is None:
                    part = await self._unjudged(permit, event, trail)
                    self._require_going()
                    yield part
                    continue
                message = await heard(permit, event.data, self._limits)
                message = await self._conversations.asides.home(permit, went, message)
                if self._is_final(permit, message):
                    last = await self._release.response(permit, message, trail)
                    is_withheld = True
                    await self._given_out(permit, event, trail)
                    self._require_going()
                    is_withheld = False
                    yield framed(event, last)
                    await _drain(events)
                    break
                if part := await self._interim(permit, event, message, trail, edge):
                    self._require_going()
                    yield part
        except GatewayError as error:
            is_withheld = False
            # A server whose connection broke may have kept the rest for whoever asks for it again.
            if not (resumable and isinstance(error, UpstreamBroke)):
                yield await self._refused(permit, trail, error)
        finally:
            await close(events)
            if not (trail.has_ended or trail.is_late):
                await asyncio.shield(self._cut(permit, trail))
            elif is_withheld and not trail.is_late:
                self._conversations.cut(permit, trail)  # its client may come back for the response

    async def _unjudged(self, permit: Permit, event: ServerEvent, trail: Trail) -> bytes:
        """Return what is passed on of an event that carries nothing, or what was judged before."""
        if event.given is None:
            return framed(event)
        # Whoever comes back for what they have lost may have begun another run by now.
        source = source_of(permit, event.given.label, trail.intent_id)
        run = await self._labels.raise_to(permit, source, event.given)
        trail.label(run.label)
        return event.raw

    def _is_final(self, permit: Permit, message: ServerMessage) -> bool:
        return message.form is Form.RESPONSE and permit.call.message.form is Form.REQUEST

    async def _interim(
        self,
        permit: Permit,
        event: ServerEvent,
        message: ServerMessage,
        trail: Trail,
        edge: Edge,
    ) -> bytes:
        """Return what is passed on of an event that is not the call's response; maybe nothing."""
        if message.form is Form.RESPONSE:
            return await self._late_response(permit, event, message)
        row = find(Sender.SERVER, message.method)
        if message.form is Form.REQUEST:
            return await self._request(permit, event, message, row, trail)
        if row is None or row.handling is Handling.REFUSED:
            return b""
        for kind in row.announces:
            self._upstreams.announce(permit.call.server, kind)
        if message.method == CANCELLED and not self._conversations.is_open(permit, message):
            return b""  # nobody waits for it, and its id is a word of the server's
        told = await self._release.notification(permit, message, trail, edge, beside=event.beside)
        return framed(event, told) if told else b""

    async def _request(
        self,
        permit: Permit,
        event: ServerEvent,
        message: ServerMessage,
        row: Operation | None,
        trail: Trail,
    ) -> bytes:
        """Pass a request of the server's on, or answer it with a no in the client's place."""
        asking, params = message.data, message.params
        said = params
        try:
            if row is None or row.handling is Handling.REFUSED:
                raise Denied("this request is not offered")
            if row.handling is Handling.CARRIED:
                said = await self._requests.judge(permit, row.method, params, asked_in=trail)
            elif params:  # nobody judges what is said in a ping
                said = {}
            if said is not params:  # a request may have none, and there is nothing to replace
                asking = with_member(message, "params", said)
        except GatewayError as error:
            await self._upstreams.of(permit.call.server).reject(permit, reject(message, error))
            return b""
        if message.id is not None:
            who, nodes = permit.principal.person, weight(asking)
            asked = await finished(who, nodes, asked_by, message.method, said, asking)
            self._conversations.ask(permit, message.id, asked)
        return framed(event, asking)

    async def _late_response(
        self, permit: Permit, event: ServerEvent, message: ServerMessage
    ) -> bytes:
        """Pass on the response of a call whose own stream was cut (MCP 2025-11-25, resumability).

        A response that no call of this session waits for is dropped.
        """
        waiting = None if message.id is None else self._conversations.resume(permit, message.id)
        if waiting is None:
            return b""
        earlier, trail = waiting
        try:
            last = await self._release.response(earlier, message, trail)
            await self._given_out(earlier, event, trail)
            self._require_going()
        except GatewayError as error:
            return await self._refused(earlier, trail, error)
        return framed(event, last)

    async def _given_out(self, permit: Permit, event: ServerEvent, trail: Trail) -> None:
        """Record that the response in `event` is given out, unless everything is stopped by now."""
        trail.answer(_OK, event.data)
        self._require_going()
        if trail.is_late:
            return
        await self._audit.append(trail.outcome(outcome_kind(permit)))

    async def _refused(self, permit: Permit, trail: Trail, error: GatewayError) -> bytes:
        trail.error(error)
        try:
            await self._audit.append(trail.outcome())
        except AuditUnavailable as unrecorded:
            error = unrecorded
        if permit.call.message.form is not Form.REQUEST:
            return b""
        call = permit.call
        return refusal_event(error, call.message, call.profile, decision_id=trail.decision_id).raw

    async def _cut(self, permit: Permit, trail: Trail) -> None:
        if permit.call.message.form is Form.STREAM:
            trail.unknown("stream_ended", "the stream of the session ended")
        else:
            self._conversations.cut(permit, trail)
            trail.unknown("outcome_unknown", "the stream ended before the response")
        try:
            await self._audit.append(trail.outcome())
        except AuditUnavailable:
            # Nothing was given out that this record had to precede, and the intent stands in the
            # log without an outcome, which says the same.
            return


async def _drain(events: Events) -> None:
    """Read to the end what should be over, so that the connection can serve the next call."""
    try:
        async with asyncio.timeout(_FAREWELL_S):
            async for _ in events:
                pass
    except (TimeoutError, GatewayError):
        # The response is out; what an upstream sends after it is of no interest to anybody.
        return


async def close(events: Events) -> None:
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()

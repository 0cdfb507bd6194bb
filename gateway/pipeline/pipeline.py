"""The one path of a call."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from gateway.domain.audit import RecordKind
from gateway.domain.calls import Call, Form, Message, Permit, RawAnswer, Reply
from gateway.domain.identity import BoundToken, Credential, Principal
from gateway.domain.nodes import most_nodes, weight
from gateway.errors import (
    AuditUnavailable,
    Fault,
    GatewayError,
    UpstreamFailed,
    UpstreamResting,
    is_nothing_done,
)
from gateway.pipeline.admission import Admission
from gateway.pipeline.asides import heard
from gateway.pipeline.begun import BegunRuns
from gateway.pipeline.following import follows_of
from gateway.pipeline.labels import Labeller
from gateway.pipeline.late_requests import LateRequests
from gateway.pipeline.recording import recorded, while_it_changes
from gateway.pipeline.release import Release
from gateway.pipeline.streams import StreamRelay, close
from gateway.pipeline.trail import Trail, outcome_kind
from gateway.ports import AuditLog, Clock, Ledger, UpstreamDirectory
from gateway.turns import finished
from gateway.wire.elicitation import declares_url, ways_to_ask
from gateway.wire.jsontext import WireLimits
from gateway.wire.operations import ABOUT_TASKS, LISTEN, OF_OUR_OWN
from gateway.wire.replies import Challenge, refuse
from gateway.wire.returning import returned, returned_fields, streamed_or_not
from gateway.wire.server_message import is_unread, with_members
from gateway.wire.session import seal

logger = logging.getLogger(__name__)


class Pipeline:
    """Carries a call from claim to reply, the same way wherever it came from."""

    def __init__(
        self,
        *,
        admission: Admission,
        release: Release,
        streams: StreamRelay,
        labels: Labeller,
        begun: BegunRuns,
        late: LateRequests,
        upstreams: UpstreamDirectory,
        audit: AuditLog,
        ledger: Ledger,
        challenge: Callable[[str], tuple[str, tuple[str, ...]]],
        proofs: Callable[[str], tuple[str, ...]] = lambda _: (),
        seal_key: bytes,
        limits: WireLimits,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._admission = admission
        self._release = release
        self._streams = streams
        self._labels = labels
        self._begun = begun
        self._late = late
        self._upstreams = upstreams
        self._audit = audit
        self._ledger = ledger
        self._challenge = challenge
        self._proofs = proofs
        self._seal_key = seal_key
        self._limits = limits
        self._clock = clock
        self._new_id = new_id

    async def known(self, credential: Credential, endpoint: str) -> Principal:
        """Return whoever holds `credential` at `endpoint`, of which only a head is known.

        Whoever is nobody here costs a record and an answer, and no work on what they send. The
        credential is looked at again in `handle`: it may end while the body is on its way.

        Raises:
            GatewayError: Nobody does, or that cannot be told now.

        """
        try:
            return await self._admission.gate.authenticate(credential, endpoint)
        except GatewayError:
            raise
        except Exception as bug:
            logger.exception("to tell who holds a credential met a bug")
            raise Fault("the gateway failed") from bug

    async def handle(self, call: Call) -> Reply:
        """Carry `call` to its reply. A no is a reply too: this raises nothing of ours."""
        nodes = most_nodes(len(call.message.body))
        call = await finished(call.asker, nodes, self._admission.narrowed, call)
        for one in follows_of(call, self._new_id) if call.message.method == LISTEN else ():
            told = await self._through(one, self._followed)
            if told.code is not None:
                return told
        return await self._through(call, self._carried)

    async def _through(self, call: Call, carry: Callable[[Call, Trail], Awaitable[Reply]]) -> Reply:
        """Return what `carry` returns for `call` and its trail, or why it does not."""
        trail = Trail(call, clock=self._clock, new_id=self._new_id)
        try:
            carried = partial(carry, call, trail)
            return await while_it_changes(carried, trail, self._ledger.caught_up)
        except GatewayError as error:
            return await self._refuse(call, trail, error)
        except asyncio.CancelledError:
            await asyncio.shield(self._abandon(trail))
            raise
        except Exception:
            logger.exception("call %s met a bug", call.id)
            return await self._refuse(call, trail, Fault("the gateway failed"))

    async def _carried(self, call: Call, trail: Trail) -> Reply:
        if call.message.method in OF_OUR_OWN:
            return await self._begun.answer(call, trail)
        if call.message.method in ABOUT_TASKS:
            return await self._late.answer(call, trail)
        permit = await self._admission.permit(call, trail)  # 2 to 7
        if call.server in self._late.servers:
            self._late.require_room(permit)
        await recorded(self._ledger, self._admission, permit, trail)  # 8
        if call.message.form is Form.RESPONSE:
            await self._raise_for_decision(permit, trail)
        elif call.message.form is Form.END:
            await self._admission.sessions.end(permit)
        going = await self._admission.asides.going(permit)
        # Last of all: during whatever is awaited before, it may change.
        self._admission.require_unchanged(permit)
        trail.sent = True
        try:
            answer = await self._upstreams.of(call.server).forward(going)  # 9
        except UpstreamResting:
            self._admission.take_back(permit)
            raise
        try:
            return await self._reply(permit, going.call.message, answer, trail)  # 10 to 12
        except BaseException:
            if not isinstance(answer.body, bytes):
                # Nobody reads it, and it holds a connection to its server.
                await close(answer.body)
            raise

    async def _followed(self, call: Call, trail: Trail) -> Reply:
        """Have on record that a resource may be followed: what goes out follows all of them at once."""
        permit = await self._admission.permit(call, trail, follows=True)
        await recorded(self._ledger, self._admission, permit, trail)
        trail.sent = True
        await self._raise_for_decision(permit, trail)
        await self._audit.append(trail.outcome())
        return Reply(status=HTTPStatus.OK, headers=(), body=b"")

    async def _raise_for_decision(self, permit: Permit, trail: Trail) -> None:
        """Raise the run to what policy says of that to which comes no result: an answer to a server's
        question, a resource that is followed.
        """
        decision = permit.decision
        run = await self._labels.raise_for_decision(permit, decision, trail.intent_id)
        if run is not None:
            trail.label(run.label)

    async def refuse(self, call: Call, error: GatewayError) -> Reply:
        """Refuse what never became a call that could be carried; recorded like any refusal."""
        trail = Trail(call, clock=self._clock, new_id=self._new_id)
        return await self._refuse(call, trail, error)

    async def _reply(self, permit: Permit, went: Message, answer: RawAnswer, trail: Trail) -> Reply:
        if permit.call.message.form is Form.STREAM:
            answer = streamed_or_not(answer, in_session=bool(permit.session))
        streams = not isinstance(answer.body, bytes)
        headers = returned_fields(answer.headers, streams=streams, empty=not answer.body)
        if answer.session is not None:
            headers = (*headers, ("mcp-session-id", self._sealed(permit, answer.session)))
        if not isinstance(answer.body, bytes):
            # Of an answer that comes whole nothing goes out before it was read, and raised the run.
            run = await self._labels.raise_for_result(permit, trail.intent_id)
            trail.label(run.label)
            events = self._streams.relay(permit, went, answer.body, trail)
            carried = trail.carried.now
            return Reply(
                status=HTTPStatus.OK,
                headers=headers,
                body=events,
                label=carried,
                require_going=self._admission.require_going,
            )
        body = await self._whole(permit, went, answer.status, answer.body, trail)
        trail.answer(answer.status, answer.body)
        # Before its record says that it was given out, and last of all: it may change meanwhile.
        self._admission.require_going()
        if not trail.is_late:
            await self._audit.append(trail.outcome(outcome_kind(permit)))
        self._admission.require_going()
        return returned(answer.status, headers, body)

    async def _whole(
        self, permit: Permit, went: Message, status: int, body: bytes, trail: Trail
    ) -> bytes:
        """Return what the caller may see of a body that came whole."""
        if not body:
            # A bare 404 or 405 says something by itself: the session has ended, there is no stream.
            if permit.call.message.form is Form.REQUEST and status < HTTPStatus.BAD_REQUEST:
                raise UpstreamFailed("the upstream server gave no answer", detail=f"HTTP {status}")
            return body
        message = await heard(permit, body, self._limits)
        asked = permit.call.message.id
        if message.form is not Form.RESPONSE or message.id != asked:
            # What came under the client's own name was asked under it.
            message = await self._admission.asides.home(permit, went, message)
        if (message.id is None or message.id != asked) and is_unread(message, status):
            if message.id is not None:
                who, nodes = permit.principal.person, weight(message.data)
                message = await finished(who, nodes, with_members, message, {"id": asked})
            return await self._release.error(permit, message, trail)
        return await self._release.response(permit, message, trail)

    def _sealed(self, permit: Permit, session: str) -> str:
        """Return the id of the server's `session` as its client gets it."""
        call, key = permit.call, self._seal_key
        takes_urls = declares_url(call)
        return seal(key, call.server, permit.principal.key, session, takes_urls=takes_urls)

    async def _refuse(self, call: Call, trail: Trail, error: GatewayError) -> Reply:
        """Give out a refusal once its one record is durable; unrecorded, it says only that."""
        trail.error(error)
        unsure = trail.sent and not is_nothing_done(error)
        if not unsure and not error.has_left:
            trail.sent = False
        try:
            await self._audit.append(trail.outcome(_refusal_kind(error)))
        except AuditUnavailable as unrecorded:
            error = unrecorded
        url, scopes = self._challenge(call.endpoint)
        challenge = Challenge(
            resource_metadata=url,
            scopes=scopes,
            token_sent=call.credential is not None,
            proofs=self._proofs(call.endpoint),
            proven=isinstance(call.credential, BoundToken),
        )
        reply = refuse(
            error,
            call.message,
            call.profile,
            challenge,
            decision_id=trail.decision_id,
            ways=ways_to_ask(call),
        )
        return replace(reply, unknown=unsure)

    async def _abandon(self, trail: Trail) -> None:
        if trail.is_late or trail.has_ended:
            return
        trail.unknown("client_gone", "the caller did not wait for the answer")
        try:
            await self._audit.append(trail.outcome())
        except AuditUnavailable:
            # Nobody waits for an answer that this record had to precede.
            logger.warning("an abandoned call could not be recorded; its intent stands alone")


def _refusal_kind(error: GatewayError) -> RecordKind:
    return RecordKind.AUTH if error.code == "unauthenticated" else RecordKind.OUTCOME

"""The gateway as a client of one upstream, for whoever comes in at the endpoint in front of all.

What was permitted is what is sent, under an id and a progress token of ours: clients count alike, and
here they share connections and sessions.
"""

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeAlias, TypeVar

from gateway.domain.bounded import Shared
from gateway.domain.calls import Form, OriginKind, Permit, RawAnswer
from gateway.domain.nodes import weight
from gateway.domain.room import outlasting
from gateway.domain.tools import Profile, UpstreamId
from gateway.errors import GatewayError, UpstreamResting
from gateway.ports import Upstream
from gateway.ports.listeners import Listeners
from gateway.turns import finished
from gateway.upstream.faults import unusable
from gateway.upstream.own_asking import Asking
from gateway.upstream.own_events import Events, abandon, answer_in, in_an_event, sooner
from gateway.upstream.own_resume import Resumed
from gateway.upstream.own_sessions import EMPTY, Session, Sessions, notification, request, worded
from gateway.upstream.own_subscriptions import METHODS, Subscriptions
from gateway.upstream.replies import discard, read_in_turn
from gateway.upstream.settings import Limits, Timeouts
from gateway.wire import jsontext
from gateway.wire.eras import is_stateless
from gateway.wire.inbound import meta_of
from gateway.wire.jsonrpc import METHOD_NOT_FOUND
from gateway.wire.jsontext import WireLimits
from gateway.wire.own_abilities import can_answer
from gateway.wire.server_message import ServerMessage, is_unread, read_server_message

_OCTETS: Final = 8 * 1024**2
"""Questions of an upstream's that clients have not answered yet."""
_LEAVE: Final = 4 * 1024
"""Bytes of a permit without what was asked for."""
_TELL_S: Final = 5.0
"""How long it may take to tell an upstream that nobody waits any more."""
_BESIDE: Final = frozenset({"notifications/message"})
"""What a server says beside its answers that the client of a call may want to hear."""
_SET_LEVEL: Final = "logging/setLevel"
_EVENTS: Final = (("content-type", "text/event-stream"), ("cache-control", "no-cache"))
_NOBODY: Final = {"code": METHOD_NOT_FOUND, "message": "there is nobody to ask"}
_ACCEPTED: Final = RawAnswer(status=HTTPStatus.ACCEPTED, headers=(), session=None, body=b"")

Id: TypeAlias = str | int
Key: TypeAlias = tuple[str, str | None, type, object]
"""A request as its client knows it: 1 and "1" are different ids (JSON-RPC 2.0 section 4)."""
Found = TypeVar("Found")


class OwnClient:
    """One upstream, in whichever family of revisions a call is worded. `relay` stays another's."""

    def __init__(
        self,
        server: UpstreamId,
        relay: Upstream,
        *,
        wire: WireLimits,
        levels: Mapping[str, str],
        listeners: Listeners,
        apart: bool = False,
        idle_s: float = 900.0,
        ping_s: float | None = None,
        timeouts: Timeouts | None = None,
        limits: Limits | None = None,
    ) -> None:
        """End a session in which nothing was asked for `idle_s` seconds.

        Every `ping_s` seconds it is tried if its upstream is there; for `None` it is not.
        `timeouts` and `limits` hold for an answer also where it takes several streams.
        `apart` is whether each answer has a stream to itself, and all that comes on it belongs to
        that call. A local server's process has one line for all.
        `listeners` are told of what the upstream says by itself.
        `levels` says by a client's session how much of what servers log it wants to hear.
        """
        self._server = server
        self._relay = relay
        self._wire = wire
        self._levels = levels
        self._apart = apart
        self._timeouts = timeouts or Timeouts()
        self._limits = limits or Limits()
        self._sessions = Sessions(relay, heard=self._heard, wire=wire, idle_s=idle_s, ping_s=ping_s)
        self._subscriptions = Subscriptions(
            server, relay, self._sessions, listeners=listeners, wire=wire
        )
        self._numbers = itertools.count()
        self._under_way: dict[Key, Asking] = {}
        """The newest under each id: what its client would cancel."""
        self._asked: Shared[str, Id, tuple[Id, Permit]] = Shared(octets=_OCTETS)
        """What each is called at the upstream, and leave to answer it there."""
        self._telling: set[asyncio.Task[None]] = set()

    async def forward(self, permit: Permit) -> RawAnswer:
        """Send the permit's message and return the answer under the client's own id.

        Raises:
            UpstreamFailed: No answer in time, not one of MCP, or the client cancelled the call.
            CredentialRequired: The upstream wants a credential that we do not hold.
            LimitExceeded: The answer is larger than the limits allow.

        """
        match permit.call.message.form:
            case Form.REQUEST if permit.call.message.method in METHODS:
                return await self._subscriptions.answer(permit)
            case Form.REQUEST:
                return await self._ask(permit)
            case Form.RESPONSE:
                return await self._tell(permit)
            case Form.NOTIFICATION:
                return await self._cancel(permit)
            case Form.STREAM | Form.END:
                raise unusable("a client has no session here")

    async def reject(self, permit: Permit, body: bytes) -> None:
        """Answer a request of the server's in the client's place, with a JSON-RPC error `body`.

        Raises:
            UpstreamFailed: It could not be delivered.

        """
        content = jsontext.read_lenient(body, self._wire.json_depth)
        with self._question(permit, content["id"]) as (id_, answering):
            await self._relay.reject(answering, _under(id_, content))

    def end_sessions(self, principal: str) -> None:
        """End the sessions for a principal's key, each once no request is under way in it.

        What was followed in them is followed no more.
        """
        self._subscriptions.end_of(principal)
        self._sessions.end_of(principal)

    def leave(self, principal: str, holder: str) -> None:
        """Take note that one of a principal's, by its key, follows no resources any more."""
        self._subscriptions.leave(principal, holder)

    async def aclose(self) -> None:
        """End every session."""
        await self._subscriptions.aclose()
        for task in self._telling:
            task.cancel()
        await asyncio.gather(*self._telling, return_exceptions=True)
        await self._sessions.aclose()

    async def _ask(self, permit: Permit) -> RawAnswer:
        asking = self._asking(permit)
        key = _key(permit, permit.call.message.id)
        self._under_way[key] = asking
        streams = False
        try:
            answer = await asking.wait(self._head(asking))
            if isinstance(answer.body, bytes):
                return replace(answer, session=None, body=await self._home(asking, answer))
            streams = True
            return replace(answer, session=None, body=Events(answer.body, asking, self))
        except GatewayError as error:
            if error.not_sent:
                asking.answered = True  # nobody has to be told of what never came there
            raise
        finally:
            if not streams:
                self._done(key, asking)

    def _asking(self, permit: Permit) -> Asking:
        message = permit.call.message
        id_ = f"front-{next(self._numbers)}"
        meta = meta_of(message)
        token = meta.get("progressToken")
        params = message.params
        if token is not None:
            params = {**params, "_meta": {**meta, "progressToken": id_}}
        return Asking(permit, request(id_, message.method, params), token)

    async def _head(self, asking: Asking) -> RawAnswer:
        """Return the answer; a stream with it, if the upstream asks something before it answers."""
        if asking.permit.call.profile is Profile.MODERN:
            return await self._relay.forward(asking.worded)
        session = await self._enter(asking)
        if not asking.hears:
            return await self._answered(asking, session)
        answering = asking.answering = asyncio.create_task(self._answered(asking, session))
        try:
            event = await sooner(asking.beside_it, answering)
        except asyncio.CancelledError:
            await abandon(answering)
            raise
        if event is None:
            return answering.result()
        asking.first = event
        events = answer_in(asking.permit, answering)
        return RawAnswer(status=HTTPStatus.OK, headers=_EVENTS, session=None, body=events)

    async def _answered(self, asking: Asking, session: Session) -> RawAnswer:
        """Send a request; into another session, once, where the upstream has forgotten the first."""
        answer = await self._sent(asking)
        if answer.status != HTTPStatus.NOT_FOUND or session.id is None:
            return answer
        # It has done nothing with the message (2025-11-25, transports, session management).
        await discard(answer)
        self._leave(asking)
        self._sessions.forget(session)
        try:
            await self._enter(asking)
            return await self._sent(asking)
        except GatewayError as error:
            raise error.of_one(has_left=True) from error

    async def _sent(self, asking: Asking) -> RawAnswer:
        ends_at = asyncio.get_running_loop().time() + self._timeouts.hard_s
        answer = await self._relay.forward(asking.worded)
        if isinstance(answer.body, bytes):
            return answer
        events = Resumed(
            answer.body,
            asking,
            self._relay,
            timeouts=self._timeouts,
            limits=self._limits,
            ends_at=ends_at,
            given_up=partial(self._give_up, asking),
        )
        return replace(answer, body=events)

    def _give_up(self, asking: Asking) -> None:
        """Wait no longer for an upstream that may still be working, and tell it so."""
        asking.answered = True  # nobody has to be told again
        self._tell_soon(asking)

    async def _enter(self, asking: Asking) -> Session:
        session = asking.session = await self._sessions.of(asking.permit)
        session.under_way += 1
        level = self._levels.get(asking.permit.session or "", session.level)
        if session.logs and level != session.level:
            asking.permit.last_look(asking.permit)  # to begin a session takes its time
            session.level = level
            told = request(f"front-{next(self._numbers)}", _SET_LEVEL, {"level": level})
            with suppress(GatewayError):
                # One that does not take it logs as much as it likes, which is no reason to fail.
                await discard(await self._relay.forward(asking.beside(told)))
        return session

    def _leave(self, asking: Asking) -> None:
        if asking.session is not None:
            self._sessions.left(asking.session)
            asking.session = None

    async def _home(self, asking: Asking, answer: RawAnswer) -> bytes:
        body = answer.body if isinstance(answer.body, bytes) else b""
        if not body:
            raise unusable(f"status {answer.status}")
        who = asking.permit.principal.person
        told = await finished(who, weight(body), self._named, asking, body, answer.status)
        asking.answered = True
        return told

    def _named(self, asking: Asking, body: bytes, status: int) -> bytes:
        message = read_server_message(body, self._wire)
        if message.id != asking.message.id and not is_unread(message, status):
            raise unusable("the answer is to another request")
        return asking.named(message)

    def _done(self, key: Key, asking: Asking) -> None:
        """Forget a request; an upstream that still works for a client that is gone is told.

        In the legacy revisions going away cancels nothing; in the stateless one, and where a program
        made the call, it does.
        """
        if self._under_way.get(key) is asking:
            del self._under_way[key]
        asking.beside_it.close()
        session = asking.session
        if session is not None:
            call = asking.permit.call
            cancels = is_stateless(call.revision) or call.origin is OriginKind.SANDBOX
            if cancels and not asking.answered:
                self._tell_soon(asking)
            self._sessions.left(session)

    def _tell_soon(self, asking: Asking) -> None:
        task = asyncio.create_task(self._tell_cancelled(asking))
        outlasting(task)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _cancel(self, permit: Permit) -> RawAnswer:
        params = permit.call.message.params
        asking = self._under_way.get(_key(permit, params.get("requestId")))
        if asking is not None:
            if asking.session is not None:
                await self._tell_cancelled(asking)
            asking.answered = True  # nobody has to be told again
            asking.cancel()
        return _ACCEPTED

    async def _tell_cancelled(self, asking: Asking) -> None:
        params = {"requestId": asking.message.id, "reason": "nobody waits any more"}
        try:
            async with asyncio.timeout(_TELL_S):
                told = asking.beside(notification("notifications/cancelled", params))
                await discard(await self._relay.forward(told))
        except (GatewayError, TimeoutError):
            # An upstream that cannot be told finds out when it answers.
            return

    async def _tell(self, permit: Permit) -> RawAnswer:
        """Give an upstream the client's answer to its question."""
        message = permit.call.message
        nodes = weight(message.body)
        with self._question(permit, message.id) as (id_, answering):
            body = await finished(permit.principal.person, nodes, self._renamed, id_, message.body)
            call = replace(answering.call, message=replace(message, id=id_, body=body))
            leave = replace(answering, call=call, access=permit.access, last_look=permit.last_look)
            answer = await self._relay.forward(leave)
        await discard(answer)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise unusable(f"the answer to its question: status {answer.status}")
        return _ACCEPTED

    def _renamed(self, id_: Id, body: bytes) -> bytes:
        return _under(id_, jsontext.read_lenient(body, self._wire.json_depth))

    @contextmanager
    def _question(self, permit: Permit, id_: Id | None) -> Iterator[tuple[Id, Permit]]:
        """Give, once, what a question is called at the upstream, and leave to answer it there.

        Where nothing was sent, for the upstream was too busy, it can be answered again.
        """
        asked = None if id_ is None else self._asked.pop(permit.principal.person, id_)
        if id_ is None or asked is None or asked[1].principal.key != permit.principal.key:
            raise unusable("the question is not known any more")
        try:
            yield asked
        except UpstreamResting:
            self._keep(permit.principal.person, id_, asked)
            raise

    def _keep(self, who: str, id_: Id, asked: tuple[Id, Permit]) -> None:
        octets = _LEAVE + len(str(asked[0])) + len(asked[1].session or "")
        self._asked.put(who, id_, asked, octets)

    async def question(
        self, asking: Asking, message: ServerMessage, *, is_ours: bool
    ) -> bytes | None:
        """Return what the client is to be asked; `None` for what it cannot be: that is answered here.

        `is_ours` is what `is_for` said when it came.

        Raises:
            UpstreamFailed: The answer could not be delivered.

        """
        if asking.session is None or message.id is None:
            return None  # no server of the stateless revision may ask
        if message.method == "ping":
            await self._reply(asking, {"jsonrpc": "2.0", "id": message.id, "result": {}})
            return None
        if not can_answer(asking.session.abilities, message.method, message.params):
            error = {"code": METHOD_NOT_FOUND, "message": "not supported by the client"}
            await self._reply(asking, {"jsonrpc": "2.0", "id": message.id, "error": error})
            return None
        if not is_ours:
            content = {"jsonrpc": "2.0", "id": message.id, "error": _NOBODY}
            await self._reply(asking, content)
            return None
        id_ = f"{self._server}/{next(self._numbers)}"
        # Without what was asked for: it may be large, and questions wait for long.
        leave = asking.beside(EMPTY)
        who = asking.permit.principal.person
        self._keep(who, id_, (message.id, leave))
        return await finished(who, weight(message.data), _under, id_, message.content)

    def is_for(self, asking: Asking) -> bool:
        """Whether what came on the stream of an answer can only be for the client that waits for it."""
        if self._apart:
            return True
        of, session = asking.permit.principal.key, asking.session
        clients = {
            one.permit.session
            for one in self._under_way.values()
            if one.session is session and one.permit.principal.key == of
        }
        return len(clients) <= 1

    async def _heard(self, session: Session, data: bytes) -> None:
        """Take what the upstream says beside its answers to the one client that it can be for."""
        # As it is now: while it is read others may come and go.
        meant = [one for one in self._under_way.values() if one.session is session]
        clients = {one.permit.session for one in meant}
        message = await self.read(session.begun_by, data)
        self._subscriptions.heard(session, message)
        if len(clients) == 1 and (message.form is Form.REQUEST or message.method in _BESIDE):
            event = await in_an_event(session.begun_by, data, beside=True)
            # Whom it was for may have gone while it was read, and then nobody looks there any more.
            if meant[-1] in self._under_way.values() and meant[-1].beside_it.put(event):
                return
        if message.form is Form.REQUEST:
            # With nobody, or several, under way nobody knows whom it would be for.
            content = {"jsonrpc": "2.0", "id": message.id, "error": _NOBODY}
            beside = worded(session.begun_by, EMPTY, session.id, session.revision)
            await self._relay.reject(beside, jsontext.write(content).encode())

    def overheard(self, asking: Asking, message: ServerMessage) -> None:
        """Take news of resources that came on the stream of an answer."""
        if asking.session is not None:
            self._subscriptions.heard(asking.session, message)

    def ended(self, asking: Asking) -> None:
        """Take note that nobody reads the answer any more."""
        self._done(_key(asking.permit, asking.permit.call.message.id), asking)

    async def _reply(self, asking: Asking, content: Any) -> None:
        await self._relay.reject(asking.beside(asking.message), jsontext.write(content).encode())

    async def read(self, of: Permit, data: bytes) -> ServerMessage:
        return await read_in_turn(of.principal.person, data, self._wire)


def _under(id_: Id, content: Mapping[str, Any]) -> bytes:
    """Return the message `content` under another id."""
    return jsontext.write({**content, "id": id_}).encode()


def _key(permit: Permit, id_: object) -> Key:
    hashable = id_ if isinstance(id_, str | int) else None
    return (permit.principal.key, permit.session, type(id_), hashable)

"""The gateway's own subscriptions to resources of one upstream, for whoever listens in front of all.

For each principal there is one for a resource, however many of its clients follow it; it is asked for
again where the upstream has forgotten it, and ends when nobody is left.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, TypeAlias, TypeVar

from gateway.domain.calls import Call, Form, Permit, RawAnswer, ServerEvent
from gateway.domain.tools import Profile, UpstreamId
from gateway.errors import GatewayError, LimitExceeded, ProtocolError, UpstreamFailed
from gateway.ports import Upstream
from gateway.ports.listeners import Listeners, holder_of
from gateway.upstream.faults import late, unusable
from gateway.upstream.own_sessions import Session, Sessions, request, worded
from gateway.upstream.replies import ErrorAnswer, discard, read_in_turn, result_of
from gateway.wire import jsontext
from gateway.wire.bare_notices import ACKNOWLEDGED, UPDATED
from gateway.wire.eras import SELF_STATED, headers_for
from gateway.wire.inbound import CONTENT_TYPE
from gateway.wire.jsonrpc import INVALID_REQUEST
from gateway.wire.jsontext import WireLimits
from gateway.wire.notices import (
    RESOURCES_CHANGED,
    SUBSCRIPTION_KEY,
    honored,
    listening,
)
from gateway.wire.operations import LISTEN, SUBSCRIBE, UNSUBSCRIBE, subscribed
from gateway.wire.own_abilities import abilities_of
from gateway.wire.server_message import ServerMessage

METHODS: Final = frozenset({SUBSCRIBE, UNSUBSCRIBE, LISTEN})
_MOST: Final = 1_000
"""Resources of one upstream that are followed for one principal."""
_AGAIN_S: Final = 5.0
"""How long it takes at most to notice that an upstream has forgotten what it was asked for."""
_PATIENCE_S: Final = 10.0
"""How long an upstream may take to say that it will tell."""

Found = TypeVar("Found")
Key: TypeAlias = tuple[str, str, Profile]
"""A principal, the abilities of its client, and the family in which its upstream is spoken to."""


class _Line:
    """What is followed for one key."""

    def __init__(self, permit: Permit) -> None:
        self.leave = permit.lasting
        """Leave to ask again, without the call that it was given for, which may be large."""
        self.holders: dict[str, set[str]] = {}
        """URI -> who follows it."""
        self.alone = asyncio.Lock()
        self.session: Session | None = None
        """In which an upstream of the older revisions was asked."""
        self.keeping: asyncio.Task[None] | None = None
        """Asks again, or reads what an upstream of the stateless revision says."""


class Subscriptions:
    """Follows resources of one upstream, in whichever family of revisions it speaks."""

    def __init__(
        self,
        server: UpstreamId,
        relay: Upstream,
        sessions: Sessions,
        *,
        listeners: Listeners,
        wire: WireLimits,
    ) -> None:
        self._server = server
        self._relay = relay
        self._sessions = sessions
        self._listeners = listeners
        self._wire = wire
        self._lines: dict[Key, _Line] = {}
        sessions.followed = self._lines
        self._numbers = itertools.count()
        self._leaving: set[asyncio.Task[None]] = set()

    async def answer(self, permit: Permit) -> RawAnswer:
        """Subscribe or unsubscribe as the permit says, and return the upstream's yes.

        Raises:
            ProtocolError: There is nobody who could be told.
            UpstreamFailed: The upstream does not follow this resource, or did not answer.
            LimitExceeded: There are too many subscriptions.
            AuditUnavailable: It could not be written.

        """
        message = permit.call.message
        holder = holder_of(permit)
        if not holder:
            raise ProtocolError(
                "a subscription needs a session", rpc_code=INVALID_REQUEST, rpc_id=message.id
            )
        for uri in _named(permit.call):
            if message.method == UNSUBSCRIBE or permit.call.withdraws:
                await self._listeners.left(permit, uri)
                await self._drop(_key(permit), holder, [uri])
            else:
                await self._follow(permit, holder, uri)
        return _yes(permit)

    def leave(self, principal: str, holder: str) -> None:
        """Take note that a holder follows nothing any more."""
        for key, line in tuple(self._lines.items()):
            if key[0] != principal:
                continue  # many may be forgotten at once, and follow very much together
            uris = [uri for uri, holders in line.holders.items() if holder in holders]
            if uris:
                task = asyncio.create_task(self._drop(key, holder, uris))
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)

    def end_of(self, principal: str) -> None:
        """Follow nothing for a principal any more."""
        for key, line in tuple(self._lines.items()):
            if key[0] == principal:
                for holder in set().union(*line.holders.values()):
                    self.leave(principal, holder)

    def heard(self, session: Session, message: ServerMessage) -> None:
        """Take what an upstream said in a session: that a resource, or its list, has changed."""
        principal = session.key[0]
        if message.method == RESOURCES_CHANGED:
            self._listeners.relisted(self._server, principal)
        line = self._lines.get((*session.key[:2], Profile.LEGACY))
        if line is not None:
            self._tell(principal, line, message)

    async def aclose(self) -> None:
        """Follow nothing any more. The sessions are another's to end, and with them this ends."""
        tasks = [*self._leaving, *(one.keeping for one in self._lines.values() if one.keeping)]
        self._lines.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, permit: Permit, holder: str, uri: str) -> None:
        key = _key(permit)
        while not await self._followed(self._lines.setdefault(key, _Line(permit)), permit, uri):
            pass  # whoever was the last one before has let go of the line meanwhile
        holders = self._lines[key].holders[uri]
        noted = holder in holders
        holders.add(holder)
        try:
            await self._listeners.joined(permit, uri)
            noted = True
        finally:
            if not noted:
                # Nor where the client went away meanwhile: nobody else would ever let go of it.
                await self._drop(key, holder, [uri])

    async def _followed(self, line: _Line, permit: Permit, uri: str) -> bool:
        """Return whether `uri` is followed on `line`, which is still the one of its key."""
        key = _key(permit)
        async with line.alone:
            if self._lines.get(key) is not line:
                return False
            if uri not in line.holders:
                if len(line.holders) >= _MOST:
                    raise LimitExceeded("too many subscriptions", detail=self._server)
                try:
                    await self._ask(line, permit, uri)
                    line.holders[uri] = set()
                finally:
                    if not line.holders:
                        self._lines.pop(key, None)
            return True

    async def _ask(self, line: _Line, permit: Permit, uri: str) -> None:
        if permit.call.profile is Profile.MODERN:
            await self._listen(line, permit, [*line.holders, uri])
            return
        session = await self._sessions.of(permit)
        try:
            await self._say(permit, session, SUBSCRIBE, uri)
        except ErrorAnswer as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            # It has forgotten the session, and done nothing (2025-11-25, session management).
            self._sessions.forget(session)
            session = await self._sessions.of(permit)
            await self._say(permit, session, SUBSCRIBE, uri)
        if line.session is None:
            line.session = session
        if line.keeping is None:
            line.keeping = asyncio.create_task(self._keep(line))

    async def _say(self, permit: Permit, session: Session, method: str, uri: str) -> None:
        id_ = f"front-watch-{next(self._numbers)}"
        asked = worded(permit, request(id_, method, {"uri": uri}), session.id, session.revision)

        async def said() -> None:
            answer = await self._relay.forward(asked)
            await result_of(permit.call.server, answer, method, id_, self._wire)

        await _in_time(said())

    async def _keep(self, line: _Line) -> None:
        """Ask again in every new session, and keep the one there is from falling idle."""
        while line.holders or line.alone.locked():
            await asyncio.sleep(_AGAIN_S)
            with suppress(GatewayError):
                await self._renew(line)

    async def _renew(self, line: _Line) -> None:
        async with line.alone:
            # Nobody waits for it: for one that is begun again no other one ends.
            session = await self._sessions.of(line.leave, ends_others=False)
            again = session is line.session
            if again and (session.id is None or session.listening is not None):
                return
            # One whose stream has ended may be forgotten; whoever asks once in it finds out.
            for uri in tuple(line.holders)[: 1 if again else None]:
                await self._ask_again(line, session, uri)
            line.session = session

    async def _ask_again(self, line: _Line, session: Session, uri: str) -> None:
        try:
            await self._say(line.leave, session, SUBSCRIBE, uri)
        except ErrorAnswer as error:
            if error.status == HTTPStatus.NOT_FOUND:
                self._sessions.forget(session)
                raise

    async def _listen(self, line: _Line, permit: Permit, uris: Iterable[str]) -> None:
        """Open a stream for `uris` in place of the one there is; it says first that it will tell."""
        events = await _in_time(self._opened(permit, sorted(uris)))
        before, line.keeping = line.keeping, asyncio.create_task(self._read(line, events))
        await asyncio.sleep(0)  # begun, it sees to the end of its stream itself
        if before is not None:
            before.cancel()

    async def _opened(self, permit: Permit, uris: list[str]) -> AsyncIterator[ServerEvent]:
        id_ = f"front-watch-{next(self._numbers)}"
        message = request(id_, LISTEN, listening({"_meta": SELF_STATED}, uris))
        call = permit.call.saying(message, headers_for(Profile.MODERN, message, "", ()))
        answer = await self._relay.forward(replace(permit, call=call, session=None, access=None))
        if isinstance(answer.body, bytes):
            raise unusable(f"it offers no stream to listen to: status {answer.status}")
        agreed = False
        try:
            async for event in answer.body:
                said = None if event.data is None else await self._said(permit, event.data)
                if said is not None and said.method == ACKNOWLEDGED:
                    agreed = honored(said.params).issuperset(uris)
                    break
                if said is not None and said.form is Form.RESPONSE:
                    break
            if not agreed:
                raise UpstreamFailed("the upstream server does not follow this resource")
            return answer.body
        finally:
            if not agreed:
                await discard(answer)

    async def _read(self, line: _Line, events: AsyncIterator[ServerEvent]) -> None:
        """Hear what is said on a stream, and open another one where it ends."""
        leave = line.leave
        while True:
            try:
                async for event in events:
                    if event.data is not None:
                        said = await self._said(leave, event.data)
                        self._tell(leave.principal.key, line, said)
            except GatewayError:
                pass  # it ends like any other, and is opened again
            finally:
                await _close(events)
            while line.holders:
                await asyncio.sleep(_AGAIN_S)
                with suppress(GatewayError):
                    events = await _in_time(self._opened(leave, sorted(line.holders)))
                    break
            else:
                return

    async def _said(self, permit: Permit, data: bytes) -> ServerMessage:
        return await read_in_turn(permit.principal.person, data, self._wire)

    def _tell(self, principal: str, line: _Line, message: ServerMessage) -> None:
        """Tell everybody who follows the resource; what nobody follows nobody is told of."""
        uri = message.params.get("uri")
        if message.method == UPDATED and isinstance(uri, str):
            for holder in line.holders.get(uri, ()):
                self._listeners.updated(principal, holder, self._server, uri)

    async def _drop(self, key: Key, holder: str, uris: Iterable[str]) -> None:
        line = self._lines.get(key)
        if line is None:
            return
        async with line.alone:
            free = []
            for uri in uris:
                holders = line.holders.get(uri, set())
                holders.discard(holder)
                if not holders and line.holders.pop(uri, None) is not None:
                    free.append(uri)
            if not line.holders and self._lines.get(key) is line:
                del self._lines[key]
            with suppress(GatewayError):
                # An upstream that cannot be told goes on telling what nobody hears.
                await self._let_go(key, line, free)

    async def _let_go(self, key: Key, line: _Line, uris: Iterable[str]) -> None:
        if key[2] is Profile.MODERN:
            if line.holders and uris:
                await self._listen(line, line.leave, line.holders)
        elif line.session is not None:
            for uri in uris:
                await self._say(line.leave, line.session, UNSUBSCRIBE, uri)
        if not line.holders and line.keeping is not None:
            line.keeping.cancel()
            line.keeping = None


def _key(permit: Permit) -> Key:
    return permit.principal.key, abilities_of(permit.session), permit.call.profile


def _named(call: Call) -> tuple[str, ...]:
    if call.message.method == LISTEN:
        return subscribed(call.message.params)
    return (call.message.params["uri"],)


def _yes(permit: Permit) -> RawAnswer:
    id_ = permit.call.message.id
    result: dict[str, Any] = {}
    if permit.call.profile is Profile.MODERN:
        result = {"resultType": "complete", "_meta": {SUBSCRIPTION_KEY: id_}}
    body = jsontext.write({"jsonrpc": "2.0", "id": id_, "result": result}).encode()
    return RawAnswer(status=HTTPStatus.OK, headers=(CONTENT_TYPE,), session=None, body=body)


async def _in_time(work: Coroutine[Any, Any, Found]) -> Found:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await work
    except TimeoutError as error:
        raise late("subscription", _PATIENCE_S) from error


async def _close(events: AsyncIterator[ServerEvent]) -> None:
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()

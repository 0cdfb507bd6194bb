"""Sessions of the gateway's own with one upstream of the legacy revisions."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from gateway.domain.calls import (
    Form,
    Message,
    Permit,
    RawAnswer,
    ServerEvent,
)
from gateway.domain.tools import Profile
from gateway.errors import GatewayError, LimitExceeded, UpstreamFailed, UpstreamResting
from gateway.ports import Upstream
from gateway.upstream.client import LEGACY_REVISIONS
from gateway.upstream.faults import unusable
from gateway.upstream.replies import ErrorAnswer, discard, result_of
from gateway.wire import headers as names
from gateway.wire import jsontext
from gateway.wire.eras import ACCEPT, SELF
from gateway.wire.inbound import CONTENT_TYPE
from gateway.wire.jsonrpc import METHOD_NOT_FOUND
from gateway.wire.jsontext import WireLimits
from gateway.wire.own_abilities import abilities_of, capabilities_of
from gateway.wire.tracing import trace_headers

_END_S: Final = 2.0
"""How long leaving may take."""
_LISTEN_S: Final = 1.0
"""How long a server may take to say whether it offers a stream."""
_PONG_S: Final = 10.0
"""How long it may take to answer a ping. The next one is due some time after that."""
_MISSED: Final = 2
"""Pings in a row without an answer that end a session: one is lost now and then."""
_AGAIN_S: Final = 1.0
"""The pause before a stream is opened again that ended; twice as long after each that broke."""
_SELDOM_S: Final = 60.0
"""The longest of these."""
_MOST_OF_ONE: Final = 32
"""Sessions of one person, with whatever clients and what these can do."""
_OPENING: Final = "front-open"
_PING: Final = "front-ping"

EMPTY: Final = Message(form=Form.NOTIFICATION, method="", id=None, params={}, body=b"")
"""In the place of a message that is not kept."""

Key: TypeAlias = tuple[str, str, str]
"""A principal, the abilities of its client, and its person."""


class Session:
    """One session, while it is used."""

    def __init__(
        self, key: Key, id_: str | None, revision: str, begun_by: Permit, *, logs: bool
    ) -> None:
        self.key = key
        self.id = id_
        """`None` with an upstream that keeps no sessions."""
        self.revision = revision
        self.begun_by = begun_by
        self.logs = logs
        """Whether the upstream lets its clients say how much it is to log."""
        self.level = ""
        """What it was told last; empty for nothing."""
        self.under_way = 0
        """Requests in it that have no answer yet."""
        self.listening: asyncio.Task[None] | None = None
        """Hears what the upstream says beside its answers, for as long as it offers that."""
        self.hears = asyncio.Event()
        """Whether it is known if it does."""
        self.pinging: asyncio.Task[None] | None = None
        self.forgotten = False
        """The upstream says that it has no such session."""
        self.ends = False
        """Whether it ends with the last request in it."""
        self.used_at = asyncio.get_running_loop().time()

    @property
    def abilities(self) -> str:
        """What the clients in it can be asked."""
        return self.key[1]


class Sessions:
    """One for each principal and set of abilities; begun when first needed, ended when idle."""

    def __init__(
        self,
        relay: Upstream,
        *,
        heard: Callable[[Session, bytes], Awaitable[None]],
        wire: WireLimits,
        idle_s: float,
        ping_s: float | None = None,
        most: int = 1_000,
    ) -> None:
        """`heard` is given what the upstream says beside its answers.

        Every `ping_s` seconds a session in which nothing is asked is tried; for `None` none is.
        `most` is how many sessions there may be at once, whoever they are for; one person has fewer.
        """
        self._relay = relay
        self._heard = heard
        self._wire = wire
        self._idle_s = idle_s
        self._ping_s = ping_s
        self._most = most
        self._open: dict[Key, asyncio.Task[Session]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self.followed: Container[tuple[str, str, Profile]] = ()
        """The principals and abilities whose sessions are in use because resources are followed in them."""

    async def of(self, permit: Permit, *, ends_others: bool = True) -> Session:
        """Return the session for a permitted call, begun if there is none.

        Of many calls at once one begins it. A caller who goes away ends it for nobody else.
        `ends_others` is whether another one may be ended where there is no room.

        Raises:
            UpstreamFailed, CredentialRequired, LimitExceeded: It cannot be begun.

        """
        who = permit.principal
        key = (who.key, abilities_of(permit.session), who.person)
        opening = self._open.get(key)
        if opening is None:
            self._make_room(who.person, ends_others=ends_others)
            # Without what the call says that it is begun for: it may be large, a session is kept for
            # long, and whoever else waits for it has another one.
            leave = replace(worded(permit, EMPTY, permit.session, ""), access=None)
            opening = self._open[key] = asyncio.create_task(self._begin(key, leave))
            opening.add_done_callback(lambda task: self._begun(key, task))
        try:
            session = await asyncio.shield(opening)
        except GatewayError as error:
            # What left, if anything did, was to begin it, for all who wait.
            raise error.of_one(has_left=False) from error
        session.used_at = asyncio.get_running_loop().time()
        return session

    def left(self, session: Session) -> None:
        """Take note that a request in this session is over."""
        session.used_at = asyncio.get_running_loop().time()
        session.under_way -= 1
        if session.ends and not session.under_way and self._has(session):
            self._end_soon(session.key)

    def end_of(self, principal: str) -> None:
        """End the sessions for one principal, each as soon as nothing is under way in it."""
        for key, task in tuple(self._open.items()):
            if key[0] != principal:
                continue
            session = _begun_in(task)
            if session is None:
                # For whoever waits for it, and for nobody after.
                task.add_done_callback(_end_with_the_last)
                continue
            session.ends = True
            if not session.under_way:
                self._end_soon(key)

    def forget(self, session: Session) -> None:
        """Take note that the upstream knows this session no more."""
        if self._has(session):
            del self._open[session.key]
            _stop(session)

    async def aclose(self) -> None:
        """End every session."""
        begins = [task for task in self._open.values() if not task.done()]
        for task in begins:
            task.cancel()
        await asyncio.gather(*begins, return_exceptions=True)
        for key in tuple(self._open):
            self._end_soon(key)
        await asyncio.gather(*self._ending)

    def _begun(self, key: Key, task: asyncio.Task[Session]) -> None:
        session = _begun_in(task)
        if session is not None:
            self._look_again(key, session, self._idle_s)
            if self._ping_s is not None and session.id is not None:
                session.pinging = asyncio.create_task(self._ping(session, self._ping_s))
        elif self._open.get(key) is task:
            del self._open[key]  # the next call tries again

    async def _begin(self, key: Key, permit: Permit) -> Session:
        params = {
            "protocolVersion": LEGACY_REVISIONS[0],
            "capabilities": capabilities_of(key[1]),
            "clientInfo": SELF,
        }
        asked = request(_OPENING, "initialize", params)
        answer = await self._relay.forward(worded(permit, asked, None, ""))
        result, _ = await result_of(permit.call.server, answer, "initialize", _OPENING, self._wire)
        revision = result.get("protocolVersion")
        if revision not in LEGACY_REVISIONS:
            raise unusable("initialize: it speaks a revision that the gateway does not know")
        declared = result.get("capabilities")
        logs = isinstance(declared, dict) and "logging" in declared
        told = notification("notifications/initialized")
        leave = worded(permit, told, answer.session, revision)
        # What is said in it later is no part of that call's trace, and goes whatever becomes of it.
        session = Session(key, answer.session, revision, leave.lasting, logs=logs)
        accepted = await self._relay.forward(leave)
        await discard(accepted)
        if accepted.status >= HTTPStatus.BAD_REQUEST:
            raise unusable(f"notifications/initialized: status {accepted.status}")
        if session.id is not None:
            session.listening = asyncio.create_task(self._listen(session))
            with suppress(TimeoutError):
                # A server that asks beside an answer asks nobody who does not listen by then.
                async with asyncio.timeout(_LISTEN_S):
                    await session.hears.wait()
        return session

    async def _listen(self, session: Session) -> None:
        """Hear what the upstream says by itself, until it offers that no more."""
        message = Message(form=Form.STREAM, method="GET", id=None, params={}, body=b"")
        listening = worded(session.begun_by, message, session.id, session.revision)
        in_vain = 0
        try:
            while True:
                try:
                    answer = await self._relay.forward(listening)
                    if not isinstance(answer.body, bytes):
                        in_vain = 0
                        await self._hear(session, answer, answer.body)
                    elif answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                        return
                    else:
                        in_vain += 1
                except (UpstreamFailed, LimitExceeded):
                    # It broke, which does not say that there is no other one.
                    in_vain += 1
                session.hears.set()
                await asyncio.sleep(min(_AGAIN_S * 2.0 ** min(in_vain, 32), _SELDOM_S))
        except GatewayError:
            # Calls go on without; the next session tries again.
            return
        finally:
            session.hears.set()
            session.listening = None

    async def _hear(
        self, session: Session, answer: RawAnswer, events: AsyncIterator[ServerEvent]
    ) -> None:
        session.hears.set()
        try:
            async for event in events:
                if event.data is not None:
                    await self._heard(session, event.data)
        finally:
            await discard(answer)

    async def _ping(self, session: Session, every_s: float) -> None:
        """Ask again and again whether the upstream is there; if it is not, end the session."""
        missed = 0
        while missed < _MISSED:
            await asyncio.sleep(every_s)
            # A request that is under way has clocks of its own, and a server may do one at a time.
            if session.under_way or await self._is_there(session):
                missed = 0
            else:
                missed += 1
            if session.forgotten:
                break
        session.pinging = None  # which must not end itself halfway
        self._give_up(session)

    def _give_up(self, session: Session) -> None:
        if session.under_way:
            self.forget(session)
        elif self._has(session):
            self._end_soon(session.key)

    async def _is_there(self, session: Session) -> bool:
        leave = worded(session.begun_by, request(_PING, "ping", {}), session.id, session.revision)
        try:
            async with asyncio.timeout(_PONG_S):
                answer = await self._relay.forward(leave)
                await result_of(leave.call.server, answer, "ping", _PING, self._wire)
        except UpstreamResting:
            return True  # nobody has asked
        except ErrorAnswer as error:
            # With the same status it says that it has forgotten the session.
            is_missing = error.status == HTTPStatus.NOT_FOUND
            session.forgotten = is_missing and error.rpc_code != METHOD_NOT_FOUND
            return error.means_unknown and not session.forgotten
        except (GatewayError, TimeoutError):
            return False
        return True

    def _has(self, session: Session) -> bool:
        """Whether this is the session of its principal and abilities, for calls to come too."""
        return _begun_in(self._open.get(session.key)) is session

    def _make_room(self, person: str, *, ends_others: bool) -> None:
        """End what was used longest ago, where there is no room for another one of `person`.

        It is one of their own, where they have as many as one may, or else of whoever has most.
        """
        held = Counter(key[2] for key in self._open)
        is_theirs = held[person] >= _MOST_OF_ONE
        if not is_theirs and len(self._open) < self._most:
            return
        unused = [
            (-held[key[2]], session.used_at, key)
            for key, task in self._open.items()
            if (not is_theirs or key[2] == person)
            and (session := _begun_in(task)) is not None
            and not session.under_way
            and (*key[:2], Profile.LEGACY) not in self.followed
        ]
        if not (unused and ends_others):
            raise unusable("too many of its sessions are in use")
        self._end_soon(min(unused)[2])

    def _look_again(self, key: Key, session: Session, after_s: float) -> None:
        asyncio.get_running_loop().call_later(after_s, self._end_if_idle, key, session)

    def _end_if_idle(self, key: Key, session: Session) -> None:
        if not self._has(session):
            return
        left_s = session.used_at + self._idle_s - asyncio.get_running_loop().time()
        if left_s <= 0 and not session.under_way:
            self._end_soon(key)
        else:
            self._look_again(key, session, max(left_s, self._idle_s / 10))

    def _end_soon(self, key: Key) -> None:
        session = _begun_in(self._open.pop(key))
        if session is None:
            return
        task = asyncio.create_task(self._end(session))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, session: Session) -> None:
        _stop(session)
        if session.id is None:
            return
        message = Message(form=Form.END, method="DELETE", id=None, params={}, body=b"")
        try:
            async with asyncio.timeout(_END_S):
                leaving = worded(session.begun_by, message, session.id, session.revision)
                await discard(await self._relay.forward(leaving))
        except (GatewayError, TimeoutError):
            # A server that does not take leave forgets sessions by itself.
            return


def _stop(session: Session) -> None:
    for task in (session.listening, session.pinging):
        if task is not None:
            task.cancel()


def _end_with_the_last(task: asyncio.Task[Session]) -> None:
    session = _begun_in(task)
    if session is not None:
        session.ends = True


def _begun_in(task: asyncio.Task[Session] | None) -> Session | None:
    """Return the session that `task` has begun; `None` if it has not, or in vain."""
    if task is None or not task.done() or task.cancelled() or task.exception() is not None:
        return None
    return task.result()


def worded(permit: Permit, message: Message, session: str | None, revision: str) -> Permit:
    """Return `permit` as leave to send `message`, which says in an upstream's session what it allows.

    Nothing is permitted here: of the message that was decided on, or that a decided one needs before
    it, only id, token, session and revision are other ones.
    """
    version = ((names.VERSION, revision),) if revision else ()
    headers = (CONTENT_TYPE, ACCEPT, *version, *trace_headers(permit.call))
    call = permit.call.saying(message, headers)
    return replace(permit, call=call, session=session)


def request(id_: str, method: str, params: Mapping[str, Any]) -> Message:
    """Return a request under an id of ours."""
    content = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
    body = jsontext.write(content).encode()
    return Message(form=Form.REQUEST, method=method, id=id_, params=params, body=body)


def notification(method: str, params: Mapping[str, Any] | None = None) -> Message:
    """Return a notification."""
    content = {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}
    body = jsontext.write(content).encode()
    return Message(form=Form.NOTIFICATION, method=method, id=None, params=params or {}, body=body)

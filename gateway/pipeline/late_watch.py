"""Clients that listen for their tasks: the gateway looks in their place, and tells what it sees.

What is told is the answer to a `tasks/get` of theirs, which was judged and put on record as any. No
server is asked to tell of tasks by itself, so none can tell anybody of somebody else's.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias

from gateway.domain.calls import Call, CallId, Reply
from gateway.domain.identity import Credential, Principal
from gateway.domain.nodes import most_nodes
from gateway.domain.tools import OWN, Profile, UpstreamId
from gateway.errors import GatewayError, ProtocolError, Stopped
from gateway.pipeline.late_handles import LateHandles
from gateway.ports import Clock
from gateway.turns import finished
from gateway.wire.eras import headers_for
from gateway.wire.extensions import with_params
from gateway.wire.inbound import meta_of
from gateway.wire.jsonrpc import INVALID_PARAMS
from gateway.wire.jsontext import WireLimits
from gateway.wire.notices import acknowledging, task_told
from gateway.wire.operations import LISTEN, TASKS_GET, watched
from gateway.wire.rounds import REQUESTS
from gateway.wire.server_message import ServerMessage, read_server_message
from gateway.wire.sse import data_event, events_of, framed
from gateway.wire.tasks import TASK_ID, Status, declares_tasks, server_of, undeclared

_MOST_STREAMS: Final = 20
"""Of one person, with whatever clients, on which tasks are told of."""
_PACE_S: Final = 1.0
"""A stream looks at one task in so many seconds: each look is one of its principal's calls a minute."""
_AGAIN_S: Final = 30.0
"""After how long one is looked at again of which nothing could be told."""
_ENDS: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
_DROPPED: Final = frozenset({"progressToken"})

Told: TypeAlias = Mapping[str, Any]
Parts: TypeAlias = AsyncGenerator[bytes, None]


class Carrier(Protocol):
    """An endpoint."""

    async def known(self, credential: Credential, endpoint: str) -> Principal:
        """Return whoever holds `credential` at `endpoint`, or raise why nobody does."""
        ...

    async def handle(self, call: Call) -> Reply:
        """Carry `call` to its reply, which may be a refusal; raises nothing of ours."""
        ...

    async def refuse(self, call: Call, error: GatewayError) -> Reply:
        """Refuse what could not be read as a call, and record it like any refusal."""
        ...


class WatchedTasks:
    """A `Carrier` whose clients hear of their tasks (2026-07-28, subscriptions/listen, `taskIds`)."""

    def __init__(
        self,
        carrier: Carrier,
        *,
        servers: Collection[UpstreamId],
        handles: LateHandles,
        limits: WireLimits,
        clock: Clock,
        pause: Callable[[float], Awaitable[None]],
        new_id: Callable[[], str],
    ) -> None:
        """`servers` are those that may answer late; in front of all, any of them.

        By `clock`, in seconds since whenever, it is told what is due, and `pause` takes as many.
        """
        self._carrier = carrier
        self._servers = servers
        self._handles = handles
        self._limits = limits
        self._clock = clock
        self._pause = pause
        self._new_id = new_id
        self._streams: Counter[str] = Counter()
        self.known = carrier.known
        self.refuse = carrier.refuse

    async def handle(self, call: Call) -> Reply:
        """Carry `call` to its reply; on a stream that it opens, its client hears of its tasks."""
        message = call.message
        if message.method != LISTEN or call.profile is not Profile.MODERN:
            return await self._carrier.handle(call)
        try:
            wanted = watched(message.params, rpc_id=message.id)
            if wanted and self._may_be_late(call) and not declares_tasks(message):
                raise undeclared(message)
        except ProtocolError as error:
            return await self._carrier.refuse(call, error)
        if not wanted or not self._may_be_late(call):
            return await self._carrier.handle(call)
        try:
            who = await self.known(call.credential, call.endpoint)
        except GatewayError as error:
            return await self._carrier.refuse(call, error)
        handles = self._owned(call, who, wanted)
        if not handles or not self._take(who.person):
            return await self._carrier.handle(call)
        return await self._watching(call, who.person, handles)

    async def _watching(self, call: Call, who: str, handles: Sequence[str]) -> Reply:
        """Carry `call` to its reply; what is no stream gives the place of one back."""
        streams = False
        try:
            # The handles themselves go nowhere: the protocol's own messages have no place for them.
            reply = await self._carrier.handle(call)
            if isinstance(reply.body, bytes):
                return reply
            streams = True
            parts = self._beside(call, who, reply.body, handles, reply.require_going)
            return replace(reply, body=parts)
        finally:
            if not streams:
                self._left(who)

    def _may_be_late(self, call: Call) -> bool:
        return call.server in self._servers or (call.server == OWN and bool(self._servers))

    def _owned(self, call: Call, who: Principal, wanted: Sequence[str]) -> list[str]:
        """Return those of these handles that are of its client's own tasks, here."""

        def is_own(handle: str) -> bool:
            server = UpstreamId(server_of(handle) or "") if call.server == OWN else call.server
            found = self._handles.find(
                handle, principal=who.key, server=server, endpoint=call.endpoint
            )
            return found is not None

        return [handle for handle in wanted if is_own(handle)]

    async def _beside(
        self,
        call: Call,
        who: str,
        parts: Parts,
        handles: Sequence[str],
        require_going: Callable[[], None],
    ) -> Parts:
        """Yield what a stream says, that it tells of these tasks, and what becomes of them."""
        changes = self._changes(call, who, handles)
        waiting: dict[asyncio.Future[bytes | None], Parts] = {}

        def ask(source: Parts) -> None:
            waiting[asyncio.ensure_future(_next(source))] = source

        agreed = False
        try:
            ask(parts)
            yield b""
            while parts in waiting.values():
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    source, part = waiting.pop(one), one.result()
                    if part is None:
                        continue
                    told = None if agreed else self._agreeing(part, handles)
                    if told is not None:
                        agreed = True
                        ask(changes)
                    if part:
                        require_going()  # what came while the one before was sent has waited here
                        yield part if told is None else told
                    ask(source)
        except Stopped:
            return  # it ends, and whoever listens again is told
        finally:
            self._left(who)
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            await changes.aclose()
            await parts.aclose()

    def _take(self, who: str) -> bool:
        """Have one more stream tell `who` of tasks, from now on, and return whether there was room."""
        if self._streams.get(who, 0) >= _MOST_STREAMS:
            return False
        self._streams[who] += 1
        return True

    def _left(self, who: str) -> None:
        self._streams[who] -= 1
        if not self._streams[who]:
            del self._streams[who]

    def _agreeing(self, part: bytes, handles: Sequence[str]) -> bytes | None:
        """Return `part` saying that these are told of as well; `None` if it says nothing of the kind."""
        if not part:
            return None
        changed, found = b"", False
        for event in events_of(part, self._limits):
            said = None
            if event.data is not None:
                said = acknowledging(read_server_message(event.data, self._limits), handles)
            found = found or said is not None
            changed += event.raw if said is None else framed(event, said)
        return changed if found else None

    async def _changes(self, call: Call, who: str, handles: Sequence[str]) -> Parts:
        """Yield what becomes of each, whenever that is something else, until all have ended."""
        clock = self._clock
        due, said = dict.fromkeys(handles, clock()), dict[str, Any]()
        while due:
            handle = min(due, key=due.__getitem__)
            await self._pause(due[handle] - clock())
            told, nodes = await self._look(call, who, handle)
            if told is None:
                due[handle] = clock() + _AGAIN_S
            elif not told or told["status"] in _ENDS:
                del due[handle]
            else:
                due[handle] = clock() + told["pollIntervalMs"] / 1000
            if told and said.get(handle, _NOTHING) != _said(told):
                said[handle] = _said(told)
                text = await finished(who, nodes, task_told, told, call.message.id)
                yield data_event(text).raw
            await self._pause(_PACE_S)

    async def _look(self, call: Call, who: str, handle: str) -> tuple[Told | None, int]:
        """Return what is told of a task now, and how much work that is.

        It is nothing if it is none any more, or its client nobody, and `None` if nothing can be told
        now.
        """
        id_ = self._new_id()
        meta = {name: one for name, one in meta_of(call.message).items() if name not in _DROPPED}
        params = {TASK_ID: handle, "_meta": meta}
        message = with_params(replace(call.message, method=TASKS_GET, id=id_), params)
        headers = headers_for(Profile.MODERN, message, handle, ())
        asked = replace(call, id=CallId(id_), message=message, headers=headers)
        reply = await self._carrier.handle(asked)
        if reply.code == "unauthenticated":
            return {}, 0
        if not isinstance(reply.body, bytes) or not reply.body:
            return None, 0
        nodes = most_nodes(len(reply.body))
        found = await finished(who, nodes, read_server_message, reply.body, self._limits)
        return _told_in(found), nodes


def _told_in(answer: ServerMessage) -> Told | None:
    if answer.error is not None:
        return {} if answer.error.get("code") == INVALID_PARAMS else None
    return answer.result if answer.result and "status" in answer.result else None


def _said(told: Told) -> tuple[Any, ...]:
    """Return what is another when a client is to hear of it; what has ended changes no more."""
    return told["status"], told.get("statusMessage", ""), tuple(told.get(REQUESTS, ()))


_NOTHING: Final = (Status.WORKING, "", ())


async def _next(parts: Parts) -> bytes | None:
    return await anext(parts, None)

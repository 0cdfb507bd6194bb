"""One request to an upstream, under an id of the gateway's own, while it is under way."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Final, TypeVar

from gateway.domain.calls import Message, Permit, RawAnswer, ServerEvent, whatever_has_changed
from gateway.domain.room import SHARE, Room
from gateway.errors import UpstreamFailed
from gateway.upstream.faults import unusable
from gateway.upstream.own_sessions import Session, worded
from gateway.wire import jsontext
from gateway.wire.server_message import ServerMessage

_MOST_BESIDE: Final = 16
"""Messages of an upstream's, beside its answer, that wait for a client."""
_LARGE: Final = 64 * 1024
"""Bytes of them. One that is larger waits alone, and for somebody who reads."""

Found = TypeVar("Found")


class Beside:
    """What an upstream says meanwhile, and not on the stream of the answer, until it is taken.

    Whoever says it waits for nobody. One that is larger than all that may wait has its room where
    answers have theirs, until the next message is asked for; before anybody has asked for one it has
    none, for it would keep others' answers out for as long as the call takes.
    """

    def __init__(self) -> None:
        share = SHARE.get()
        self._room = Room() if share is None else share.answers
        self._who = "" if share is None else share.who
        self._said: asyncio.Queue[tuple[ServerEvent, int]] = asyncio.Queue(_MOST_BESIDE)
        """Each with what it has taken of the room."""
        self._octets = 0
        self._is_read = False
        self._given = 0
        """What that has taken which was given out last."""

    def put(self, event: ServerEvent) -> bool:
        """Add a message, and return whether there was room for it."""
        octets = self._octets + len(event.raw)
        is_large = octets > _LARGE
        if self._said.full() or (is_large and (self._octets or not self._is_read)):
            return False
        taken = octets if is_large else 0
        if taken and not self._room.take(taken, self._who):
            return False
        self._octets = octets
        self._said.put_nowait((event, taken))
        return True

    async def get(self) -> ServerEvent:
        """Return the next message, once there is one; nobody holds the last one any more."""
        self._is_read = True
        self._give()
        event, self._given = await self._said.get()
        self._octets -= len(event.raw)
        return event

    def close(self) -> None:
        """Give everything back: nobody takes what is left."""
        self._give()
        while not self._said.empty():
            self._given = self._said.get_nowait()[1]
            self._give()

    def _give(self) -> None:
        self._room.give(self._given, self._who)
        self._given = 0


class Asking:
    """One request that is under way."""

    def __init__(self, permit: Permit, message: Message, token: Any) -> None:
        self.permit = permit
        self.message = message
        """As the upstream gets it."""
        self.token = token
        """The client's progress token, where it gave one."""
        self.session: Session | None = None
        self.beside_it = Beside()
        self.first: ServerEvent | None = None
        """What of that came before there was any answer."""
        self.answering: asyncio.Task[RawAnswer] | None = None
        """What waits for the answer, where something else came before it."""
        self.answered = False
        self._waiting: asyncio.Task[Any] | None = None
        self._cancelled = False

    @property
    def worded(self) -> Permit:
        """Leave to send it, in its session."""
        if self.session is None:
            call = replace(self.permit.call, message=self.message)
            return replace(self.permit, call=call, session=None)
        return worded(self.permit, self.message, self.session.id, self.session.revision)

    def beside(self, message: Message) -> Permit:
        """Return leave to send what belongs to it in its session, whatever has changed by then."""
        if self.session is None:
            raise unusable("there is no session to say it in")
        leave = worded(self.permit, message, self.session.id, self.session.revision)
        return replace(leave, access=None, last_look=whatever_has_changed)

    @property
    def hears(self) -> bool:
        """Whether the upstream may say something beside the answer."""
        return self.session is not None and self.session.listening is not None

    async def wait(self, work: Coroutine[Any, Any, Found]) -> Found:
        """Return what `work` does, unless the request is cancelled meanwhile.

        Raises:
            UpstreamFailed: The client cancelled it.

        """
        waiting: asyncio.Task[Found] = asyncio.create_task(work)
        self._waiting = waiting
        try:
            return await waiting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._cancelled or (task is not None and task.cancelling()):
                raise
            raise UpstreamFailed("the client cancelled the call") from None

    def cancel(self) -> None:
        """Wait for it no longer."""
        self._cancelled = True
        if self._waiting is not None:
            self._waiting.cancel()

    def named(self, message: ServerMessage) -> bytes:
        """Return `message`, which answers the request, under the client's own id."""
        return jsontext.write({**message.content, "id": self.permit.call.message.id}).encode()

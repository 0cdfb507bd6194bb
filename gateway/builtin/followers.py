"""Who follows which resources of which server, and what there is to be told of them."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from gateway.builtin.mailbox import Mailbox
from gateway.builtin.mailboxes import Key, Mailboxes
from gateway.builtin.names import public_uri
from gateway.domain.calls import Permit
from gateway.domain.tools import UpstreamId
from gateway.ports.front import SessionStore
from gateway.ports.listeners import holder_of

_MOST_RELISTED: Final = 10_000
"""Of how many principals and servers it is known how often their resources were others."""


class Leaving(Protocol):
    """What follows resources at a server for those who follow them here."""

    def leave(self, principal: str, holder: str) -> None:
        """Take note that a holder follows nothing any more."""
        ...


class Followers:
    """Takes what servers say, and leaves it where `Notices` finds it."""

    def __init__(
        self,
        *,
        boxes: Mailboxes,
        sessions: SessionStore,
        leaving: Callable[[], Iterable[Leaving]],
    ) -> None:
        """`leaving` are told of each holder that is forgotten."""
        self.news = asyncio.Event()
        """Set whenever there is something to look at."""
        self.sessions = sessions
        self._boxes = boxes
        self._leaving = leaving
        self._relisted: dict[tuple[str, str], int] = {}
        """Principal and server -> the newest time, counted, that it said so; under "" of any server."""
        self._times = 0

    async def joined(self, permit: Permit, uri: str) -> None:
        """Note a subscription; see `Listeners`."""
        key = (permit.principal.key, holder_of(permit))
        named = public_uri(permit.call.server, uri)
        if permit.session is not None:
            await self.sessions.subscribe(*key, named, person=permit.principal.person)
        self.box(permit, key[1], resumable=permit.session is not None).uris.add(named)

    async def left(self, permit: Permit, uri: str) -> None:
        """Note that a subscription has ended; see `Listeners`."""
        key = (permit.principal.key, holder_of(permit))
        named = public_uri(permit.call.server, uri)
        if permit.session is not None:
            await self.sessions.unsubscribe(*key, named, person=permit.principal.person)
        box = self._boxes.find(key)
        if box is not None:
            box.uris.discard(named)
            box.pending.pop((permit.call.server, uri), None)

    def updated(self, principal: str, holder: str, server: UpstreamId, uri: str) -> None:
        """Note that a resource has changed; see `Listeners`."""
        box = self._boxes.find((principal, holder))
        if box is not None:
            box.pending[server, uri] = None
            self.news.set()

    def relisted(self, server: UpstreamId, principal: str) -> None:
        """Note that a server lists other resources; see `Listeners`."""
        # No news of its own: whoever says so without end is heard once each time it is looked.
        self._times += 1
        for key in ((principal, server), (principal, "")):
            self._relisted.pop(key, None)
            self._relisted[key] = self._times
        while len(self._relisted) > _MOST_RELISTED:
            del self._relisted[next(iter(self._relisted))]

    def relisted_for(self, principal: str, server: str = "") -> int:
        """Return another number whenever `server`, or any, said so: to this principal or to all."""
        return max(self._relisted.get((who, server), 0) for who in ("", principal))

    def box(self, permit: Permit, holder: str, *, resumable: bool) -> Mailbox:
        """Return the mailbox of a holder, of whoever the permit is for, made where there is none."""
        key, person = (permit.principal.key, holder), permit.principal.person
        found = self._boxes.find(key)
        if found is None and (old := self._boxes.excess(person)) is not None:
            self.forget(old)
        box = found or self._boxes.of(key, person, resumable=resumable)
        if box.subscribed_by is not self:
            # Those that had subscribed at servers are no more: the next stream has to ask again.
            box.subscribed_by = self
            box.uris.intersection_update(box.descriptions)
        return box

    def abandon(self, holder: str) -> None:
        """Take note that a call whose subscriptions have begun will not listen after all."""
        for key in self._boxes.held_by(holder):
            self.forget(key)

    def forget_left_before(self, time: float) -> None:
        """Forget whoever nobody has listened for since `time`, of the event loop's clock."""
        for key in self._boxes.left_before(time):
            self.forget(key)

    def forget(self, key: Key) -> None:
        """End what is told to `key`, and what is followed for it at servers."""
        self._boxes.remove(key)
        for one in self._leaving():
            one.leave(*key)

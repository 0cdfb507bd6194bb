"""What is to be told to one holder of subscriptions, whether it listens now or comes back for it."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Final

from gateway.domain.calls import ServerEvent
from gateway.domain.tools import Kind, UpstreamId
from gateway.wire.sse import data_event

_MOST_KEPT: Final = 256
"""Events that a client that comes back can still get."""
LARGE: Final = 64 * 1024
"""Bytes of them: there are many mailboxes. One that is larger is kept alone."""
_QUIET_S: Final = 15.0
"""After how long without an event a comment keeps proxies from closing the connection."""
_COMMENT: Final = ServerEvent(raw=b": still here\n\n", data=None)
_AGAIN: Final = b"retry: 1000\ndata:\n\n"
"""How soon to come back where a stream ends, in milliseconds."""
_ID: Final = re.compile(r"(.+)-(\d{1,15})")


class Mailbox:
    """One holder's events: each is sent on one stream, and again only to whoever comes back for it.

    All of it is news that a client can find out by asking, so what is not kept any more is no loss.
    """

    def __init__(
        self,
        nonce: str,
        *,
        resumable: bool,
        grown: Callable[[int], object] = lambda _: None,
    ) -> None:
        """`nonce` begins every event's id, so that none is taken for another mailbox's.

        `grown` is told by how many bytes more, or less, of messages are kept.
        """
        self.prints: Mapping[Kind, str] | None = None
        """What its client was shown of each list when it was last told."""
        self.grown = grown
        self.pending: dict[tuple[UpstreamId, str], None] = {}
        """Servers' resources that have changed, and that it has not been told of."""
        self.uris: set[str] = set()
        """What it is subscribed to in this process, as its client calls it."""
        self.subscribed_by: object = None
        """Who subscribed to these at servers: after a reload nobody has."""
        self.descriptions: dict[str, str] = {}
        """Of those, our own, and what they said when it was last told of them."""
        self.left_at: float | None = asyncio.get_running_loop().time()
        """Since when nobody listens; `None` while somebody does."""
        self.closed = False
        self.is_full = False
        """Whether somebody waits for room."""
        self._nonce = nonce
        self._resumable = resumable
        self._kept: deque[tuple[int, bytes]] = deque()
        self._octets = 0
        self._last = 0
        self._sent = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def octets(self) -> int:
        """How many bytes of messages are kept."""
        return self._octets

    async def room_for(self, octets: int) -> None:
        """Return once a message of that size can be put and none is dropped that was never sent."""
        while self._last > self._sent and not self.closed:
            unsent = sum(len(data) for number, data in self._kept if number > self._sent)
            if unsent + octets <= LARGE and self._last - self._sent < _MOST_KEPT:
                return
            self._room.clear()
            self.is_full = True
            await self._room.wait()
            self.is_full = False

    async def taken(self) -> None:
        """Return once whoever listens has been sent all there is, or nobody does."""
        while self._last > self._sent and self.left_at is None and not self.closed:
            self._room.clear()
            await self._room.wait()

    def put(self, data: bytes) -> None:
        """Add a message."""
        before = self._octets
        self._last += 1
        self._kept.append((self._last, data))
        self._octets += len(data)
        while len(self._kept) > 1 and (len(self._kept) > _MOST_KEPT or self._octets > LARGE):
            self._octets -= len(self._kept.popleft()[1])
        self.grown(self._octets - before)
        self._news.set()

    def shed(self) -> None:
        """Keep nothing more of what was sent: nobody can come back for that."""
        before = self._octets
        while self._kept and self._kept[0][0] <= self._sent:
            self._octets -= len(self._kept.popleft()[1])
        self.grown(self._octets - before)

    def empty(self) -> None:
        """Keep no message any more, told or not; nobody waits for room."""
        before, self._octets = self._octets, 0
        self._kept.clear()
        self._sent = self._last
        self._room.set()
        self.grown(-before)

    def close(self) -> None:
        """End whatever stream there is, once it has told what there is to tell."""
        self.closed = True
        self._news.set()
        self._room.set()

    def cut(self) -> None:
        """End whatever stream there is at once; what it has not told the next one tells."""
        self._news.set()
        self._news = asyncio.Event()
        self._leave()

    async def events(self, after: str | None, *, primes: bool) -> AsyncGenerator[ServerEvent, None]:
        """Yield what is told from now on, after what was sent since the event with the id `after`.

        An id that is none of this mailbox's brings nothing back. A stream that was open before ends.
        `primes` is whether it begins with an id to come back with (2025-11-25, transports).
        """
        at = self._place(after)
        self._news.set()
        mine = self._news = asyncio.Event()
        self.left_at = None
        try:
            if primes:
                yield ServerEvent(raw=b"id: %s\n%s" % (self._id(at), _AGAIN), data=None)
            while self._news is mine:
                mine.clear()
                for number, data in [one for one in self._kept if one[0] > at]:
                    at = number
                    self._sent = max(self._sent, number)
                    self._room.set()
                    yield self._event(number, data)
                if self.closed and (not self._kept or at >= self._last):
                    return
                if not mine.is_set() and not await _within(mine, _QUIET_S):
                    yield _COMMENT
        finally:
            if self._news is mine:
                self._leave()

    def _leave(self) -> None:
        self.left_at = asyncio.get_running_loop().time()
        self._room.set()

    def _place(self, after: str | None) -> int:
        """Return behind which event a stream begins: what was never sent always is to come."""
        found = None if after is None else _ID.fullmatch(after)
        if found is None or found[1] != self._nonce:
            return self._sent
        return min(int(found[2]), self._sent)

    def _event(self, number: int, data: bytes) -> ServerEvent:
        event = data_event(data)
        if not self._resumable:
            return event
        return ServerEvent(raw=b"id: %s\n%s" % (self._id(number), event.raw), data=data)

    def _id(self, number: int) -> bytes:
        return f"{self._nonce}-{number}".encode()


async def _within(news: asyncio.Event, patience_s: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            return await news.wait()
    return False

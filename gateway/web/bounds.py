"""What is bounded of all connections of a listener, and of each."""

from collections.abc import Callable
from typing import Final, Protocol

from gateway.domain._value import value
from gateway.http1 import MOST_HEAD_BYTES
from gateway.web.heads import Heads


@value
class Bounds:
    """Of one listener. None of them can be switched off."""

    connections: int
    """Open at once. For one more the one is closed that has asked for nothing for longest; where each has
    something to wait for, the new one is, before it has said anything."""
    head_s: float = 10.0
    """From a connection's first moment, or a request's first byte, to the end of its head."""
    body_s: float = 45.0
    """From there to the request's last byte. An endpoint that answers with 408 is quicker."""
    idle_s: float = 75.0
    """From an answer to the next request's first byte."""
    head_bytes: int = MOST_HEAD_BYTES
    left_bytes: int = 4 * 1024 * 1024
    """Of a body that was answered before it was there: they are thrown away, so that its sender
    gets to read the answer. Then the connection is closed."""
    linger_s: float = 5.0
    """How long they are, where the answer says that it closes the connection: closed at once, it would
    be reset by what is still on its way, and its answer with it."""
    stall_s: float = 60.0
    """How long a client may leave what was sent to it unread."""
    half_bytes: int = 64 * 1024**2
    """Of all requests together that have begun and are not whole, and of what has come behind those that
    are not answered yet; beyond it the one that began first is refused. What the gateway reads for its
    principals is bounded by itself, far below."""
    unread_bytes: int = 16 * 1024**2
    """Of all clients together; beyond it the one that has not read for longest is let go."""


class One(Protocol):
    """A connection."""

    @property
    def unread_bytes(self) -> int:
        """How much is kept that its client has not read."""

    def let_go(self) -> None:
        """End it: its client does not read."""

    def refuse_half(self) -> None:
        """Refuse a request that is not whole, or has more behind it, and keep nothing of it."""

    def give_place(self) -> None:
        """Close for somebody new, and count no more."""


class Halves:
    """How many bytes have come that nobody reads yet, of requests that are not whole and behind those that
    are not answered: whoever sends them can leave it at that.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._kept: dict[One, int] = {}
        """The one that began first stands first."""
        self._octets = 0

    def note(self, each: One, octets: int) -> None:
        """Note how much there is of one, none of it once it is whole; make room if that is too much."""
        self._octets += octets - self._kept.get(each, 0)
        if octets:
            self._kept[each] = octets
        else:
            self._kept.pop(each, None)
        while self._octets > self._most:
            self.refuse_oldest()

    def refuse_oldest(self) -> bool:
        """Refuse the one that began first; false if there is none."""
        oldest = next(iter(self._kept), None)
        if oldest is not None:
            self._octets -= self._kept.pop(oldest)
            oldest.refuse_half()
        return oldest is not None


class Idle:
    """Connections on which nothing is asked for: those that have been so for longest stand first."""

    def __init__(self) -> None:
        self._kept: dict[One, None] = {}

    def add(self, each: One) -> None:
        self._kept[each] = None

    def leave(self, each: One) -> None:
        self._kept.pop(each, None)

    def close_oldest(self) -> bool:
        """Close the first; false if there is none."""
        oldest = next(iter(self._kept), None)
        if oldest is not None:
            del self._kept[oldest]
            oldest.give_place()
        return oldest is not None


class Together:
    """All connections of one listener."""

    def __init__(self, bounds: Bounds, count: Callable[[str], None] = lambda _: None) -> None:
        """`count` is called with the code of each refusal."""
        self.bounds = bounds
        self.count = count
        self.unread: dict[One, None] = {}
        """Those whose clients do not read, the longest first."""
        self.halves = Halves(bounds.half_bytes)
        self.idle = Idle()
        self.heads: dict[Heads, None] = {}
        """Those that keep a head."""

    def make_place(self) -> bool:
        """Let go of whoever waits for nothing, for somebody new; false if all that are there do.

        Else whoever opens as many connections as there may be, and says nothing, shuts out everybody.
        """
        return self.idle.close_oldest() or self.halves.refuse_oldest()

    def make_room(self) -> None:
        """Let go of whoever has not read for longest, while too much is kept for all of them."""
        kept = {each: each.unread_bytes for each in self.unread}
        octets = sum(kept.values())
        for each, size in kept.items():
            if octets <= self.bounds.unread_bytes:
                return
            octets -= size
            del self.unread[each]
            each.let_go()

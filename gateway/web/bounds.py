"""What is bounded of all connections of a listener, and of each."""

from typing import Final, Protocol

from gateway.domain._value import value
from gateway.http1 import MOST_HEAD_BYTES


@value
class Bounds:
    """Of one listener. None of them can be switched off."""

    connections: int
    """Open at once; one more is closed before it has said anything."""
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
    """Of all requests together that have begun and are not whole; beyond it the one that began first is
    refused. What the gateway reads for its principals is bounded by itself, far below."""
    unread_bytes: int = 16 * 1024**2
    """Of all clients together; beyond it the one that has not read for longest is let go."""


class Half(Protocol):
    """A connection on which a request has begun and is not whole."""

    def refuse_half(self) -> None:
        """Refuse it, and keep nothing of it."""


class Halves:
    """How many bytes have come of requests that are not whole: strangers can leave them so."""

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._kept: dict[Half, int] = {}
        """The one that began first stands first."""
        self._octets = 0

    def note(self, each: Half, octets: int) -> None:
        """Note how much there is of one, none of it once it is whole; make room if that is too much."""
        self._octets += octets - self._kept.get(each, 0)
        if octets:
            self._kept[each] = octets
        else:
            self._kept.pop(each, None)
        while self._octets > self._most:
            oldest = next(iter(self._kept))
            self._octets -= self._kept.pop(oldest)
            oldest.refuse_half()

"""What a client has not read yet, kept in pieces.

Whoever writes a large body at once has the event loop keep all of it until its last byte is taken,
though the system took most of it long ago: the loop itself counts only what is left.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

_PIECE: Final = 64 * 1024
"""Bytes; as much as a transport takes before it says that it is enough."""


class Pieces:
    """A transport that keeps what the one below does not take, and nothing more."""

    def __init__(
        self,
        below: asyncio.Transport,
        kept: Callable[[], object],
        taken: Callable[[asyncio.Transport], object] = lambda below: below.close(),
    ) -> None:
        """Call `kept` whenever there is more that is kept.

        `taken` ends the transport below, once it has taken all that was written before the close.
        """
        self._below = below
        self._kept = kept
        self._taken = taken
        self._left: deque[bytes] = deque()
        self._octets = 0
        self._paused = False
        self._closing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def write(self, data: bytes) -> None:
        """Hand on as much as the transport below takes, and keep the rest."""
        at = 0
        while at < len(data) and not self._left and not self._paused:
            self._below.write(data[at : at + _PIECE])
            at += _PIECE
        if at < len(data):
            self._left.extend(data[i : i + _PIECE] for i in range(at, len(data), _PIECE))
            self._octets += len(data) - at
            self._kept()

    def pause(self) -> None:
        """Keep what is written from now on: the transport below has enough."""
        self._paused = True

    def resume(self) -> bool:
        """Hand on what is left; return whether that is all, and the transport below wants more."""
        self._paused = False
        while self._left and not self._paused:
            piece = self._left.popleft()
            self._octets -= len(piece)
            self._below.write(piece)
        if self._closing and not self._left:
            self._taken(self._below)
        return not self._left and not self._paused

    def drop(self) -> None:
        """Forget what is left."""
        self._left.clear()
        self._octets = 0

    def close(self) -> None:
        """Close once everything was taken."""
        self._closing = True
        if not self._left:
            self._taken(self._below)

    def is_closing(self) -> bool:
        return self._closing or self._below.is_closing()

    def abort(self) -> None:
        self.drop()
        self._below.abort()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are kept, here and below."""
        return self._octets + self._below.get_write_buffer_size()

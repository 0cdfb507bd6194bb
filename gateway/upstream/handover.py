"""How a socket that listens inside a jail comes out of it."""

import asyncio
import socket
from types import TracebackType
from typing import Final, Self

_PATIENCE_S: Final = 10.0


class Handover:
    """A pair of sockets: one end is for the jail, at the other its listening socket comes out."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ours.close()
        self._theirs.close()

    @property
    def number(self) -> int:
        """The file descriptor that is for the jail."""
        return self._theirs.fileno()

    async def listener(self) -> socket.socket:
        """Return what the jail has handed out, once it was started with `number`.

        No other process that we start has it.

        Raises:
            OSError: It has handed out nothing, and will not.
            TimeoutError: Nothing came in time.

        """
        # So that the end of the jail is the end of the line.
        self._theirs.close()
        async with asyncio.timeout(_PATIENCE_S):
            await self._readable()
        _, numbers, _, _ = socket.recv_fds(self._ours, 1, 1)
        if not numbers:
            raise ConnectionAbortedError("the jail has handed out nothing")
        listener = socket.socket(fileno=numbers[0])
        # What is received is inheritable, unlike all else that Python opens (PEP 446).
        listener.set_inheritable(False)
        return listener

    async def _readable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._ours, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._ours)

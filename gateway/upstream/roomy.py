"""Room for what a server answers: large answers wait until there is some."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Hashable
from contextlib import asynccontextmanager
from typing import Final

from gateway.domain.room import FREE, SHARE, Share, Whose
from gateway.errors import LimitExceeded

_PATIENCE_S: Final = 60.0
_ARRIVAL_S: Final = 30.0
"""From the taking of room to the answer's end. Without it two answers that drip keep all others out for
as long as an answer may take; whoever waits has more patience than that."""


class Answering:
    """What one answer takes. Nothing while it is small; then all that it may come to, before it is read.

    Taking more and more of the room would have large answers wait for each other for ever.
    """

    def __init__(self, share: Share | None, most: int, server: Hashable) -> None:
        """`server` is what large answers take turns by."""
        self._share = share
        self._server = server
        self._most = most
        self._taken = 0
        self._until = 0.0

    async def next(self, piece: Awaitable[bytes]) -> bytes:
        """Return `piece`, which is what comes next of the answer.

        Raises:
            LimitExceeded: It has taken room, and comes too slowly.

        """
        if not self._taken:
            return await piece
        arrival = asyncio.timeout_at(self._until)
        try:
            async with arrival:
                return await piece
        except TimeoutError as error:
            if not arrival.expired():
                raise
            raise LimitExceeded("A large answer comes too slowly") from error

    async def grown(self, size: int) -> None:
        """Return once there is room for an answer of which `size` bytes are here.

        Raises:
            LimitExceeded: There was none in time.

        """
        if self._share is None or self._taken or size <= FREE:
            return
        self._share.let_go()
        self._share.waiting += 1
        taken = asyncio.get_running_loop().create_future()
        end_waiting = self._share.answers.wait(
            self._most,
            lambda: taken.set_result(None),
            Whose(server=self._server, principal=self._share.who),
        )
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await asyncio.shield(taken)
        except TimeoutError as error:
            raise LimitExceeded("too many large answers are under way") from error
        finally:
            self._share.waiting -= 1
            end_waiting()
            if taken.done():
                self._taken = self._most
                self._until = asyncio.get_running_loop().time() + _ARRIVAL_S

    def settle(self, size: int) -> None:
        """Keep `size` bytes for as long as the request lasts, and give the rest back."""
        if self._share is not None and self._taken:
            kept = min(size, self._taken)
            self._share.answers.give(self._taken - kept, self._share.who)
            self._share.hold(kept)
            self._taken = 0


@asynccontextmanager
async def answering(most: int, server: Hashable) -> AsyncIterator[Answering]:
    """Give what there is room for; what was not settled is given back."""
    found = Answering(SHARE.get(), most, server)
    try:
        yield found
    finally:
        found.settle(0)

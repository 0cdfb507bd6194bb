"""An answer as whoever waits for it reads it: its head, then piece by piece."""

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.domain._value import value
from gateway.http1.faults import HttpFault, Overdue, Silent
from gateway.http1.head import Fields, Head

_MUCH: Final = 256 * 1024
"""Read and not asked for: beyond that the peer has to wait."""


@value
class Patience:
    """How long an exchange may take, in seconds of the loop's clock."""

    idle_s: float | None
    """From one byte to the next."""
    until: float


class Response:
    """One answer, which comes in while it is read. Whoever holds it closes it.

    What is read and not asked for is bounded: a slow reader slows the peer. Where the peer is silent for
    too long, or the whole takes too long, it ends in a fault.
    """

    def __init__(
        self, patience: Patience, *, hold: Callable[[bool], None], end: Callable[[], None]
    ) -> None:
        """`hold` has the peer wait or go on; `end` gives the connection up, whatever is under way."""
        self._loop = asyncio.get_running_loop()
        self._patience = patience
        self._hold = hold
        self._end = end
        self._head: Head | None = None
        self._unread = bytearray()
        """One buffer: pieces would take many times their size where they are tiny."""
        self._held = False
        self._fault: HttpFault | None = None
        self.complete = False
        """Whether all of it has come; what has not been asked for yet can still be."""
        self.is_over = False
        """Whether nothing more comes, as all of it has or as it has failed."""
        self._waiter: asyncio.Future[None] | None = None
        self._heard = self._loop.time()
        self._timer = self._loop.call_at(self._next_look(), self._look)

    @property
    def head(self) -> Head:
        if self._head is None:
            raise RuntimeError("its head has not come yet")
        return self._head

    @property
    def status(self) -> int:
        return self.head.status

    @property
    def fields(self) -> Fields:
        return self.head.fields

    @property
    def length(self) -> int | None:
        """How many bytes the body is said to have, if it is said."""
        told = self.head.fields.first.get("content-length")
        return None if told is None else int(told)

    async def begun(self) -> None:
        """Return once its head is here.

        Raises:
            HttpFault: None came.

        """
        while self._head is None:
            await self._more()

    def whole(self, most: int) -> bytes | None:
        """Return all of the body if it has come by now, and is no more than `most` bytes.

        It is the first that is asked for of it; where nothing is returned it comes by `piece`.
        """
        if not self.complete or len(self._unread) > most:
            return None
        taken = bytes(self._unread)
        self._unread.clear()
        return taken

    async def piece(self) -> bytes:
        """Return what has come of the body since; nothing at its end.

        Raises:
            HttpFault: It broke off.

        """
        while not self._unread:
            if self.complete:
                return b""
            await self._more()
        taken = bytes(self._unread)
        self._unread.clear()
        self._let_go_on()
        return taken

    def close(self) -> None:
        """Give up what has not come; after a whole answer this changes nothing."""
        if not self.is_over:
            self._end()

    # What the connection tells it.

    def heard(self) -> None:
        """Note that the peer lives, or that something went out to it."""
        self._heard = self._loop.time()

    def begin(self, head: Head) -> None:
        self._head = head
        self._wake()

    def add(self, piece: bytes) -> None:
        self._unread += piece
        if len(self._unread) > _MUCH and not self._held:
            self._held = True
            self._hold(True)
        self._wake()

    def finish(self) -> None:
        self.complete = True
        self._over()

    def fail(self, fault: HttpFault) -> None:
        """Have it end here; what has come can still be read. It ends once."""
        if not self.is_over:
            self._fault = fault
            self._over()

    def _over(self) -> None:
        # From here on the connection may be somebody else's: nothing holds it, and nothing lets it go.
        self.is_over, self._held = True, False
        self._timer.cancel()
        self._wake()

    async def _more(self) -> None:
        if self._fault is not None:
            # Another of the same: raised itself, it would hold this, and this holds it.
            raise type(self._fault)(*self._fault.args)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _let_go_on(self) -> None:
        if self._held:
            self._held = False
            self._heard = self._loop.time()
            self._hold(False)

    def _next_look(self) -> float:
        idle_s, until = self._patience.idle_s, self._patience.until
        return until if idle_s is None else min(until, self._heard + idle_s)

    def _look(self) -> None:
        """End what takes too long; a peer that we have wait is not silent."""
        now = self._loop.time()
        if self._held:
            self._heard = now
        due = self._next_look()
        if due > now:
            self._timer = self._loop.call_at(due, self._look)
            return
        self.fail(Overdue() if now >= self._patience.until else Silent())
        self._end()

"""Hands every record of the log to a sink, in order and at least once, across restarts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from gateway.errors import AuditUnavailable
from gateway.ports.following import (
    CursorStore,
    NotDelivered,
    RecordSource,
    Refused,
    Sink,
    StoredRecord,
)
from gateway.turns import awaited_whole

logger = logging.getLogger(__name__)

_PAGE = 500
_LOOK_AGAIN_S = 0.5
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0
_LONGEST_ASKED_S = 600.0
"""How long a sink may ask us to wait."""
_STOPPED = "it has stopped; the gateway's log says why, and a restart begins it again"


class Follower:
    """One sink's place in the log. It never drops a record: a sink that fails is waited for.

    A record goes out only once it is in the log. The log itself is the queue, so a sink that is
    slow, or away for a day, costs no memory and holds up no call.
    """

    def __init__(
        self,
        name: str,
        *,
        source: RecordSource,
        cursors: CursorStore,
        sink: Sink,
        page: int = _PAGE,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Follow under `name`, which the cursor is kept under; `source` is this follower's own.

        `page` is how many records are handed on at once.
        """
        self.name = name
        self._source = source
        self._cursors = cursors
        self._sink = sink
        self._page = page
        self._asked_s = 0.0
        self._pause = pause
        self.done = -1
        """The leaf index of the last record that has arrived."""
        self.failing = ""
        """Why the last delivery failed; empty if it did not."""
        self.refused: Refused | None = None
        """The record that it stands at because the sink does not take it."""

    async def run(self) -> None:
        """Follow the log until cancelled. If it ends by itself, `failing` says so from then on."""
        try:
            await self._follow()
        finally:
            self.failing = _STOPPED

    async def _follow(self) -> None:
        kept = None
        while kept is None:
            with suppress(AuditUnavailable):
                kept = await self._begin()
            if kept is None:
                await self._pause(_FIRST_WAIT_S)
        self.done = kept
        while True:
            if not await self.step():
                await self._pause(_LOOK_AGAIN_S)

    async def step(self) -> bool:
        """Hand on the next page, as often as it takes; return whether there was one."""
        page: Sequence[StoredRecord] = ()

        async def read() -> None:
            nonlocal page
            page = await awaited_whole(partial(self._source.stored_after, self.done, self._page))

        if not await self._handed_on(read) or not page:
            return False
        wait = _FIRST_WAIT_S
        while page_left := [one for one in page if one.leaf_index > self.done]:
            if await self._handed_on(partial(self._sink.deliver, page_left)):
                break
            await self._pause(max(wait, self._asked_s))
            wait = min(wait * 2, _LONGEST_WAIT_S)
        last = page[-1].leaf_index
        while not await self._handed_on(lambda: self._cursors.move(self.name, last)):
            await self._pause(_FIRST_WAIT_S)
        self.done = last
        return True

    async def skip(self, leaf_index: int) -> None:
        """Pass over the record that it stands at: it counts as done with from now on, durably.

        Raises:
            LookupError: It stands at another one, or at none.
            AuditUnavailable: That cannot be kept now.

        """
        if self.refused is None or self.refused.leaf_index != leaf_index:
            raise LookupError(leaf_index)
        await self._cursors.move(self.name, leaf_index)
        self.done = max(self.done, leaf_index)
        self.refused = None

    async def _begin(self) -> int:
        kept = await self._cursors.cursor(self.name)
        if kept is None:
            # From here on nothing is removed from the log that has not arrived.
            await self._cursors.move(self.name, -1)
            return -1
        return kept

    async def _handed_on(self, attempt: Callable[[], Awaitable[None]]) -> bool:
        try:
            await attempt()
        except (NotDelivered, AuditUnavailable) as error:
            if not self.failing:
                logger.warning("%s does not take records, which wait: %s", self.name, error)
            self.failing = str(error) or "not delivered"
            asked_s = error.retry_after_s if isinstance(error, NotDelivered) else 0.0
            self._asked_s = min(asked_s, _LONGEST_ASKED_S)
            self.refused = error.refused if isinstance(error, NotDelivered) else None
            return False
        self.refused = None
        if self.failing:
            logger.info("%s takes records again", self.name)
            self.failing = ""
        return True

"""Group commit over few connections: what waits goes into one statement, then all are told.

A lane is one connection. It numbers what it appends and has one batch under way at a time, so what it
has put becomes visible in the order of its numbers; the log needs no other order.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure

from gateway.audit.record import Entry
from gateway.domain._value import value
from gateway.domain.premises import NOTHING
from gateway.errors import AuditUnavailable
from gateway.storage.committer import ENDED, NOT_RECORDED, NotAccepted
from gateway.storage.postgres.lane import Keeps, Lane, LaneLost, Mark, NotThere, Row
from gateway.storage.postgres.terms import Terms, row

logger = logging.getLogger(__name__)

_LARGEST_BATCH: Final = 256
_AGAIN_S: Final = 0.1
"""After this time a lost connection is tried again."""
_MOST_YIELDS: Final = 8
"""How often a batch yields to another replica's, before that is a failure."""


@value
class Kept:
    """What came of one record."""

    changed: str = ""
    """Why it was not kept: what of its premises failed. Empty if it was."""
    raised: tuple[str, ...] = ()
    """Runs that it has raised."""


class _Item:
    __slots__ = ("future", "has_begun", "row")

    def __init__(self, row: tuple[Any, ...], future: "asyncio.Future[Kept]") -> None:
        self.row = row
        self.future = future
        self.has_begun = False
        """Whether its batch is under way: it may be kept, whoever waits."""


class Lanes:
    """Puts for one event loop. What was awaited is durable; nothing is told before its commit."""

    def __init__(
        self,
        conninfo: str,
        *,
        replica: str,
        width: int = 1,
        deadline_s: float = 2.0,
        capacity: int = 10_000,
        keeps: Keeps = Keeps.POWER,
    ) -> None:
        """Put what is submitted once `open` was called.

        `width` is how many connections there are: few, for what a batch costs is by batch.
        `keeps`: what a record survives once it is acknowledged.
        """
        self._conninfo = conninfo
        self._replica = replica
        self._width = width
        self._deadline_s = deadline_s
        self._capacity = capacity
        self._keeps = keeps
        self._marks: dict[int, Mark] = {}
        """By lane's place, up to where the last one there was acknowledged."""
        self._waiting: deque[_Item] = deque()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._able: set[int] = set()
        """Which lanes have a connection, as far as anybody knows."""
        self._closing = False
        self.kept = 0
        """How many records were made durable."""
        self.problem = ""
        """Why the last attempt to put failed; empty if it did not."""

    async def open(self) -> None:
        """Connect every lane.

        Raises:
            AuditUnavailable: PostgreSQL cannot be reached.

        """
        try:
            lanes = [await self._opened(place) for place in range(self._width)]
        except (psycopg.Error, TimeoutError) as error:
            raise AuditUnavailable(NOT_RECORDED, detail=str(error)) from error
        self._able = set(range(self._width))
        for place, lane in enumerate(lanes):
            self._tasks.append(asyncio.create_task(self._work(place, lane)))

    async def close(self) -> None:
        """Put what is waiting, and let go of the connections."""
        self._closing = True
        self._wake.set()
        await asyncio.gather(*self._tasks)

    @property
    def depth(self) -> int:
        """How many records wait for a lane."""
        return len(self._waiting)

    async def put(self, entry: Entry, terms: Terms) -> Kept:
        """Return once `entry` is durable, or was found not to be kept on these terms.

        With what uses something up, once its batch is under way, it returns only when it is known
        what came of that: the deadline is then the server's, for each time that the batch is put.

        Raises:
            AuditUnavailable: It is not, or not known to be, durable within the deadline. It may still
                come to be in the log.

        """
        if self._closing or not self._able:
            raise AuditUnavailable(NOT_RECORDED, detail=self.problem or "the log is closed")
        if len(self._waiting) >= self._capacity:
            raise AuditUnavailable(NOT_RECORDED, detail="too many records wait")
        item = _Item(row(entry, terms), asyncio.get_running_loop().create_future())
        self._waiting.append(item)
        self._wake.set()
        try:
            await asyncio.wait([item.future], timeout=self._deadline_s)
            if item.future.done() or (item.has_begun and terms.uses is not NOTHING):
                return await item.future
        finally:
            item.future.cancel()  # unless it has a result: nobody waits any more
        raise AuditUnavailable(NOT_RECORDED, detail="the deadline has passed")

    async def _work(self, place: int, lane: Lane | None) -> None:
        """Put until the end; whatever ends it, nothing hangs."""
        try:
            while (batch := await self._next()) is not None:
                if lane is not None and await self._put_or_lost(place, lane, batch):
                    continue
                if lane is None:  # at the end no other one comes
                    self._refuse(batch, self.problem or ENDED)
                lane = await self._lane_again(place)
        finally:
            self._able.discard(place)
            self.problem = self.problem or ENDED
            self._refuse_if_unable(self.problem or ENDED)
            if lane is not None:
                await lane.close()

    async def _next(self) -> list[_Item] | None:
        """Return what is to be put next, which is something; `None` at the end."""
        while not (batch := self._batch()):
            if self._closing:
                return None
            self._wake.clear()
            await self._wake.wait()
        return batch

    def _batch(self) -> list[_Item]:
        batch: list[_Item] = []
        while self._waiting and len(batch) < _LARGEST_BATCH:
            item = self._waiting.popleft()
            if not item.future.done():  # whoever waited for it has been refused
                item.has_begun = True
                batch.append(item)
        return batch

    async def _put_or_lost(self, place: int, lane: Lane, batch: list[_Item]) -> bool:
        """Put a batch; false if the lane is lost, whatever it was lost by: another one goes on."""
        try:
            return await self._put(place, lane, batch)
        except Exception as error:
            logger.exception("putting records met a bug; another connection is made")
            self.problem = repr(error)
            self._refuse(batch, self.problem)
            await lane.close()
            return False

    async def _put(self, place: int, lane: Lane, batch: list[_Item]) -> bool:
        """Put a batch and tell everybody in it; false if the lane is lost."""
        try:
            return await self._put_on(lane, batch)
        finally:
            self._mark(place, lane)

    async def _put_on(self, lane: Lane, batch: list[_Item]) -> bool:
        first = lane.next
        try:
            rows = await self._answered(lane, batch)
        except LaneLost as error:
            self.problem = str(error)
            await self._tell_settled(lane, batch)
            return False
        except (
            psycopg.errors.OperationalError
        ) as error:  # it gave up waiting for a lock, or is full
            self.problem = str(error)
            self._refuse(batch, self.problem)
        except psycopg.Error as error:
            return await self._put_apart(lane, batch, str(error))
        else:
            self.problem = ""
            self.kept += len(batch) - sum(changed is not None for _, changed, _ in rows)
            _tell(batch, first, rows)
        return True

    async def _answered(self, lane: Lane, batch: list[_Item]) -> list[Row]:
        rows = [item.row for item in batch]
        for _ in range(_MOST_YIELDS):
            try:
                return await lane.put(rows, within_s=self._deadline_s)
            except (DeadlockDetected, SerializationFailure):
                logger.info("a batch had to yield to another replica's, and is put once more")
        return await lane.put(rows, within_s=self._deadline_s)

    async def _put_apart(self, lane: Lane, batch: list[_Item], why: str) -> bool:
        """Put each by itself: one of them cannot be kept, and the others are innocent."""
        if len(batch) == 1:
            self._refuse(batch, f"the record was not accepted: {why}", NotAccepted)
            return True
        for place, item in enumerate(batch):
            if not await self._put_on(lane, [item]):
                self._refuse(batch[place + 1 :], self.problem)
                return False
        return True

    async def _tell_settled(self, lane: Lane, batch: list[_Item]) -> None:
        """Tell those in a batch whose lane was lost what became of it, as far as can be known."""
        first = lane.next
        there = await lane.settled(within_s=self._deadline_s)
        for number, item in enumerate(batch, first):
            if there is not None and number in there:
                _answer(item, Kept())
            else:
                self._refuse([item], self.problem)
        await lane.close()

    async def _lane_again(self, place: int) -> Lane | None:
        """Return a new lane, however long that takes; `None` at the end.

        What was submitted meanwhile waits for the first attempt alone.
        """
        while not self._closing:
            try:
                lane = await self._opened(place)
            except (psycopg.Error, TimeoutError, NotThere) as error:
                self._failed(str(error) or "PostgreSQL did not answer in time", error)
                self._able.discard(place)
                self._refuse_if_unable(self.problem)
                await asyncio.sleep(_AGAIN_S)
            else:
                self.problem = ""
                self._able.add(place)
                return lane
        return None

    async def _opened(self, place: int) -> Lane:
        return await Lane.open(
            self._conninfo,
            replica=self._replica,
            keeps=self._keeps,
            within_s=self._deadline_s,
            after=self._marks.get(place),
        )

    def _failed(self, problem: str, error: Exception) -> None:
        if isinstance(error, NotThere) and problem != self.problem:
            logger.critical(
                "%s; nothing is recorded here until this gateway is started anew", problem
            )
        self.problem = problem

    def _mark(self, place: int, lane: Lane) -> None:
        # What a crash may take anyway, by the operator's word, is not missed.
        if lane.mark is not None and self._keeps is not Keeps.PROCESS:
            self._marks[place] = lane.mark

    def _refuse_if_unable(self, why: str) -> None:
        if not self._able:
            waiting = list(self._waiting)
            self._waiting.clear()
            self._refuse(waiting, why)

    def _refuse(
        self, items: Sequence[_Item], why: str, kind: type[AuditUnavailable] = AuditUnavailable
    ) -> None:
        for item in items:
            if not item.future.done():
                item.future.set_exception(kind(NOT_RECORDED, detail=why))


def _tell(batch: Sequence[_Item], first: int, rows: Sequence[Row]) -> None:
    lost = {n: changed for n, changed, _ in rows if changed is not None}
    raised: dict[int, list[str]] = {}
    for n, _, run in rows:
        if run is not None:
            raised.setdefault(n, []).append(run)
    for number, item in enumerate(batch, first):
        _answer(item, Kept(changed=lost.get(number, ""), raised=tuple(raised.get(number, ()))))


def _answer(item: _Item, kept: Kept) -> None:
    if not item.future.done():
        item.future.set_result(kept)

"""A follower hands on every record, in order, however often its sink fails."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from gateway.errors import AuditUnavailable
from gateway.export.follower import Follower
from gateway.ports.following import NotDelivered, StoredRecord


class Log:
    def __init__(self, size: int) -> None:
        self.records = [
            StoredRecord(leaf_index=index, leaf_hash=b"", body=b"{}") for index in range(size)
        ]

    def stored_after(self, leaf_index: int, limit: int) -> Sequence[StoredRecord]:
        return [record for record in self.records if record.leaf_index > leaf_index][:limit]


class Cursors:
    def __init__(self, *, refuses: int = 0, kept: int | None = None) -> None:
        self.kept = kept
        self.refuses = refuses

    async def cursor(self, name: str) -> int | None:
        self._refuse()
        return self.kept

    async def move(self, name: str, leaf_index: int) -> None:
        self._refuse()
        self.kept = leaf_index

    def _refuse(self) -> None:
        if self.refuses:
            self.refuses -= 1
            raise AuditUnavailable("no", detail="the disk is full")


class Receiver:
    def __init__(self, *, refuses: int = 0) -> None:
        self.refuses = refuses
        self.got: list[int] = []

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        if self.refuses:
            self.refuses -= 1
            raise NotDelivered("it is away")
        self.got += [record.leaf_index for record in records]


class Pauses:
    """Counts the pauses, and ends the work at the first one without anything to do."""

    def __init__(self, most: int) -> None:
        self.taken: list[float] = []
        self._most = most

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        if len(self.taken) > self._most:
            raise _Enough


class _Enough(Exception):
    pass


async def followed(log: Log, cursors: Cursors, sink: Receiver, pauses: int) -> Pauses:
    pause = Pauses(pauses)
    follower = Follower("siem", source=log, cursors=cursors, sink=sink, pause=pause)
    with pytest.raises(_Enough):
        await follower.run()
    return pause


async def test_every_record_is_handed_on_in_order_and_the_place_is_kept() -> None:
    sink, cursors = Receiver(), Cursors()
    await followed(Log(1200), cursors, sink, 0)
    assert sink.got == list(range(1200))
    assert cursors.kept == 1199


async def test_it_goes_on_where_it_was() -> None:
    sink = Receiver()
    await followed(Log(10), Cursors(kept=6), sink, 0)
    assert sink.got == [7, 8, 9]


async def test_a_sink_that_fails_is_waited_for_longer_each_time() -> None:
    sink, cursors = Receiver(refuses=8), Cursors()
    pause = await followed(Log(3), cursors, sink, 8)
    assert pause.taken[:8] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert sink.got == [0, 1, 2]
    assert cursors.kept == 2


async def test_a_cursor_that_cannot_be_kept_holds_up_what_follows() -> None:
    sink, cursors = Receiver(), Cursors(refuses=3)
    await followed(Log(600), cursors, sink, 3)
    assert sink.got == list(range(600))
    assert cursors.kept == 599


async def test_what_fails_is_said_and_then_no_longer() -> None:
    said: list[str] = []
    sink = Receiver(refuses=1)

    async def pause(_: float) -> None:
        said.append(follower.failing)

    follower = Follower("siem", source=Log(1), cursors=Cursors(), sink=sink, pause=pause)
    assert await follower.step()
    assert said == ["it is away"]
    assert follower.failing == ""
    assert not await follower.step()


async def test_a_new_follower_holds_its_place_before_anything_has_arrived() -> None:
    sink, cursors = Receiver(refuses=2), Cursors()
    await followed(Log(3), cursors, sink, 1)
    assert sink.got == []
    assert cursors.kept == -1


async def test_a_log_that_cannot_be_read_is_waited_for() -> None:
    class Away(Log):
        refuses = 2

        def stored_after(self, leaf_index: int, limit: int) -> Sequence[StoredRecord]:
            if self.refuses:
                self.refuses -= 1
                raise AuditUnavailable("no", detail="it is locked")
            return super().stored_after(leaf_index, limit)

    sink = Receiver()
    await followed(Away(3), Cursors(), sink, 2)
    assert sink.got == [0, 1, 2]


async def test_a_sink_that_is_away_for_long_costs_one_page() -> None:
    class Counted(Log):
        handed = 0

        def stored_after(self, leaf_index: int, limit: int) -> Sequence[StoredRecord]:
            page = super().stored_after(leaf_index, limit)
            self.handed += len(page)
            return page

    log, pause = Counted(10_000), Pauses(2_000)
    sink = Receiver(refuses=10**9)
    follower = Follower("siem", source=log, cursors=Cursors(), sink=sink, page=50, pause=pause)
    with pytest.raises(_Enough):
        await follower.run()
    assert log.handed == 50
    assert set(pause.taken[6:]) == {60.0}


async def test_one_that_ended_by_itself_says_so() -> None:
    class Broken(Log):
        def stored_after(self, leaf_index: int, limit: int) -> Sequence[StoredRecord]:
            raise MemoryError

    follower = Follower("siem", source=Broken(1), cursors=Cursors(), sink=Receiver())
    with pytest.raises(MemoryError):
        await follower.run()
    assert follower.failing.startswith("it has stopped")


async def test_it_ends_only_once_nobody_reads_any_more():
    going, reading = threading.Event(), threading.Event()

    class Slow(Log):
        def stored_after(self, leaf_index: int, limit: int) -> Sequence[StoredRecord]:
            reading.set()
            going.wait(60)
            return []

    follower = Follower("siem", source=Slow(0), cursors=Cursors(kept=0), sink=Receiver())
    task = asyncio.create_task(follower.step())
    await asyncio.to_thread(reading.wait, 60)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0.05)
    going.set()
    assert not done
    await asyncio.wait([task])

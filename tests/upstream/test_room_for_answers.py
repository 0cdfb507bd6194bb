"""Large answers of servers wait until there is room for them; small ones never do."""

import asyncio

import pytest

from gateway.domain.room import FREE, SHARE, Room, Share
from gateway.errors import LimitExceeded
from gateway.upstream import roomy
from gateway.upstream.roomy import answering

MOST = 4 * FREE


@pytest.fixture
def room() -> Room:
    return Room(MOST)


async def read(share: Share | None, *sizes: int) -> None:
    """Read an answer as it grows, and settle it."""
    SHARE.set(share)
    async with answering(MOST) as found:
        for size in sizes:
            await found.grown(size)
        found.settle(sizes[-1])


async def test_a_large_answer_waits_for_room_and_a_small_one_does_not(room: Room):
    first, second, small = Share(room), Share(room), Share(room)
    await read(first, FREE, 3 * FREE)
    assert room.taken == 3 * FREE
    waiting = asyncio.create_task(read(second, 2 * FREE))
    await asyncio.sleep(0)
    await read(small, FREE)
    assert not waiting.done()
    first.end()
    await waiting
    second.end()
    assert room.taken == 0


async def test_what_was_not_read_to_its_end_is_given_back(room: Room):
    SHARE.set(Share(room))
    async with answering(MOST) as found:
        await found.grown(2 * FREE)
        assert room.taken == MOST
    assert room.taken == 0


async def test_whoever_stops_waiting_takes_nothing(room: Room):
    room.take(MOST)
    waiting = asyncio.create_task(read(Share(room), 2 * FREE))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    room.give(MOST)
    assert room.taken == 0


async def test_nobody_waits_for_ever(room: Room, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(roomy, "_PATIENCE_S", 0.0)
    room.take(MOST)
    with pytest.raises(LimitExceeded):
        await read(Share(room), 2 * FREE)


async def test_what_the_gateway_asks_for_itself_takes_no_room():
    await read(None, 100 * FREE)

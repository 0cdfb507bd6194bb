"""Large answers of servers wait until there is room for them; small ones never do."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import pytest

from gateway.domain.room import FREE, SHARE, Room, Rooms, Share
from gateway.errors import LimitExceeded
from gateway.http1 import Response
from gateway.upstream import roomy
from gateway.upstream.exchange import Exchange
from gateway.upstream.faults import unusable
from gateway.upstream.inbox import Backlog, Heard, Inbox, Messages
from gateway.upstream.roomy import answering
from gateway.upstream.settings import Limits, Timeouts, UpstreamSettings
from gateway.upstream.stream import EventStream
from tests.http1.peer import HOST, Visit, peer
from tests.upstream.speaking import RAW

MOST = 4 * FREE
BEGUN = b"data: " + b"x" * (2 * FREE)


@pytest.fixture
def rooms() -> Rooms:
    return Rooms(MOST)


@pytest.fixture
def room(rooms: Rooms) -> Room:
    return rooms.answers


async def read(share: Share | None, *sizes: int) -> None:
    """Read an answer as it grows, and settle it."""
    SHARE.set(share)
    async with answering(MOST, "crm") as found:
        for size in sizes:
            await found.grown(size)
        found.settle(sizes[-1])


async def test_a_large_answer_waits_for_room_and_a_small_one_does_not(rooms: Rooms, room: Room):
    first, second, small = Share(rooms), Share(rooms), Share(rooms)
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


async def test_what_was_not_read_to_its_end_is_given_back(rooms: Rooms, room: Room):
    SHARE.set(Share(rooms))
    async with answering(MOST, "crm") as found:
        await found.grown(2 * FREE)
        assert room.taken == MOST
    assert room.taken == 0


async def test_whoever_stops_waiting_takes_nothing(rooms: Rooms, room: Room):
    room.take(MOST)
    waiting = asyncio.create_task(read(Share(rooms), 2 * FREE))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    room.give(MOST)
    assert room.taken == 0


async def test_large_requests_do_not_keep_their_own_answers_waiting(rooms: Rooms, room: Room):
    shares = [Share(rooms, "emma"), Share(rooms, "noah")]
    assert [share.covers(2 * FREE) for share in shares] == [True, True]
    reading = [asyncio.create_task(read(share, 3 * FREE)) for share in shares]
    for _ in range(3):
        await asyncio.sleep(0)
    assert [one.done() for one in reading] == [True, False]
    shares[0].end()
    await asyncio.wait_for(reading[1], 60)
    shares[1].end()
    assert (rooms.requests.taken, room.taken) == (0, 0)


async def test_one_request_of_many_large_answers_never_waits_for_itself(
    rooms: Rooms, room: Room, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(roomy, "_PATIENCE_S", 0.0)
    share = Share(rooms)
    for _ in range(5):
        await read(share, 3 * FREE)
    assert room.taken == 3 * FREE
    share.end()
    assert room.taken == 0


async def test_answers_of_one_request_do_not_wait_for_its_end():
    rooms = Rooms(2 * MOST)
    share = Share(rooms, "emma")
    SHARE.set(share)
    async with answering(MOST, "crm") as first:
        await first.grown(2 * FREE)
        second = asyncio.create_task(read(share, 3 * FREE))
        await asyncio.sleep(0)
        assert not second.done()
        first.settle(3 * FREE)
    await asyncio.wait_for(second, 60)
    assert rooms.answers.taken == 3 * FREE
    share.end()
    assert (rooms.answers.taken, share.waiting) == (0, 0)


async def test_nobody_waits_for_ever(rooms: Rooms, room: Room, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(roomy, "_PATIENCE_S", 0.0)
    room.take(MOST)
    with pytest.raises(LimitExceeded):
        await read(Share(rooms), 2 * FREE)


async def test_an_answer_waits_for_one_of_each_server_and_not_for_all_of_one(
    rooms: Rooms, room: Room
):
    room.take(MOST)
    served: list[str] = []

    async def one(server: str, who: str) -> None:
        SHARE.set(Share(rooms, who))
        async with answering(MOST, server) as found:
            await found.grown(2 * FREE)
            served.append(f"{server} for {who}")

    waiting = [
        asyncio.create_task(one(server, who))
        for server, who in (*[("crm", "emma")] * 3, ("crm", "noah"), ("wiki", "emma"))
    ]
    await asyncio.sleep(0)
    room.give(MOST)
    await asyncio.wait(waiting)
    assert served == [
        *("crm for emma", "wiki for emma", "crm for noah"),
        *["crm for emma"] * 2,
    ]


async def test_who_leaves_large_events_unread_has_nobody_elses_answers_wait(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(roomy, "_PATIENCE_S", 0.0)
    rooms = Rooms(2 * MOST)
    events = [stream(rooms, BEGUN, b"\n\n", who="eve")[0] for _ in range(2)]
    await anext(events[0])  # and asks for nothing more, for as long as its client reads nothing
    with pytest.raises(LimitExceeded):
        await anext(events[1])
    other = Share(rooms, "noah")
    await read(other, 2 * FREE)
    other.end()
    await events[0].aclose()
    assert (rooms.answers.taken, rooms.answers._taken_by) == (0, {})


async def test_what_the_gateway_asks_for_itself_takes_no_room():
    await read(None, 100 * FREE)


async def test_a_large_answer_that_never_ends_gives_its_room_back(
    rooms: Rooms, room: Room, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(roomy, "_ARRIVAL_S", 0.01)
    SHARE.set(Share(rooms))

    async def drips(visit: Visit) -> None:
        await visit.asked()
        await visit.say(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + BEGUN)
        await visit.reader.read()

    async with peer(drips) as server:
        exchange = Exchange(UpstreamSettings(server=RAW, url=f"http://{HOST}:{server.port}/"))
        with pytest.raises(LimitExceeded, match="too slowly"):
            await asyncio.wait_for(exchange.send("POST", [], b"{}"), 20)
        await server.until_left(1)
        await exchange.aclose()
    assert room.taken == 0


async def test_small_answers_come_as_slowly_as_they_like(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(roomy, "_ARRIVAL_S", 0.0)
    SHARE.set(Share(rooms))

    async def late() -> bytes:
        for _ in range(3):
            await asyncio.sleep(0)
        return b"late"

    async with answering(MOST, "crm") as found:
        await found.grown(FREE)
        assert await found.next(late()) == b"late"


class Pieces:
    """An answer that is a stream, in pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self.closed = False

    async def piece(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def close(self) -> None:
        self.closed = True


def stream(rooms: Rooms, *pieces: bytes, who: str = "") -> tuple[EventStream, Pieces]:
    SHARE.set(Share(rooms, who))
    response = Pieces(list(pieces))
    limits = Limits(result_bytes=MOST)
    found = EventStream(
        cast("Response", response),
        timeouts=Timeouts(),
        limits=limits,
        server="crm",
        abandoned=lambda: None,
    )
    return found, response


class Drips(Pieces):
    """One that begins, and never ends."""

    async def piece(self) -> bytes:
        if not self._pieces:
            await asyncio.Event().wait()
        return self._pieces.pop(0)


async def test_a_large_event_takes_room_until_the_next_is_asked_for(rooms: Rooms, room: Room):
    events, _ = stream(rooms, BEGUN, b"\n\n", b"data: small\n\n")
    assert len((await anext(events)).raw) > 2 * FREE
    assert room.taken == MOST
    assert (await anext(events)).data == b"small"
    assert room.taken == 0


@pytest.mark.parametrize("end", ["ends", "is closed"])
async def test_a_stream_that_is_over_gives_its_room_back(rooms: Rooms, room: Room, end: str):
    events, response = stream(rooms, BEGUN, *([] if end == "ends" else [b"\n\n"]))
    with suppress(StopAsyncIteration):
        await anext(events)
        assert room.taken == MOST
        await events.aclose()
    assert (room.taken, response.closed) == (0, True)


async def test_a_large_event_that_never_ends_gives_its_room_back(
    rooms: Rooms, room: Room, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(roomy, "_ARRIVAL_S", 0.01)
    events, _ = stream(rooms)
    drips = Drips([BEGUN])
    events._response = cast("Response", drips)
    with pytest.raises(LimitExceeded, match="too slowly"):
        await asyncio.wait_for(anext(events), 20)
    assert (room.taken, drips.closed) == (0, True)


async def test_a_large_event_waits_and_not_for_ever(
    rooms: Rooms, room: Room, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(roomy, "_PATIENCE_S", 0.0)
    events, response = stream(rooms, BEGUN, b"\n\n")
    room.take(MOST)
    with pytest.raises(LimitExceeded):
        await anext(events)
    assert response.closed
    room.give(MOST)
    assert room.taken == 0


def said(share: Share, *lines: Heard) -> Messages:
    """Return what a local server has said to one reader."""
    SHARE.set(share)
    return Messages(
        Inbox(Backlog(MOST), lines),
        timeouts=Timeouts(),
        limits=Limits(result_bytes=MOST, stream_bytes=8 * MOST),
        server="notes",
        left=lambda _: None,
    )


LARGE = b"x" * (2 * FREE)


async def test_what_a_local_server_answers_takes_room_until_its_request_ends(
    rooms: Rooms, room: Room
):
    share = Share(rooms)
    assert (await said(share, Heard(line=LARGE, final=True)).first()).line is LARGE
    assert room.taken == len(LARGE)
    share.end()
    assert room.taken == 0


async def test_a_large_answer_of_a_local_server_waits_for_room_and_a_small_one_does_not(
    rooms: Rooms, room: Room
):
    room.take(MOST)
    waiting = asyncio.create_task(said(Share(rooms), Heard(line=LARGE, final=True)).first())
    await asyncio.sleep(0)
    await said(Share(rooms), Heard(line=b"x" * FREE, final=True)).first()
    assert not waiting.done()
    room.give(MOST)
    await waiting


async def test_what_a_local_server_streams_takes_room_one_message_at_a_time(
    rooms: Rooms, room: Room
):
    messages = said(Share(rooms), Heard(line=LARGE), Heard(line=b"small"), Heard(line=LARGE))
    taken = []
    for _ in range(3):
        await anext(messages)
        taken.append(room.taken)
    await messages.aclose()
    assert [*taken, room.taken] == [MOST, 0, MOST, 0]


async def test_a_local_servers_answer_that_finds_no_room_in_time_is_refused(
    rooms: Rooms, room: Room, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(roomy, "_PATIENCE_S", 0)
    room.take(MOST)
    messages = said(Share(rooms), Heard(line=LARGE, final=True))
    with pytest.raises(LimitExceeded):
        await messages.first()
    room.give(MOST)
    assert room.taken == 0


async def test_what_a_process_has_said_is_bounded_for_all_its_readers_until_it_has_room_elsewhere(
    rooms: Rooms, room: Room
):
    backlog = Backlog(len(LARGE))
    first, second = Inbox(backlog), Inbox(backlog)
    SHARE.set(Share(rooms))
    reader = Messages(
        first, timeouts=Timeouts(), limits=Limits(), server="notes", left=lambda _: None
    )
    room.take(MOST)
    await first.put(Heard(line=LARGE))
    reading = asyncio.create_task(anext(reader))
    putting = asyncio.create_task(second.put(Heard(line=b"x")))
    for _ in range(10):
        await asyncio.sleep(0)
    assert [reading.done(), putting.done()] == [False, False]
    room.give(MOST)
    await asyncio.gather(reading, putting)


@pytest.mark.parametrize("ends", [Inbox.close, lambda one: one.fail(unusable("it has ended"))])
async def test_a_reader_that_has_gone_takes_nothing_of_what_others_may_keep(
    ends: Callable[[Inbox], None],
):
    backlog = Backlog(1_000)
    first, second = Inbox(backlog), Inbox(backlog)
    for _ in range(4):
        await first.put(Heard(line=b"small"))  # each takes more than its bytes
    putting = asyncio.create_task(second.put(Heard(line=b"x")))
    await asyncio.sleep(0)
    assert backlog.is_full
    ends(first)
    for _ in range(10):
        await asyncio.sleep(0)
    assert putting.done()
    first.taken(Heard(line=b"small"))
    assert (await second.get()).line == b"x"
    assert backlog._bytes == second._bytes == 256 + 1

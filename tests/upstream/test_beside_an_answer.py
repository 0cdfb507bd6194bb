"""What a server says on a stream of its own, while clients of the gateway's session wait for answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.domain.calls import Form, Permit, RawAnswer, ServerEvent
from gateway.domain.labels import BOTTOM, Effect, ServerRule, ToolRule
from gateway.domain.room import SHARE, Room, Rooms, Share
from gateway.domain.tools import Profile
from gateway.errors import LimitExceeded, UpstreamFailed
from gateway.upstream import own_sessions
from gateway.upstream.own_asking import Beside
from tests.builtin.front import Site, sent, speaks, vars_of
from tests.pipeline.house import ALICE, MAIL, PRIVATE, UNHINTED, Events, event
from tests.upstream.test_own_client import answer_to

OLD: dict[str, Any] = {"profile": Profile.LEGACY, "session": "esr.1"}
CALL = {"name": "mail__search", "arguments": {}}
ROOTS = {"jsonrpc": "2.0", "id": 0, "method": "roots/list"}
LOG = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


class Speaker:
    """A server with a stream of its own; it answers a call once it is let go."""

    def __init__(self, site: Site) -> None:
        self.says: asyncio.Queue[Any] = asyncio.Queue()
        self.reached, self.free = asyncio.Semaphore(0), asyncio.Event()
        self.heard: list[Any] = []
        self.closed = False
        self._server = site.servers[MAIL]
        self._server.answer = speaks()
        self._forward = self._server.forward

    async def forward(self, permit: Permit) -> RawAnswer:
        message = permit.call.message
        answer = await self._forward(permit)
        if message.form is Form.STREAM:
            headers = (("content-type", "text/event-stream"),)
            return RawAnswer(status=200, headers=headers, session=None, body=self._events())
        if message.method == "tools/call":
            self.reached.release()
            await self.free.wait()
        if message.form is Form.RESPONSE:
            self.heard.append(sent(permit))
        return answer

    async def _events(self) -> AsyncIterator[ServerEvent]:
        try:
            while (said := await self.says.get()) is not None:
                if isinstance(said, Exception):
                    raise said
                yield event(said)
        finally:
            self.closed = True


@pytest.fixture
async def site() -> Any:
    site = await Site(spoken=frozenset({Profile.LEGACY})).furnish()
    yield site
    await site.aclose()


@pytest.fixture
def speaker(site: Site, monkeypatch: pytest.MonkeyPatch) -> Speaker:
    speaker = Speaker(site)
    monkeypatch.setattr(site.servers[MAIL], "forward", speaker.forward)
    return speaker


async def begun(site: Site, speaker: Speaker, **more: Any) -> tuple[Any, list[Any]]:
    """Begin a call and return its task, which ends with what the client saw, and what it has seen."""
    seen: list[Any] = []

    async def carried() -> None:
        reply = await site.aggregate.handle(site.call("tools/call", CALL, **{**OLD, **more}))
        if isinstance(reply.body, bytes):
            seen.append(json.loads(reply.body))
            return
        async for part in reply.body:
            seen.extend(json.loads(x[6:]) for x in part.splitlines() if x.startswith(b"data: "))

    task = asyncio.create_task(carried())
    await speaker.reached.acquire()
    return task, seen


async def until(holds: Any) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0)


async def test_a_question_beside_the_answer_reaches_the_client_that_waits(
    site: Site, speaker: Speaker
) -> None:
    calling, seen = await begun(site, speaker)
    await speaker.says.put(CHANGED)
    await speaker.says.put(LOG)
    await speaker.says.put(ROOTS)
    await until(lambda: len(seen) == 2)
    assert [one["method"] for one in seen] == ["notifications/message", "roots/list"]
    reply = await site.aggregate.handle(answer_to(site, seen[1]["id"], **OLD))
    assert reply.status == 202
    assert speaker.heard == [{"jsonrpc": "2.0", "id": 0, "result": {"x": 1}}]
    speaker.free.set()
    await calling
    assert (len(seen), seen[2]["id"]) == (3, 1)


async def test_what_is_said_beside_every_answer_is_its_servers_word_whichever_call_waits(
    site: Site, speaker: Speaker
) -> None:
    """On a stream of its own a server speaks of whatever it likes: of that no tool's label tells."""
    tools = {"search": ToolRule(effect=Effect.READ, result=BOTTOM)}
    vars_of(site.house.rules.servers)[MAIL] = ServerRule(default=PRIVATE, tools=tools)
    calling, seen = await begun(site, speaker)
    await speaker.says.put(LOG)
    await until(lambda: len(seen) == 1)
    run = await site.house.runs.of(ALICE, UNHINTED)
    assert run.label == PRIVATE
    assert "notifications/message" in [source.tool for source in run.sources]
    speaker.free.set()
    await calling


def logged(octets: int) -> Any:
    """Return a message of the server's log, of a little more than so many bytes."""
    return {**LOG, "params": {"level": "info", "data": "x" * octets}}


@pytest.fixture
def room() -> Room:
    """Where what is large has its room, in the test's context."""
    rooms = Rooms()
    SHARE.set(Share(rooms))
    return rooms.answers


async def test_what_a_client_does_not_take_is_kept_as_far_as_there_is_room(
    site: Site, speaker: Speaker, room: Room
) -> None:
    size = 1024**2
    carrying = asyncio.create_task(site.aggregate.handle(site.call("tools/call", CALL, **OLD)))
    await speaker.reached.acquire()
    for _ in range(5):
        await speaker.says.put(logged(size))
    await speaker.says.put(ROOTS)
    reply = await carrying
    assert not isinstance(reply.body, bytes)
    await anext(reply.body)  # it is read no further
    await until(lambda: site.servers[MAIL].rejected)
    (no,) = site.servers[MAIL].rejected
    assert (no["id"], no["error"]["code"]) == (0, -32601)
    assert size <= room.taken < 3 * size
    speaker.free.set()
    await reply.body.aclose()
    await site.calls.aclose()
    assert room.taken == 0


async def test_large_messages_reach_a_client_that_takes_them(
    site: Site, speaker: Speaker, room: Room
) -> None:
    calling, seen = await begun(site, speaker)
    for count in range(1, 4):
        await speaker.says.put(logged(1024**2))
        await until(lambda count=count: len(seen) == count)
    speaker.free.set()
    await calling
    assert [one.get("method") for one in seen] == [*["notifications/message"] * 3, None]
    assert room.taken == 0


async def test_a_question_that_is_not_large_reaches_its_client_however_little_room_there_is(
    site: Site, speaker: Speaker, room: Room
) -> None:
    calling, seen = await begun(site, speaker)
    room.take(2**30)
    for _ in range(3):
        await speaker.says.put({**ROOTS, "params": {"_meta": {"x": "x" * 60_000}}})
        await until(lambda: seen)
        assert seen.pop()["method"] == "roots/list"
    assert site.servers[MAIL].rejected == []
    room.give(2**30)
    speaker.free.set()
    await calling
    assert room.taken == 0


async def read(beside: Beside) -> None:
    """Have somebody ask for the next message, and go away again."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await beside.get()


@pytest.mark.parametrize(
    ("sizes", "fit"),
    [
        ([100] * 20, 16),
        ([30_000] * 4, 2),
        ([200_000, 100], 1),
        ([100, 200_000], 1),
        ([16_000, 100, 60_000], 2),
    ],
)
async def test_so_much_waits_beside_an_answer(room: Room, sizes: list[int], fit: int) -> None:
    beside = Beside()
    await read(beside)
    put = [beside.put(ServerEvent(raw=b"x" * size, data=b"")) for size in sizes]
    assert put.count(True) == fit
    for _ in range(fit):
        await beside.get()
    assert beside.put(ServerEvent(raw=b"x" * 200_000, data=b""))
    beside.close()
    assert room.taken == 0


async def test_what_is_little_takes_no_room_and_what_is_much_keeps_it_until_the_next_is_asked_for(
    room: Room,
) -> None:
    beside, small = Beside(), ServerEvent(raw=b"x" * 32 * 1024, data=b"")
    large = ServerEvent(raw=b"x" * (64 * 1024 + 1), data=b"")
    await read(beside)
    for _ in range(2):
        assert beside.put(small)
        assert room.taken == 0
    for _ in range(2):
        assert await beside.get() == small
    assert beside.put(large)
    assert room.taken == len(large.raw)
    assert await beside.get() == large
    assert room.taken == len(large.raw)
    asking = asyncio.create_task(beside.get())
    await asyncio.sleep(0)
    assert room.taken == 0
    room.take(2**30)
    assert not beside.put(large)
    assert beside.put(small)
    assert await asking == small


async def test_what_is_large_is_not_kept_before_anybody_reads(room: Room) -> None:
    beside, large = Beside(), ServerEvent(raw=b"x" * 4 * 1024**2, data=b"")
    assert not beside.put(large)
    assert beside.put(ServerEvent(raw=b"x" * 64 * 1024, data=b""))
    assert room.taken == 0
    await beside.get()
    assert beside.put(large)
    assert room.taken == len(large.raw)


async def test_a_server_that_begins_to_speak_once_its_call_is_under_way_takes_nobodys_room(
    site: Site, speaker: Speaker, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, turned_away = speaker.forward, set[str]()

    async def turning_away(permit: Permit) -> RawAnswer:
        message = permit.call.message
        if message.method in {"GET", "tools/call"} - turned_away:
            turned_away.add(message.method)
            status = 405 if message.method == "GET" else 404
            return RawAnswer(status=status, headers=(), session=None, body=b"")
        return await forward(permit)

    monkeypatch.setattr(site.servers[MAIL], "forward", turning_away)
    calling, seen = await begun(site, speaker)
    await speaker.says.put(logged(4 * 1024**2))
    await speaker.says.put({**ROOTS, "params": {"_meta": {"x": "x" * 4 * 1024**2}}})
    await until(lambda: site.servers[MAIL].rejected)
    assert room.taken == 0
    speaker.free.set()
    await calling
    assert [one["id"] for one in seen] == [1]


async def test_where_nobody_has_room_of_their_own_large_messages_wait_as_well() -> None:
    SHARE.set(None)
    beside, large = Beside(), ServerEvent(raw=b"x" * 4 * 1024**2, data=b"")
    await read(beside)
    for _ in range(3):
        assert beside.put(large)
        assert not beside.put(large)
        assert await beside.get() == large
    assert beside.put(large)
    beside.close()


async def test_without_a_question_the_answer_comes_whole(site: Site, speaker: Speaker) -> None:
    calling, seen = await begun(site, speaker)
    speaker.free.set()
    await calling
    assert [one["id"] for one in seen] == [1]


@pytest.mark.parametrize("sessions", [(), ("esr.1", "esr.2")])
async def test_a_question_that_is_nobodys_or_could_be_two_clients_is_answered_here(
    site: Site, speaker: Speaker, sessions: tuple[str, ...]
) -> None:
    calls = [await begun(site, speaker, session=session) for session in sessions or ("esr.1",)]
    if not sessions:
        speaker.free.set()
        await calls[0][0]
    await speaker.says.put(ROOTS)
    await until(lambda: site.servers[MAIL].rejected)
    (no,) = site.servers[MAIL].rejected
    assert (no["id"], no["error"]["code"]) == (0, -32601)
    speaker.free.set()
    for task, seen in calls:
        await task
        assert [one["id"] for one in seen] == [1]


async def test_a_client_that_goes_away_after_a_question_leaves_nothing_behind(
    site: Site, speaker: Speaker
) -> None:
    calling, seen = await begun(site, speaker)
    await speaker.says.put(ROOTS)
    await until(lambda: seen)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await site.aclose()
    assert speaker.closed
    others = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
    await asyncio.sleep(0)
    assert [task for task in others if not task.done()] == []


async def test_an_answer_that_comes_when_its_client_has_gone_is_closed(
    site: Site, speaker: Speaker
) -> None:
    answer = Events([])
    site.servers[MAIL].answer = speaks(lambda permit: answer.answer())
    carrying = asyncio.create_task(site.aggregate.handle(site.call("tools/call", CALL, **OLD)))
    await speaker.reached.acquire()
    await speaker.says.put(ROOTS)
    reply = await carrying
    assert not isinstance(reply.body, bytes)
    assert [await anext(reply.body), await anext(reply.body)][0] == b""
    speaker.free.set()
    (asking,) = site.clients[MAIL]._under_way.values()
    await until(lambda: asking.answering is None or asking.answering.done())
    await reply.body.aclose()
    assert not answer.closed  # its client may come back
    await site.calls.aclose()
    assert answer.closed


@pytest.mark.parametrize("end", [None, UpstreamFailed("it broke")])
async def test_calls_go_on_where_the_stream_ends(site: Site, speaker: Speaker, end: Any) -> None:
    speaker.free.set()
    await begun(site, speaker)
    await speaker.says.put(end)
    await until(lambda: speaker.closed)
    calling, seen = await begun(site, speaker)
    await calling
    assert [one["id"] for one in seen] == [1]


@pytest.mark.parametrize("end", [UpstreamFailed("it broke"), LimitExceeded("it is too long")])
async def test_a_stream_that_breaks_is_opened_again(
    site: Site, speaker: Speaker, end: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "_AGAIN_S", 0.0)
    calling, seen = await begun(site, speaker)
    for said in (end, end, ROOTS):
        await speaker.says.put(said)
    await until(lambda: len(seen) == 1)
    assert seen[0]["method"] == "roots/list"
    speaker.free.set()
    await calling


async def test_a_server_that_cannot_be_reached_is_tried_again_ever_more_seldom(
    site: Site, speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, opened, pauses = speaker.forward, 0, list[float]()
    sleep = asyncio.sleep

    async def failing(permit: Permit) -> RawAnswer:
        nonlocal opened
        if permit.call.message.form is Form.STREAM:
            opened += 1
            if opened <= 8:
                raise UpstreamFailed("no connection")
        return await forward(permit)

    async def soon(delay_s: float) -> None:
        pauses.append(delay_s)
        await sleep(0)

    monkeypatch.setattr(site.servers[MAIL], "forward", failing)
    monkeypatch.setattr(asyncio, "sleep", soon)
    calling, seen = await begun(site, speaker)
    await speaker.says.put(ROOTS)
    async with asyncio.timeout(60):
        while not seen:
            await sleep(0)
    assert [pause for pause in pauses if pause][:8] == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    speaker.free.set()
    await calling


async def test_the_stream_ends_with_the_session(site: Site, speaker: Speaker) -> None:
    speaker.free.set()
    calling, _ = await begun(site, speaker)
    await calling
    await site.aclose()
    await until(lambda: speaker.closed)
    assert site.servers[MAIL].saw[-1].call.message.method == "DELETE"

"""A call whose stream broke off goes on, and its client comes back for the rest."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from gateway.builtin import call_streams
from gateway.builtin.call_streams import CallStreams
from gateway.domain.audit import RecordKind
from gateway.domain.calls import Call, Form, Permit, RawAnswer, Reply, ServerEvent
from gateway.domain.flow import Run, RunId
from gateway.domain.labels import Effect, ServerRule, ToolRule
from gateway.domain.room import FREE, SHARE, Rooms, Share
from gateway.domain.tools import Profile
from gateway.wire.jsontext import WireLimits
from gateway.wire.sse import data_event
from tests.builtin.front import Site, speaks, vars_of
from tests.builtin.listening import LEGACY, SESSION, Feed, Listener, listening, settled
from tests.pipeline.house import ALICE, MAIL, PRIVATE, TRUSTED, UNHINTED, text
from tests.pipeline.kept import keeps

CALL = {"name": "mail__search", "arguments": {}}
LIMITS = WireLimits()
ME = ("alice", "sealed")
HERE = object()
HEARD = Run(id=RunId("r"), label=TRUSTED)
BOB = replace(ALICE, subject="bob", client_id="other", token_id="t2")


def log(words: str) -> dict[str, Any]:
    return {"method": "notifications/message", "params": {"level": "info", "data": words}}


@asynccontextmanager
async def calling(site: Site, **more: Any) -> AsyncIterator[Listener]:
    """Call a tool, and read what is streamed until the connection breaks."""
    call = site.call("tools/call", CALL, **{**LEGACY, "session": SESSION, **more})
    listener = Listener(await streamed(site, call))
    task = asyncio.create_task(listener.read())
    try:
        async with asyncio.timeout(60):
            while not listener.heard and not listener.ended.is_set():
                await asyncio.sleep(0)
        yield listener
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await settled()


async def streamed(site: Site, call: Any) -> Reply:
    reply = await site.aggregate.handle(call)
    assert not isinstance(reply.body, bytes)
    return reply


class Working:
    """A server that says what it does while it works on one call."""

    def __init__(self, site: Site) -> None:
        self.feed = Feed(log("one"))
        self.id: Any = None
        self.polled: list[str | None] = []
        site.servers[MAIL].answer = speaks(self._answer)

    def _answer(self, permit: Permit) -> RawAnswer:
        self.id = permit.call.message.id
        return self.feed.answer()

    def done(self) -> None:
        self.feed.say({"id": self.id, "result": text("done")})


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = await Site(spoken=frozenset({Profile.LEGACY})).furnish()
    made.house.gate.people["bob"] = BOB
    yield made
    await made.aclose()


async def test_the_rest_of_a_call_comes_to_whoever_comes_back(site: Site) -> None:
    server = Working(site)
    async with calling(site) as first:
        assert first.methods == ["notifications/message"]
        assert b"retry: 1000\ndata:\n\n" in first.raw[0]
    server.feed.say(log("two"))
    await settled()
    server.done()
    await settled()
    assert site.house.last["verdict"] == "allow"  # it is done, and on record as that
    async with listening(site, after=first.ids[-1]) as second:
        await second.ended.wait()
        logged, done = second.heard
    assert (logged["params"]["data"], done["id"], done["result"]) == ("two", 1, text("done"))


async def test_what_is_kept_of_a_call_that_is_over_is_not_the_call(site: Site) -> None:
    server = Working(site)
    async with calling(site) as first:
        assert keeps(site.calls._kept, Call)
        server.done()
        await first.ended.wait()
    assert len(site.calls._kept) == 1
    assert not keeps(site.calls._kept, Call)


async def test_a_call_that_its_client_has_left_keeps_its_room_until_it_is_over(site: Site) -> None:
    rooms = Rooms()
    share = Share(rooms, "alice")
    SHARE.set(share)
    server = Working(site)
    async with calling(site):
        assert share.covers(4 * FREE)
    share.end()  # as the end of its request does
    await settled()
    assert keeps(site.calls._kept, Call)
    assert rooms.requests.taken == 4 * FREE
    server.done()
    async with asyncio.timeout(60):
        while rooms.requests.taken:
            await asyncio.sleep(0)
    assert not keeps(site.calls._kept, Call)


async def test_a_call_that_is_ended_before_it_is_read_gives_its_room_back() -> None:
    rooms = Rooms()
    share = Share(rooms, "alice")
    SHARE.set(share)
    streams = streams_with()
    body = streams.kept(
        ME, parts_of('"a"', ended=[]), LIMITS, label=lambda: HEARD, person="alice", of=HERE
    )
    assert share.covers(4 * FREE)
    await anext(body)
    streams.end(ME)  # before its reader has had a turn
    await body.aclose()
    share.end()
    await settled()
    assert rooms.requests.taken == 0


async def test_what_was_lost_on_the_way_comes_once_more(site: Site) -> None:
    server = Working(site)
    async with calling(site) as first:
        server.done()
        await first.ended.wait()
    async with listening(site, after=first.ids[0]) as second:
        await second.ended.wait()
        assert second.heard == first.heard
    async with listening(site, after=first.ids[-1]) as third:
        await third.ended.wait()
        assert third.heard == []


@pytest.mark.parametrize(
    "changed", [{"who": "bob"}, {"session": "e.2"}], ids=["another-principal", "another-session"]
)
async def test_nobody_else_gets_the_rest(site: Site, changed: dict[str, Any]) -> None:
    server = Working(site)
    async with calling(site) as first:
        pass
    server.done()
    await settled()
    async with listening(site, after=first.ids[-1], **changed) as other:
        assert other.heard == []
        assert not other.ended.is_set()


async def test_of_who_comes_back_and_is_refused_nothing_is_kept(site: Site) -> None:
    Working(site)
    async with calling(site) as first:
        pass
    nonce = first.ids[-1].rpartition("-")[0]
    call = site.call("GET", form=Form.STREAM, id_=None, **LEGACY)  # it names no session
    headers = (("last-event-id", f"{nonce}-{'1' * 8_000}"),)
    reply = await site.aggregate.handle(replace(call, headers=headers))
    assert reply.code == "protocol_error"
    assert site.notices._again == {}


async def test_a_session_that_has_ended_gives_nothing_more(site: Site) -> None:
    server = Working(site)
    async with calling(site) as first:
        end = site.call("DELETE", form=Form.END, id_=None, session=SESSION, **LEGACY)
        assert (await site.aggregate.handle(end)).status == 200
        await first.ended.wait()
    assert server.feed.closed
    call = site.call("GET", form=Form.STREAM, id_=None, session=SESSION, **LEGACY)
    headers = (("last-event-id", first.ids[-1]),)
    assert (await site.aggregate.handle(replace(call, headers=headers))).status == 404


async def test_where_everything_is_stopped_nothing_more_is_given_out(site: Site) -> None:
    server = Working(site)
    async with calling(site) as first:
        pass
    server.done()
    await settled()
    site.house.stopped = True
    call = site.call("GET", form=Form.STREAM, id_=None, session=SESSION, **LEGACY)
    headers = (("last-event-id", first.ids[-1]),)
    reply = await site.aggregate.handle(replace(call, headers=headers))
    body = reply.body if isinstance(reply.body, bytes) else b"".join([x async for x in reply.body])
    assert b"done" not in body


async def test_who_has_read_something_comes_back_all_the_same(site: Site) -> None:
    rules = vars_of(site.house.rules.servers)
    rules[MAIL] = ServerRule(default=PRIVATE, tools={})
    server = Working(site)
    async with calling(site) as first:
        server.done()
        await first.ended.wait()
    run = await site.house.runs.of(ALICE, UNHINTED)
    assert run.has_read
    async with listening(site, after=first.ids[-2]) as second:
        await second.ended.wait()
        assert second.heard[-1]["result"] == text("done")
    assert not (await site.house.runs.of(ALICE, UNHINTED)).roamed


async def test_who_comes_back_in_another_run_has_read_it_there_as_well(site: Site) -> None:
    rules = vars_of(site.house.rules.servers)
    rules[MAIL] = ServerRule(default=PRIVATE, tools={})
    server = Working(site)
    async with calling(site) as first:
        pass
    server.done()
    await settled()
    began = await site.house.runs.of(ALICE, UNHINTED)
    await site.house.runs.end(began.id)
    assert not (await site.house.runs.of(ALICE, UNHINTED)).has_read
    async with listening(site, after=first.ids[-1]) as second:
        await second.ended.wait()
        assert second.heard[-1]["result"] == text("done")
    run = await site.house.runs.of(ALICE, UNHINTED)
    assert (run.id != began.id, run.label) == (True, PRIVATE)
    assert run.roamed  # what the stream said is remembered in the other one


async def test_what_is_asked_on_a_stream_is_read_by_who_comes_back_for_it(site: Site) -> None:
    rules = vars_of(site.house.rules.servers)
    rules[MAIL] = ServerRule(
        default=PRIVATE, tools={"search": ToolRule(effect=Effect.READ, result=TRUSTED)}
    )
    server = Working(site)
    asks = {"id": 7, "method": "roots/list"}
    async with calling(site, session="r.1") as first:
        server.feed.say(asks)
        async with asyncio.timeout(60):
            while "roots/list" not in first.methods:
                await asyncio.sleep(0)
    began = await site.house.runs.of(ALICE, UNHINTED)
    assert began.label == PRIVATE
    await site.house.runs.end(began.id)
    async with listening(site, after=first.ids[0], session="r.1") as second:
        async with asyncio.timeout(60):
            while "roots/list" not in second.methods:
                await asyncio.sleep(0)
    assert (await site.house.runs.of(ALICE, UNHINTED)).label == PRIVATE


async def test_a_server_that_wants_to_be_asked_again_is_not_waited_for_on_the_wire(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstream.own_resume._SHORTEST_S", 0.0)
    first, rest = Feed(), Feed()
    asked: list[Any] = []
    feeds = iter([first, rest])
    primes = ServerEvent(raw=b"id: theirs-1\nretry: 0\ndata:\n\n", data=None)
    first._events.put_nowait(primes)
    first.end()

    def answer(permit: Permit) -> RawAnswer:
        asked.append(permit.call)
        return next(feeds).answer()

    site.servers[MAIL].answer = lambda permit: (
        rest.answer()
        if permit.call.message.form is Form.STREAM
        and ("last-event-id", "theirs-1") in permit.call.headers
        else speaks(answer)(permit)
    )
    async with calling(site) as one:
        await one.ended.wait()
        assert one.heard == []
    rest.say({"id": asked[0].message.id, "result": text("done")})
    async with listening(site, after=one.ids[-1]) as two:
        await two.ended.wait()
    assert [message["id"] for message in two.heard] == [1]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-03-26"])
async def test_clients_of_earlier_revisions_get_no_ids(site: Site, revision: str) -> None:
    server = Working(site)
    call = site.call("tools/call", CALL, session=SESSION, **LEGACY)
    listener = Listener(await streamed(site, replace(call, revision=revision)))
    task = asyncio.create_task(listener.read())
    await settled()
    server.done()
    await task
    assert (listener.ids, len(listener.heard)) == ([], 2)


async def test_who_goes_away_while_it_is_asked_who_they_are_leaves_a_record_and_no_stream(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, asked = Working(site), asyncio.Event()

    async def waiting(*_: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(site.aggregate, "known", waiting)
    call = site.call("tools/call", CALL, session=SESSION, **LEGACY)
    calling_ = asyncio.create_task(site.aggregate.handle(call))
    await asked.wait()
    assert site.house.kinds() == ["intent"]
    calling_.cancel()
    await asyncio.gather(calling_, return_exceptions=True)
    assert site.house.kinds() == ["intent", "outcome"]
    assert site.house.last["code"] == "outcome_unknown"
    assert server.feed.closed
    assert site.aggregate._under_way == {}


async def test_a_stream_that_is_ended_as_it_is_begun_sees_to_its_end() -> None:
    streams, ended = streams_with(), list[str]()

    async def one() -> AsyncGenerator[bytes, None]:
        try:
            yield b""
            await asyncio.Event().wait()
        finally:
            ended.append("one")

    body = streams.kept(ME, one(), LIMITS, label=lambda: HEARD, person="alice", of=HERE)
    await anext(body)
    streams.end(ME)
    await body.aclose()
    await settled()
    assert ended == ["one"]


async def test_a_call_ends_with_what_carries_it_and_what_it_has_said_waits(site: Site) -> None:
    """A reload cuts off what goes on too long: of it nothing more is judged, and that is on record."""
    server = Working(site)
    async with calling(site) as first:
        pass
    before = site.calls._all
    server.feed.say(log("two"))
    async with asyncio.timeout(60):
        while site.calls._all == before:
            await asyncio.sleep(0)
    await site.calls.cut(object())  # another configuration's are not ended
    assert site.house.audit.records[-1].kind is RecordKind.INTENT
    await site.calls.cut(site.notices.here)
    assert site.house.last["code"] == "outcome_unknown"
    server.done()
    async with listening(site, after=first.ids[-1]) as second:
        await second.ended.wait()
        (logged,) = second.heard
    assert logged["params"]["data"] == "two"


# Bounds.


async def parts_of(*texts: str, ended: list[str] | None = None) -> AsyncGenerator[bytes, None]:
    try:
        yield b""
        for words in texts:
            yield data_event(words.encode()).raw
        if ended is not None:
            await asyncio.Event().wait()
    finally:
        if ended is not None:
            ended.append(texts[0])


async def begin(
    streams: CallStreams, key: tuple[str, str], parts: Any, *, of: object = HERE
) -> Any:
    """Begin to read a stream; return it, and the id that its first event had."""
    person = key[0].partition("|")[0]
    body = streams.kept(key, parts, LIMITS, label=lambda: HEARD, person=person, of=of)
    assert await anext(body) == b""
    primed = await anext(body)
    found = re.match(rb"id: (\S+)\n", primed)
    assert found is not None
    return body, found[1].decode()


def streams_with(**more: Any) -> CallStreams:
    numbers = iter(range(1_000))
    return CallStreams(new_nonce=lambda: f"n{next(numbers)}", **more)


async def test_of_streams_that_nobody_reads_the_newest_of_each_person_are_kept() -> None:
    streams = streams_with()
    ended: list[str] = []
    ids = []
    for number in range(call_streams.MOST_LEFT + 2):
        key = (f"alice|{number}", "sealed")  # with as many clients as they like
        body, id_ = await begin(streams, key, parts_of(f'"{number}"', ended=ended))
        await settled()
        await body.aclose()
        ids.append((key, id_))
    other, _ = await begin(streams, ("bob", "sealed"), parts_of('"other"', ended=ended))
    await other.aclose()
    await settled()
    assert ended == ['"0"', '"1"']
    kept = [streams.asked_again(key, id_) is not None for key, id_ in ids]
    assert kept == [False] * 2 + [True] * call_streams.MOST_LEFT
    await streams.aclose()
    assert len(ended) == call_streams.MOST_LEFT + 3


async def test_all_that_nobody_reads_has_bounds_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_streams, "_OCTETS", 150)
    streams, ids = streams_with(), []
    for who in ("alice", "bob", "carol"):
        body, id_ = await begin(streams, (who, "s"), parts_of(f'"{"x" * 60}"'))
        await settled()
        await body.aclose()
        ids.append((who, id_))
    kept = [streams.asked_again((who, "s"), id_) is not None for who, id_ in ids]
    assert kept == [False, True, True]
    await streams.aclose()


async def test_whoever_keeps_much_has_nothing_of_another_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_streams, "_OCTETS", 400)
    streams, ended = streams_with(), list[str]()
    body, mine = await begin(streams, ME, parts_of('"a"', ended=ended))
    await settled()
    await body.aclose()
    for number in range(8):
        other, _ = await begin(streams, ("mallory", "s"), parts_of(f'"{str(number) * 98}"'))
        await settled()
        await other.aclose()
    assert streams._all <= 400
    assert ended == []  # the call goes on
    rest = streams.asked_again(ME, mine)
    assert rest is not None
    assert (await anext(rest)).raw.endswith(b'data: "a"\n\n')
    await streams.aclose()


async def test_a_person_keeps_so_much_with_whatever_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_streams, "_OCTETS_OF_ONE", 150)
    streams, ids = streams_with(), []
    keys = [(f"mallory|{client}", "s") for client in "abc"]
    for key in (*keys, ("bob", "s")):
        body, id_ = await begin(streams, key, parts_of(f'"{"x" * 60}"'))
        await settled()
        await body.aclose()
        ids.append((key, id_))
    kept = [streams.asked_again(key, id_) is not None for key, id_ in ids]
    assert kept == [False, True, True, True]
    await streams.aclose()


async def test_a_call_goes_on_of_which_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_streams, "_OCTETS_OF_ONE", 150_000)
    streams, go_on, said = streams_with(), asyncio.Event(), list[int]()

    async def works() -> AsyncIterator[bytes]:
        yield b""
        for number in range(12):
            yield data_event(b'"%d%b"' % (number, b"x" * 8_192)).raw
            said.append(number)
        await go_on.wait()
        yield data_event(b'"done"').raw

    body, mine = await begin(streams, ME, works())
    await body.aclose()
    await settled()
    assert len(said) < 12  # it waits for room
    other, _ = await begin(streams, ME, parts_of(f'"{"x" * 100_000}"'))
    await settled()
    await other.aclose()
    await settled()
    assert len(said) == 12
    go_on.set()
    await settled()
    rest = streams.asked_again(ME, mine)
    assert rest is not None
    told = b"".join([event.raw async for event in rest])
    assert [word in told for word in (b'"0x', b'"11x', b'"done"')] == [False, True, True]
    await streams.aclose()


async def test_what_is_over_is_kept_for_a_moment() -> None:
    streams = streams_with(linger_s=0.01)
    body, id_ = await begin(streams, ME, parts_of('"a"'))
    assert [part async for part in body]
    assert streams.is_ours(id_)
    async with asyncio.timeout(60):
        while streams.is_ours(id_):
            await asyncio.sleep(0.01)
    await streams.aclose()


async def test_of_a_stream_that_is_returned_to_ever_again_one_look_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting: list[asyncio.TimerHandle] = []
    loop = asyncio.get_running_loop()
    later = loop.call_later

    def noted(after_s: float, *work: Any) -> asyncio.TimerHandle:
        timer = later(after_s, *work)
        if after_s == call_streams.LINGER_S:
            waiting.append(timer)
        return timer

    monkeypatch.setattr(loop, "call_later", noted)
    streams = streams_with()
    body, id_ = await begin(streams, ME, parts_of('"a"'))
    await body.aclose()
    for _ in range(50):
        rest = streams.asked_again(ME, id_)
        assert rest is not None
        await anext(rest)
        await rest.aclose()
    assert (len(waiting), sum(not one.cancelled() for one in waiting)) == (51, 1)
    streams.end(ME)
    assert all(one.cancelled() for one in waiting)
    await streams.aclose()


async def test_a_server_is_read_no_further_ahead_than_there_is_room() -> None:
    streams, taken = streams_with(linger_s=0.01), []

    async def much() -> AsyncIterator[bytes]:
        yield b""
        for number in range(1_000):
            taken.append(number)
            yield data_event(b'"' + b"x" * 8_192 + b'"').raw

    body, id_ = await begin(streams, ME, much())
    await body.aclose()
    await settled()
    assert 2 <= len(taken) < 20
    async with asyncio.timeout(60):
        while streams.is_ours(id_):  # and is left alone when nobody comes
            await asyncio.sleep(0.01)
    await streams.aclose()


async def test_nothing_is_lost_however_large(monkeypatch: pytest.MonkeyPatch) -> None:
    large = [f'"{letter * 100_000}"' for letter in "abcd"]
    streams = streams_with()
    body, _ = await begin(streams, ME, parts_of(*large))
    told = b"".join([part async for part in body])
    assert [letter in told for letter in (b"aaaa", b"bbbb", b"cccc", b"dddd")] == [True] * 4
    await streams.aclose()


async def test_what_a_stream_raises_reaches_who_reads_it() -> None:
    async def fails() -> AsyncIterator[bytes]:
        yield b""
        raise ValueError("a bug")

    body, _ = await begin(streams_with(), ME, fails())
    with pytest.raises(ValueError, match="a bug"):
        await anext(body)


async def test_all_that_is_kept_has_bounds_together_whoever_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_streams, "_OCTETS", 150)
    streams, read, ended = streams_with(), [], list[str]()
    for number in range(6):
        parts = parts_of(f'"{"x" * 60}"', ended=ended)
        body, id_ = await begin(streams, (f"p{number}", "s"), parts)
        assert b"xxx" in await anext(body)
        read.append((f"p{number}", id_, asyncio.ensure_future(anext(body))))
        await settled()
    boxes = [streams._kept[id_.rpartition("-")[0]].box for _, id_, _ in read]
    assert sum(box.octets for box in boxes) == streams._all <= 150
    assert ended == []  # nobody who reads loses anything that is to come
    for _, _, reading in read:
        reading.cancel()
    await asyncio.gather(*[reading for _, _, reading in read], return_exceptions=True)
    await streams.aclose()
    assert (streams._all, streams._octets) == (0, {})


async def test_what_is_large_is_sent_before_a_server_is_read_on() -> None:
    streams, taken = streams_with(), list[int]()

    async def much() -> AsyncIterator[bytes]:
        yield b""
        for number in range(3):
            taken.append(number)
            yield data_event(b'"' + b"x" * 100_000 + b'"').raw

    body, _ = await begin(streams, ME, much())
    for number in range(3):
        await settled()
        assert len(taken) == number + 1
        assert b"xxx" in await anext(body)
    await body.aclose()
    await streams.aclose()


async def test_who_goes_away_holds_up_no_call_that_has_said_much() -> None:
    streams, taken = streams_with(), list[int]()

    async def much() -> AsyncIterator[bytes]:
        yield b""
        yield data_event(b'"' + b"x" * 100_000 + b'"').raw
        taken.append(1)

    body, _ = await begin(streams, ME, much())
    await settled()
    assert taken == []
    await body.aclose()
    await settled()
    assert taken == [1]
    await streams.aclose()


async def test_what_waits_for_a_slow_reader_is_not_given_out_once_everything_is_stopped(
    site: Site,
) -> None:
    server = Working(site)
    call = site.call("tools/call", CALL, **{**LEGACY, "session": SESSION})
    parts = (await streamed(site, call)).body
    assert not isinstance(parts, bytes)
    got = [await anext(parts) for _ in range(3)]  # and no further: its client reads slowly
    assert b'"one"' in got[-1]
    server.feed.say(log("two"))
    server.done()
    (kept,) = site.calls._kept.values()
    assert kept.pump is not None
    await kept.pump
    assert (site.house.last["verdict"], site.house.audit.records[-1].kind.value) == (
        "allow",
        "outcome",
    )
    site.house.stopped = True
    assert [part async for part in parts] == []
    site.house.stopped = False
    (last,) = re.findall(rb"id: (\S+)", got[-1])
    async with listening(site, after=last.decode()) as again:
        await again.ended.wait()
        logged, done = again.heard
    assert (logged["params"]["data"], done["result"]) == ("two", text("done"))

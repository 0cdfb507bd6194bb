"""The stream of an answer that breaks off is taken up again, and nothing is sent or told twice."""

import asyncio
import json
from itertools import pairwise

import pytest
from aiohttp import web

from gateway.domain.tools import Profile
from gateway.upstream import own_resume
from gateway.upstream.settings import Limits, Timeouts
from tests.servers.raw import STREAM, RawUpstream, Script, answers, hangs
from tests.upstream.permits import permit_for
from tests.upstream.resuming import (
    SESSION,
    Resumable,
    asked,
    breaks,
    note,
    priming,
    read,
    resumable,
)

DONE = {"said": "done"}
SOON = "1"
"""Milliseconds."""


@pytest.fixture(autouse=True)
def in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_resume, "_SHORTEST_S", 0.01)


def called(raw: RawUpstream) -> int:
    """How often the tool was called."""
    bodies = [json.loads(one.body or b"{}") for one in raw.seen]
    return sum(one.get("method") == "tools/call" for one in bodies)


async def test_a_stream_that_breaks_is_taken_up_behind_the_last_event() -> None:
    async with resumable() as (server, client, raw):
        server.pieces = [note("one", "a", SOON), note("two", "b"), breaks]
        server.later = [[note("three", "c"), server.done()]]
        assert await asked(client) == ["one", "two", "three", DONE]
        assert [last for last, _ in server.came_back] == ["b"]
        assert server.sessions == [SESSION]
        assert called(raw) == 1
        (get,) = [one for one in raw.seen if "last-event-id" in one.headers]
        assert get.headers["mcp-protocol-version"] == "2025-11-25"
        assert "text/event-stream" in get.headers["accept"]


async def test_a_server_that_ends_the_stream_on_purpose_is_polled() -> None:
    async with resumable() as (server, client, _):
        server.pieces = [priming("p0", SOON)]
        server.later = [[priming("p1")], [note("half", "p2")], [priming("p3")], [server.done()]]
        assert await asked(client) == ["half", DONE]
        assert [last for last, _ in server.came_back] == ["p0", "p1", "p2", "p3"]


async def test_a_server_says_when_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_resume, "_RETRY_S", 0.01)
    async with resumable() as (server, client, _):
        server.pieces = [priming("p0", "300")]
        server.later = [[priming("p1", SOON)], [server.done()]]
        began = asyncio.get_running_loop().time()
        assert await asked(client) == [DONE]
        assert server.came_back[0][1] - began >= 0.3


async def test_an_event_that_came_before_is_not_told_again() -> None:
    async with resumable() as (server, client, _):
        server.pieces = [note("one", "a", SOON), note("two", "b"), breaks]
        server.later = [[note("one", "a"), note("two", "b"), note("three", "c"), server.done()]]
        assert await asked(client) == ["one", "two", "three", DONE]


async def test_ids_that_are_all_the_same_swallow_nothing_on_one_stream() -> None:
    async with resumable() as (server, client, _):
        server.pieces = [note("one", "0"), note("two", "0"), server.done(id_="0")]
        assert await asked(client) == ["one", "two", DONE]


async def test_a_stream_that_has_given_the_response_is_not_taken_up() -> None:
    async with resumable() as (server, client, _):
        server.pieces = [priming("p0", SOON), server.done(id_="a"), breaks]
        told = await asked(client)
        assert told[0] == DONE
        assert server.came_back == []


@pytest.mark.parametrize("id_", [None, "", "é", "x" * 2000, " x"])
async def test_without_an_id_to_come_back_with_it_is_over(id_: str | None) -> None:
    async with resumable() as (server, client, raw):
        server.pieces = [note("one", id_, SOON), breaks]
        told = await asked(client)
        assert told[0] == "one"
        assert told[1].startswith("connection")
        assert server.came_back == []
        assert called(raw) == 1


async def test_an_empty_id_takes_the_last_one_back() -> None:
    async with resumable() as (server, client, _):
        server.pieces = [note("one", "a", SOON), note("two", ""), breaks]
        assert (await asked(client))[:2] == ["one", "two"]
        assert server.came_back == []


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_a_server_that_keeps_nothing_is_asked_once(status: int) -> None:
    async with resumable() as (server, client, raw):
        server.pieces = [note("one", "a", SOON), breaks]
        server.later = [answers("", status=status, media=None)] * 3
        told = await asked(client)
        assert told[0] == "one"
        assert told[1].startswith("connection")
        assert len(server.came_back) == 1
        assert called(raw) == 1


async def test_a_stream_that_just_ends_stays_without_a_response() -> None:
    async with resumable() as (server, client, _):
        server.pieces = [note("one", "a", SOON)]
        assert await asked(client) == ["one"]


async def test_after_five_in_a_row_that_bring_nothing_it_is_over() -> None:
    async with resumable() as (server, client, _):
        busy = answers("<html>", status=503, media="text/html")
        server.pieces = [note("one", "a", SOON), breaks]
        server.later = [busy, busy, busy, busy, [note("two", "b"), breaks], *[busy] * 9]
        told = await asked(client)
        assert told[:2] == ["one", "two"]
        assert [last for last, _ in server.came_back] == ["a"] * 5 + ["b"] * 5


async def test_a_stream_that_ends_at_once_brings_nothing() -> None:
    async with resumable() as (server, client, _):
        server.pieces = [priming("a", SOON)]
        server.later = [[] for _ in range(9)]
        assert await asked(client) == []
        assert len(server.came_back) == 5


async def test_each_try_that_brings_nothing_doubles_the_pause() -> None:
    async with resumable() as (server, client, _):
        server.pieces = [priming("a", "20")]
        server.later = [[] for _ in range(9)]
        await asked(client)
        times = [at for _, at in server.came_back]
        pauses = [later - at for at, later in pairwise(times)]
        assert all(pause >= 0.02 * 2**n for n, pause in enumerate(pauses, 1))


async def test_silence_on_a_stream_that_was_taken_up_is_the_end_and_the_server_is_told() -> None:
    quick = Timeouts(connect_s=1, idle_s=0.2, hard_s=60)
    async with asyncio.timeout(60), resumable(timeouts=quick) as (server, client, raw):
        server.pieces = [note("one", "a", SOON), breaks]
        server.later = [[note("two", "b"), hangs], [server.done()]]
        assert await asked(client) == ["one", "two", "idle: nothing within 0.2 s"]
        async with asyncio.timeout(60):
            while not server.cancelled:
                await asyncio.sleep(0.01)
        assert len(server.came_back) == 1
        ids = [json.loads(o.body)["id"] for o in raw.seen if b"tools/call" in o.body]
        assert server.cancelled == ids


async def later(request: web.Request) -> web.StreamResponse:
    """Take a while."""
    await asyncio.sleep(0.4)
    return web.Response()


def goes_on(server: Resumable) -> Script:
    """Say more on the same stream, again and again, and then the response."""

    async def scripted(request: web.Request) -> web.StreamResponse:
        for n in range(1, 4):
            await later(request)
            await request[STREAM].write(note(str(n)))
        await request[STREAM].write(server.done()(server.asked))
        return request[STREAM]

    return scripted


@pytest.mark.parametrize("streams", [1, 4])
async def test_progress_resets_the_idle_clock_over_all_streams(streams: int) -> None:
    quick = Timeouts(connect_s=1, idle_s=1.0, hard_s=60)
    async with resumable(timeouts=quick) as (server, client, _):
        began = asyncio.get_running_loop().time()
        if streams == 1:
            server.pieces = [note("0"), goes_on(server)]
        else:
            server.pieces = [note("0", "a", "400")]
            server.later = [[note(str(n), f"n{n}"), later] for n in range(1, streams)]
            server.later.append([server.done()])
        told = await asked(client)
        assert told == [*(str(n) for n in range(4)), DONE]
        assert asyncio.get_running_loop().time() - began > 1.15


async def test_however_much_is_said_there_is_a_hard_maximum() -> None:
    quick = Timeouts(connect_s=1, idle_s=1.5, hard_s=2.5)
    async with resumable(timeouts=quick) as (server, client, _):
        server.pieces = [note("one", "a", SOON)]
        server.later = [[note(str(n), f"n{n}"), later] for n in range(99)]
        told = await asked(client)
        assert told[0] == "one"
        assert 1 < len(server.came_back) < 99


async def test_a_pause_that_would_last_longer_than_the_call_may_is_not_made() -> None:
    quick = Timeouts(connect_s=1, idle_s=0.4, hard_s=1.0)
    async with resumable(timeouts=quick) as (server, client, _):
        server.pieces = [note("one", "a", "999999999999999999")]
        assert await asked(client) == ["one"]
        assert server.came_back == []


async def test_what_is_too_much_for_one_stream_is_too_much_for_many() -> None:
    async with resumable(limits=Limits(stream_bytes=3000)) as (server, client, _):
        server.pieces = [note("x" * 1000, "a", SOON)]
        server.later = [[note("y" * 1000, f"n{n}")] for n in range(9)]
        told = await asked(client)
        assert told[-1] == "streams of more than 3000 bytes"
        assert len(server.came_back) == 2


async def test_a_client_that_cancels_is_not_waited_for_any_more() -> None:
    async with resumable() as (server, client, _):
        server.pieces = [note("one", "a", "100")]
        server.later = [[server.done()]]
        permit = permit_for(profile=Profile.LEGACY, params={"name": "t"})
        answer = await client.forward(permit)
        assert not isinstance(answer.body, bytes)
        await anext(answer.body)
        reading = asyncio.create_task(read(answer))
        await asyncio.sleep(0.02)
        (asking,) = client._under_way.values()
        asking.answered = True
        asking.cancel()
        assert await reading == [""]
        await asyncio.sleep(0.15)
        assert server.came_back == []


async def test_nothing_of_the_stateless_revision_is_taken_up() -> None:
    async with resumable() as (server, client, _):
        server.pieces = [note("one", "a", SOON), breaks]
        told = await read(await client.forward(permit_for(params={"name": "t"})))
        assert told[0] == "one"
        assert server.came_back == []

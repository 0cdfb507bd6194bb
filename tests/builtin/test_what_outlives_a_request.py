"""What goes on once a request is over keeps nothing that it said, or else keeps its room."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest
from aiohttp import web

from gateway.builtin.late_calls import LateCalls
from gateway.domain.calls import Permit, RawAnswer, whatever_has_changed
from gateway.domain.flow import Run, RunId
from gateway.domain.labels import BOTTOM
from gateway.domain.room import FREE, SHARE, Rooms, Share
from gateway.domain.tools import Profile
from gateway.errors import UpstreamFailed
from gateway.flow.provenance import Provenance
from gateway.pipeline.memory import ProvenanceMemory
from gateway.upstream import own_subscriptions
from gateway.upstream.settings import Timeouts
from gateway.wire.inbound import MODERN_CAPABILITIES_KEY, MODERN_VERSION_KEY
from gateway.wire.operations import TASKS_CANCEL
from tests.builtin.front import NOTES, Site, speaks
from tests.builtin.listening import LEGACY, SESSION, Feed, follows, settled, tells
from tests.pipeline.house import MAIL, Events, event, text
from tests.pipeline.kept import weighs
from tests.storage.test_late_calls import late
from tests.upstream.opened import opened
from tests.upstream.permits import permit_for

NAMED = "douane://notes/notes://one"
LARGE = "\U0001f980" + "a" * 300_000
"""One wide character makes all of it wide: 1.2 MB."""
TASK = {"prompt": LARGE[:60_000], "tools": [f"\U0001f980{k}" + "a" * 490 for k in range(500)]}
ABOUT = {"a.example/b": LARGE, "douane/task": TASK}
LITTLE = 64 * 1024


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(own_subscriptions, "_AGAIN_S", 0.0)
    made = await Site().furnish()
    yield made
    await made.aclose()


def forgotten(site: Site) -> None:
    """Have the tests' own servers keep nothing of what they were sent."""
    for server in site.servers.values():
        server.saw.clear()


async def test_what_is_followed_at_an_older_server_keeps_no_call(site: Site) -> None:
    site.spoken[NOTES] = frozenset({Profile.LEGACY})
    site.servers[NOTES].answer = tells(Feed())
    params = {"uri": NAMED, "_meta": ABOUT}
    seen = await site.ask("resources/subscribe", params, **LEGACY, session=SESSION)
    assert seen.json["result"] == {}
    forgotten(site)
    client = site.clients[NOTES]
    assert weighs(client._subscriptions._lines) < LITTLE
    assert weighs(client._sessions._open) < LITTLE


@pytest.mark.parametrize("profile", [*Profile])
async def test_what_is_followed_at_a_stateless_server_keeps_no_call(
    site: Site, profile: Profile
) -> None:
    feeds: list[Feed] = []
    site.spoken[NOTES] = frozenset({Profile.MODERN})
    site.servers[NOTES].answer = follows(feeds)
    params = {"uri": NAMED, "_meta": ABOUT}
    if profile is Profile.LEGACY:
        await site.ask("resources/subscribe", params, **LEGACY, session=SESSION)
    else:
        wanted = {"notifications": {"resourceSubscriptions": [NAMED]}, "_meta": ABOUT}
        await site.aggregate.handle(site.call("subscriptions/listen", wanted, id_=7))
    feeds[0].end()  # and is asked again
    async with asyncio.timeout(60):
        while len(feeds) < 2:
            await asyncio.sleep(0)
    await settled()
    asked = site.servers[NOTES].saw[-1].call.message
    assert asked.params["_meta"].keys() == {
        MODERN_VERSION_KEY,
        MODERN_CAPABILITIES_KEY,
        "io.modelcontextprotocol/clientInfo",
    }
    forgotten(site)
    assert weighs(site.clients[NOTES]._subscriptions._lines) < LITTLE


def asking(permit: Permit) -> RawAnswer:
    """Answer with a question, and then with the answer."""
    asks = {"jsonrpc": "2.0", "id": 0, "method": "roots/list"}
    done = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": text("done")}
    return Events([event(asks), event(done)]).answer()


async def test_questions_that_nobody_answers_take_no_more_than_they_are_counted_for(
    site: Site,
) -> None:
    site.spoken[MAIL] = frozenset({Profile.LEGACY})
    site.servers[MAIL].answer = speaks(asking)
    client = site.clients[MAIL]

    async def asked() -> tuple[int, int]:
        params = {"name": "mail__search", "arguments": {"q": LARGE}, "_meta": ABOUT}
        assert len((await site.ask("tools/call", params, **LEGACY, session="r.1")).messages) == 2
        forgotten(site)
        return weighs(client._asked._of), client._asked.octets

    (first, counted), (second, more) = [await asked() for _ in range(2)]
    assert second - first <= more - counted < LITTLE
    assert weighs(client._sessions._open) < LITTLE


async def test_a_session_keeps_no_call(site: Site) -> None:
    site.spoken[MAIL] = frozenset({Profile.LEGACY})
    site.servers[MAIL].answer = speaks()
    params = {"name": "mail__search", "arguments": {"q": LARGE}, "_meta": ABOUT}
    assert (await site.ask("tools/call", params, **LEGACY, session=SESSION)).code is None
    forgotten(site)
    assert weighs(site.clients[MAIL]._sessions._open) < LITTLE


async def test_a_session_that_is_being_begun_keeps_no_call(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.spoken[MAIL] = frozenset({Profile.LEGACY})
    reached = asyncio.Event()

    async def never(_: Permit) -> RawAnswer:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(site.servers[MAIL], "forward", never)
    params = {"name": "mail__search", "arguments": {"q": LARGE}, "_meta": ABOUT}
    asking = asyncio.create_task(site.ask("tools/call", params, **LEGACY, session=SESSION))
    await reached.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    (opening,) = site.clients[MAIL]._sessions._open.values()
    begins = inspect.getcoroutinelocals(cast("Any", opening.get_coro()))["permit"]
    assert weighs(replace(begins, last_look=whatever_has_changed)) < LITTLE


# What takes a moment more keeps the room.


class Asking:
    """A large request that is answered; its room goes back at its end, unless something goes on."""

    def __init__(self) -> None:
        self._rooms = Rooms()
        self._share = Share(self._rooms, "alice")
        SHARE.set(self._share)
        assert self._share.covers(4 * FREE)

    async def ends(self, answering: asyncio.Task[Any]) -> None:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        self._share.end()

    @property
    def has_room(self) -> bool:
        return self._rooms.requests.taken == 4 * FREE

    async def room_is_given_back(self) -> None:
        async with asyncio.timeout(60):
            while self._rooms.requests.taken:
                await asyncio.sleep(0)


async def test_whoever_tells_a_server_that_nobody_waits_keeps_the_room(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.spoken[MAIL] = frozenset({Profile.LEGACY})
    site.servers[MAIL].answer = speaks()
    reached, told, free = asyncio.Event(), asyncio.Event(), asyncio.Event()
    forward = site.servers[MAIL].forward

    async def slowly(permit: Permit) -> RawAnswer:
        if permit.call.message.method == "tools/call":
            reached.set()
            await asyncio.Event().wait()
        elif permit.call.message.method == "notifications/cancelled":
            told.set()
            await free.wait()
        return await forward(permit)

    monkeypatch.setattr(site.servers[MAIL], "forward", slowly)
    request = Asking()
    params = {"name": "mail__search", "arguments": {}}
    answering = asyncio.create_task(site.ask("tools/call", params))
    await reached.wait()
    await request.ends(answering)
    await told.wait()
    assert request.has_room
    free.set()
    await request.room_is_given_back()


async def test_whoever_ends_a_late_call_of_a_program_keeps_the_room() -> None:
    told, free = asyncio.Event(), asyncio.Event()

    async def ask(method: str, _: str) -> Any:
        assert method == TASKS_CANCEL
        told.set()
        await free.wait()

    request = Asking()
    begun = {"taskId": "t", "status": "working", "pollIntervalMs": 60_000}
    answering = asyncio.create_task(LateCalls().settled(begun, ask))
    await asyncio.sleep(0)
    await request.ends(answering)
    await told.wait()
    assert request.has_room
    free.set()
    await request.room_is_given_back()


async def test_whoever_tells_a_server_that_was_given_up_keeps_the_room() -> None:
    free = asyncio.Event()

    async def script(request: web.Request) -> web.Response:
        if b"cancelled" in await request.read():
            await free.wait()
        else:
            await asyncio.Event().wait()
        return web.json_response({})

    timeouts = Timeouts(connect_s=60.0, idle_s=0.2, hard_s=60.0)
    async with opened(script, timeouts=timeouts) as (upstream, server):
        request = Asking()
        answering = asyncio.create_task(upstream.forward(permit_for(profile=Profile.LEGACY)))
        await asyncio.wait([answering])
        assert isinstance(answering.exception(), UpstreamFailed)
        await server.until_seen(2)
        await request.ends(answering)
        assert request.has_room
        free.set()
        await request.room_is_given_back()


async def test_what_a_thread_goes_through_to_its_end_keeps_the_room() -> None:
    memory, run = ProvenanceMemory(lambda _: None), Run(id=RunId("r1"), label=BOTTOM)
    reached, free = threading.Event(), threading.Event()

    def slow(_: Provenance) -> None:
        reached.set()
        free.wait(60)

    request = Asking()
    answering = asyncio.create_task(memory.with_it(run, "alice", 1_000_000, slow, looks=True))
    await asyncio.to_thread(reached.wait, 60)
    await request.ends(answering)
    assert request.has_room
    free.set()
    await request.room_is_given_back()


def test_leave_that_lasts_keeps_nothing_that_a_late_call_said() -> None:
    said = late(params={"a": LARGE}, written={"a": LARGE}, joined={"arguments": LARGE})
    permit = replace(permit_for(), late=said)
    assert weighs(permit.lasting) < LITTLE < weighs(permit)
    assert permit.lasting.late is not None
    assert (permit.lasting.late.run, permit.lasting.late.clean) == (said.run, said.clean)

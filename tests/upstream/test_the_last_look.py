"""What waited for a way to its server is looked at once more, when there is one and nothing is sent."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.domain.calls import Form, Permit, RawAnswer
from gateway.domain.tools import Kind, Profile, Target, UpstreamId
from gateway.errors import Stopped, UpstreamFailed
from gateway.upstream import own_subscriptions
from gateway.upstream.faults import Challenged
from gateway.upstream.http import HttpUpstream
from gateway.upstream.local import Channels
from gateway.upstream.personal import sent_in_name_of
from gateway.upstream.settings import Limits, UpstreamSettings
from tests.builtin.front import NOTES, Site, methods, speaks
from tests.builtin.listening import LEGACY, SESSION, Feed, follows, listening, settled
from tests.pipeline.house import ALICE, MAIL, READ, House, result, text, whole
from tests.servers.raw import raw_upstream
from tests.upstream.permits import permit_for
from tests.upstream.started import call, initialize, local_upstream, said, session_of
from tests.upstream.test_own_client import CALL, HANDSHAKE, OLD, answer_to, streams
from tests.upstream.test_refused_credentials import Credentials

Forward = Callable[[Permit], Any]


class Stop:
    """What everything is stopped by, for a permit to ask."""

    def __init__(self) -> None:
        self.holds = False

    def __call__(self, _: Permit) -> None:
        if self.holds:
            raise Stopped("an operator has stopped all calls")

    def asked_by(self, permit: Permit) -> Permit:
        return replace(permit, last_look=self)


async def test_what_waits_for_a_connection_is_looked_at_when_it_has_one() -> None:
    stop, free = Stop(), asyncio.Event()

    async def script(_: web.Request) -> web.Response:
        await free.wait()
        return web.json_response({})

    async with raw_upstream(script) as server:
        limits = Limits(connections=1)
        settings = UpstreamSettings(server=UpstreamId("raw"), url=server.url, limits=limits)
        upstream = HttpUpstream(settings)
        permit = stop.asked_by(permit_for())
        first = asyncio.create_task(upstream.forward(permit))
        await server.until_seen(1)
        second = asyncio.create_task(upstream.forward(permit))
        await asyncio.sleep(0)
        stop.holds = True
        free.set()
        await first
        with pytest.raises(Stopped):
            await second
        assert len(server.seen) == 1
        stop.holds = False
        await upstream.forward(permit)  # the place is nobody's that was refused
        await upstream.aclose()


async def test_what_ends_a_call_goes_out_all_the_same() -> None:
    stop = Stop()
    stop.holds = True

    async def script(_: web.Request) -> web.Response:
        return web.Response(status=202)

    async with raw_upstream(script) as server:
        upstream = HttpUpstream(UpstreamSettings(server=UpstreamId("raw"), url=server.url))
        permit = stop.asked_by(permit_for(profile=Profile.LEGACY, session="s"))
        await upstream.cancel(permit)
        await upstream.reject(permit, b"{}")
        assert len(server.seen) == 2
        await upstream.aclose()


async def test_a_second_sending_is_looked_at_again_and_the_first_has_left() -> None:
    stop = Stop()

    async def script(_: web.Request) -> web.Response:
        stop.holds = True
        return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})

    async with raw_upstream(script) as server:
        settings = UpstreamSettings(server=UpstreamId("raw"), url=server.url, per_person=True)
        credentials: Any = Credentials(1)
        upstream = HttpUpstream(settings, credentials)
        with pytest.raises(Stopped) as raised:
            await upstream.forward(stop.asked_by(permit_for()))
        assert len(server.seen) == 1
        assert raised.value.has_left
        await upstream.aclose()


async def test_what_is_refused_before_its_first_sending_has_not_left() -> None:
    async def refused(**_: Any) -> Any:
        raise Stopped("an operator has stopped all calls")

    credentials: Any = Credentials(1)
    with pytest.raises(Stopped) as raised:
        await sent_in_name_of(ALICE, MAIL, credentials, [], refused)
    assert not raised.value.has_left


@pytest.mark.parametrize("asked", [initialize(), call("echo")], ids=["a session", "stateless"])
async def test_what_waits_for_a_process_is_looked_at_when_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Permit
) -> None:
    stop, opened = Stop(), Channels.open
    told: list[Any] = []

    async def slowly(*args: Any, **more: Any) -> Any:
        found = await opened(*args, **more)
        monkeypatch.setattr(found[1], "ask", told.append)
        stop.holds = True
        return found

    monkeypatch.setattr(Channels, "open", slowly)
    async with local_upstream(tmp_path) as upstream:
        with pytest.raises(Stopped):
            await upstream.forward(stop.asked_by(asked))
    assert told == []


async def test_a_process_of_a_session_that_was_begun_is_there_at_once(tmp_path: Path) -> None:
    async with local_upstream(tmp_path) as upstream:
        session = await session_of(upstream)
        assert await said(upstream, Stop().asked_by(call("pid", session)))


# Sessions of our own.


@pytest.fixture
async def site() -> Any:
    site = await Site(spoken=frozenset({Profile.LEGACY})).furnish()
    site.servers[MAIL].answer = speaks()
    yield site
    await site.aclose()


def wired(site: Site, monkeypatch: pytest.MonkeyPatch, before: Forward) -> None:
    """Have the server look as whoever writes to the wire does; `before` is what happens meanwhile."""
    forward = site.servers[MAIL].forward

    async def sent(permit: Permit) -> RawAnswer:
        permit.last_look(permit)
        answer = await forward(permit)
        await before(permit)
        return answer

    monkeypatch.setattr(site.servers[MAIL], "forward", sent)


def stopping(site: Site, method: str) -> Forward:
    async def stop(permit: Permit) -> None:
        if permit.call.message.method == method:
            site.house.stopped = True

    return stop


@pytest.mark.parametrize("while_", HANDSHAKE[:2])
async def test_a_stop_while_a_session_is_begun_keeps_the_call_from_going_out(
    site: Site, monkeypatch: pytest.MonkeyPatch, while_: str
) -> None:
    wired(site, monkeypatch, stopping(site, while_))
    seen = await site.ask("tools/call", CALL, **OLD)
    assert seen.code == "policy_stopped"
    assert not seen.reply.unknown
    assert "tools/call" not in methods(site.servers[MAIL])
    assert site.house.kinds() == ["intent", "outcome"]


async def test_a_definition_that_changes_while_a_session_is_begun_is_not_called(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def revoke(permit: Permit) -> None:
        if permit.call.message.method == "initialize":
            search = Target(server=MAIL, kind=Kind.TOOL, name="search")
            await site.house.pins.revoke(search, Profile.LEGACY, by="bob", note="")

    wired(site, monkeypatch, revoke)
    other = {**CALL, "name": "mail__send"}
    first = asyncio.create_task(site.ask("tools/call", CALL, **OLD))
    second = asyncio.create_task(site.ask("tools/call", other, **OLD))
    assert (await first).code == "pin_revoked"
    # Whoever waits for the same session has another call, which nothing stands against.
    assert (await second).code is None
    assert methods(site.servers[MAIL]).count("tools/call") == 1


async def test_what_a_forgotten_session_brought_back_is_not_sent_again_after_a_stop(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.servers[MAIL].answer = speaks(lambda _: whole(b"", status=404))
    wired(site, monkeypatch, stopping(site, "tools/call"))
    seen = await site.ask("tools/call", CALL, **OLD)
    assert seen.code == "policy_stopped"
    assert methods(site.servers[MAIL]) == [*HANDSHAKE, "tools/call"]


async def test_no_level_is_told_for_a_call_that_does_not_go_out(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.servers[MAIL].answer = speaks(capabilities={"logging": {}})
    await site.ask("logging/setLevel", {"level": "debug"}, **OLD)
    wired(site, monkeypatch, stopping(site, "GET"))
    assert (await site.ask("tools/call", CALL, **OLD)).code == "policy_stopped"
    assert methods(site.servers[MAIL]) == HANDSHAKE


async def test_nobody_is_told_to_cancel_what_was_never_sent(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired(site, monkeypatch, stopping(site, "GET"))
    assert (await site.ask("tools/call", CALL)).code == "policy_stopped"
    await asyncio.sleep(0)
    assert methods(site.servers[MAIL]) == HANDSHAKE


async def test_an_answer_to_a_question_is_looked_at_as_it_goes_out(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"jsonrpc": "2.0", "id": 0, "method": "roots/list", "params": {}}
    site.servers[MAIL].answer = speaks(streams(asked))
    await site.ask("tools/call", CALL, **OLD)
    looked: list[Any] = []

    async def forward(permit: Permit) -> RawAnswer:
        looked.append((permit.call.message.form, permit.last_look, permit.access))
        return whole(b"", status=202)

    monkeypatch.setattr(site.servers[MAIL], "forward", forward)
    reply = await site.aggregate.handle(answer_to(site, "mail/1", **OLD))
    assert reply.status == 202
    ((form, look, access),) = looked
    assert (form, look) == (Form.RESPONSE, site.house.pipeline._admission.require_unchanged)
    assert access is not None


async def test_a_session_that_is_not_used_any_more_is_left_after_a_stop(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired(site, monkeypatch, stopping(site, "tools/call"))
    await site.ask("tools/call", CALL, **OLD)
    await site.clients[MAIL].aclose()
    assert methods(site.servers[MAIL])[-1] == "DELETE"


async def test_what_is_under_way_is_cancelled_after_a_stop_as_well(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = asyncio.Event()

    async def stop(permit: Permit) -> None:
        if permit.call.message.method == "tools/call":
            site.house.stopped = True
            reached.set()
            await asyncio.Event().wait()

    wired(site, monkeypatch, stop)
    calling = asyncio.create_task(site.ask("tools/call", CALL))
    await reached.wait()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await settled()
    assert methods(site.servers[MAIL])[-1] == "notifications/cancelled"


async def test_a_second_sending_into_another_session_has_left(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.servers[MAIL].answer = speaks(lambda _: whole(b"", status=404))
    wired(site, monkeypatch, stopping(site, "tools/call"))
    call = site.call("tools/call", CALL, **OLD)
    house, raised = site.house, []
    refuse = house.pipeline._refuse
    front: Any = site.aggregate._carrier

    async def noted(call: Any, trail: Any, error: Any) -> Any:
        raised.append((error.not_sent, error.has_left))
        return await refuse(call, trail, error)

    monkeypatch.setattr(front, "_refuse", noted)
    await site.aggregate.handle(call)
    assert raised == [(True, True)]


async def test_a_resource_is_followed_anew_after_a_stop_as_before(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_subscriptions, "_AGAIN_S", 0.0)
    feeds: list[Feed] = []
    site.spoken[NOTES] = frozenset({Profile.MODERN})
    site.servers[NOTES].answer = follows(feeds)
    forward = site.servers[NOTES].forward

    async def looking(permit: Permit) -> RawAnswer:
        permit.last_look(permit)
        return await forward(permit)

    monkeypatch.setattr(site.servers[NOTES], "forward", looking)
    named = {"uri": "douane://notes/notes://one"}
    async with listening(site):
        await site.ask("resources/subscribe", named, **{**LEGACY, "session": SESSION})
        site.house.stopped = True
        feeds[0].end()
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(feeds) > 1


# What is on record of it.


@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
async def test_what_the_last_look_keeps_back_was_not_sent(method: str) -> None:
    house = House(tools={"search": READ})
    await house.approve_all()

    def late(permit: Permit) -> RawAnswer:
        house.stopped = True
        permit.last_look(permit)
        return result(permit, text("hello"))

    house.server.answer = late
    asked = house.call() if method == "tools/call" else house.request(method)
    seen = await house.handle(asked)
    assert (seen.code, seen.reply.unknown) == ("policy_stopped", False)
    assert house.kinds() == ["intent", "outcome"]


async def test_what_a_server_has_when_everything_is_stopped_may_be_carried_out() -> None:
    house = House(tools={"search": READ})
    await house.approve_all()

    def late(permit: Permit) -> RawAnswer:
        permit.last_look(permit)
        house.stopped = True
        raise UpstreamFailed("it broke")

    house.server.answer = late
    seen = await house.handle(house.call())
    assert (seen.code, seen.reply.unknown) == ("upstream_failed", True)


async def test_who_waits_for_the_same_session_and_was_not_sent_has_not_left(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.servers[MAIL].answer = speaks(lambda _: whole(b"", status=404))
    front: Any = site.aggregate._carrier
    refuse, raised = front._refuse, []
    shared = UpstreamFailed("no session")

    async def of(_: Permit) -> Any:
        raise shared

    async def noted(call: Any, trail: Any, error: Any) -> Any:
        raised.append(error.has_left)
        return await refuse(call, trail, error)

    async def no_more(permit: Permit) -> None:
        if permit.call.message.method == "tools/call":
            monkeypatch.setattr(site.clients[MAIL]._sessions, "of", of)

    wired(site, monkeypatch, no_more)
    monkeypatch.setattr(front, "_refuse", noted)
    for _ in range(2):
        await site.aggregate.handle(site.call("tools/call", CALL, **OLD))
    assert (raised, shared.has_left) == ([True, False], False)


async def test_what_left_to_begin_a_session_is_not_the_call(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    front: Any = site.aggregate._carrier
    refuse, sent = front._refuse, []

    async def refused(_: Permit) -> RawAnswer:
        raise Challenged(401, "Bearer")

    async def noted(call: Any, trail: Any, error: Any) -> Any:
        reply = await refuse(call, trail, error)
        sent.append(trail.sent)
        return reply

    monkeypatch.setattr(site.servers[MAIL], "forward", refused)
    monkeypatch.setattr(front, "_refuse", noted)
    calls = [site.aggregate.handle(site.call("tools/call", CALL, **OLD)) for _ in range(2)]
    await asyncio.gather(*calls)
    assert sent == [False, False]

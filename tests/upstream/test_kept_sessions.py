"""How long the gateway's own sessions with servers last: pings, idleness, and an end that is said."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import Permit, RawAnswer
from gateway.domain.tools import Profile
from gateway.upstream import own_sessions
from gateway.upstream.breaker import Breaker, Patience
from gateway.upstream.guarded import GuardedUpstream
from gateway.upstream.replies import discard
from gateway.wire.jsontext import WireLimits
from tests.servers.raw import RawUpstream, Script, answers, hangs, resets, streams
from tests.upstream.permits import permit_for
from tests.upstream.resuming import SESSION, asked, note, priming, read, resumable

UNKNOWN = json.dumps(
    {"jsonrpc": "2.0", "id": "front-ping", "error": {"code": -32601, "message": "no such method"}}
)
PONG = b'data: {"jsonrpc":"2.0","id":"front-ping","result":{}}\n\n'
OFTEN_S = 0.05
BUSY_S = 2.0
"""So long an answer can take on a busy machine."""


def said(raw: RawUpstream) -> list[str]:
    """The methods of what arrived, in order, without pings."""
    found = [json.loads(one.body)["method"] if one.body else one.method for one in raw.seen]
    return [one for one in found if one != "ping"]


def begun(raw: RawUpstream) -> int:
    return said(raw).count("initialize")


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


async def test_without_a_rate_nobody_is_pinged() -> None:
    async with resumable() as (server, client, _):
        server.pieces = [server.done()]
        await asked(client)
        await asyncio.sleep(0.1)
        assert server.pings == []


THERE: dict[str, Script | None] = {
    "an answer": None,
    "a streamed answer": streams(PONG),
    "an error": answers(UNKNOWN),
    "no such method": answers(UNKNOWN, status=404),
}
GONE: dict[str, Script] = {
    "silence": hangs,
    "a broken connection": resets,
    "a fault": answers("<html>", status=503, media="text/html"),
    "nonsense": answers("<html>", media="text/html"),
}


@pytest.mark.parametrize("pong", THERE.values(), ids=THERE)
async def test_a_server_that_answers_keeps_its_session(pong: Script | None) -> None:
    async with resumable(ping_s=OFTEN_S) as (server, client, raw):
        server.pieces = [server.done()]
        server.pong = pong or server.pong
        await asked(client)
        await until(lambda: len(server.pings) >= 3)
        await asked(client)
        assert begun(raw) == 1
        pings = [one for one in raw.seen if b'"ping"' in one.body]
        assert {one.headers["mcp-session-id"] for one in pings} == {SESSION}


@pytest.mark.parametrize("pong", GONE.values(), ids=GONE)
async def test_a_session_whose_server_does_not_answer_is_ended_and_begun_anew(
    pong: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "_PONG_S", OFTEN_S)
    async with resumable(ping_s=OFTEN_S) as (server, client, raw):
        server.pieces = [server.done()]
        server.pong = pong
        await asked(client)
        await until(lambda: "DELETE" in said(raw))
        assert len(server.pings) == 2
        await asked(client)
        assert begun(raw) == 2


@pytest.mark.parametrize("pong", GONE.values(), ids=GONE)
async def test_one_answer_that_is_missed_ends_no_session(
    pong: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "_PONG_S", BUSY_S)
    async with resumable(ping_s=OFTEN_S) as (server, client, raw):
        server.pieces = [server.done()]
        answers_again = server.pong

        async def now_and_then(request: Any) -> Any:
            return await (pong if len(server.pings) % 2 else answers_again)(request)

        server.pong = now_and_then
        await asked(client)
        await until(lambda: len(server.pings) >= 5)
        await asked(client)
        assert begun(raw) == 1


FORGOTTEN = UNKNOWN.replace("-32601", "-32001")
UNREAD = FORGOTTEN.replace("front-ping", "server-error")


@pytest.mark.parametrize(
    "pong",
    [
        answers("", status=404, media=None),
        answers(FORGOTTEN, status=404),
        answers(UNREAD, status=404),
    ],
    ids=["bare", "with an error", "unread"],
)
async def test_a_session_that_the_server_has_forgotten_is_begun_anew(pong: Script) -> None:
    async with resumable(ping_s=OFTEN_S) as (server, client, raw):
        server.pieces = [server.done()]
        server.pong = pong
        await asked(client)
        await until(lambda: not client._sessions._open)
        assert len(server.pings) == 1
        await asked(client)
        assert begun(raw) == 2


async def test_while_a_call_is_under_way_nobody_is_pinged() -> None:
    async with resumable(ping_s=OFTEN_S) as (server, client, raw):
        server.pieces = [note("one"), hangs]
        server.pong = hangs
        answer = await client.forward(permit_for(profile=Profile.LEGACY, params={"name": "t"}))
        assert not isinstance(answer.body, bytes)
        await anext(answer.body)
        await asyncio.sleep(3 * OFTEN_S)
        assert server.pings == []
        reading = asyncio.create_task(read(answer))
        reading.cancel()
        await asyncio.wait([reading])
        await discard(answer)
        await until(lambda: "DELETE" in said(raw))


async def test_a_server_that_is_left_alone_keeps_its_session() -> None:
    async with resumable(ping_s=OFTEN_S) as (server, client, raw):
        server.pieces = [server.done()]
        await asked(client)
        (session,) = client._sessions._open.values()
        relay = client._sessions._relay
        patience = Patience(failures=1, rest_s=60)
        breaker = Breaker(client._server, patience, clock=lambda: 0.0, jitter=lambda: 0.0)
        client._sessions._relay = GuardedUpstream(relay, breaker, WireLimits())
        breaker.failed((await session).begun_by.principal, None, "late")
        before = len(server.pings)
        await asyncio.sleep(4 * OFTEN_S)
        assert len(server.pings) <= before + 1  # one may have been under way
        assert "DELETE" not in said(raw)
        assert list(client._sessions._open.values()) == [session]


async def test_a_session_without_an_id_is_not_pinged() -> None:
    async def plain(permit: Permit) -> RawAnswer:
        answer = await forward(permit)
        return replace(answer, session=None)

    async with resumable(ping_s=OFTEN_S) as (server, client, _):
        forward = client._relay.forward
        client._sessions._relay = SimpleRelay(plain)
        server.pieces = [server.done()]
        await asked(client)
        await asyncio.sleep(3 * OFTEN_S)
        assert server.pings == []


class SimpleRelay:
    def __init__(self, forward: Any) -> None:
        self.forward = forward

    async def reject(self, permit: Permit, body: bytes) -> None:
        raise AssertionError(body)


async def test_pings_do_not_keep_a_session_that_nobody_uses() -> None:
    async with resumable(ping_s=OFTEN_S, idle_s=0.2) as (server, client, raw):
        server.pieces = [server.done()]
        await asked(client)
        await until(lambda: "DELETE" in said(raw))
        pings = len(server.pings)
        assert pings
        await asyncio.sleep(3 * OFTEN_S)
        assert len(server.pings) == pings


async def test_sessions_of_one_principal_are_ended_and_no_others() -> None:
    async with resumable() as (server, client, raw):
        server.pieces = [server.done()]
        permits = [permit_for(profile=Profile.LEGACY, params={"name": "t"})]
        permits.append(replace(permits[0], principal=replace(permits[0].principal, subject="bob")))
        for permit in permits:
            await read(await client.forward(permit))
        client.end_sessions(permits[0].principal.key)
        await until(lambda: "DELETE" in said(raw))
        assert [key[0] for key in client._sessions._open] == [permits[1].principal.key]
        await read(await client.forward(permits[0]))
        assert (begun(raw), said(raw).count("DELETE")) == (3, 1)


async def test_a_session_in_use_is_ended_with_the_last_request_in_it() -> None:
    async with resumable() as (server, client, raw):
        server.pieces = [priming("p0", "150")]
        server.later = [[server.done()]]
        permit = permit_for(profile=Profile.LEGACY, params={"name": "t"})
        reading = asyncio.create_task(asked(client))
        await raw.until_seen(4)
        client.end_sessions(permit.principal.key)
        await asyncio.sleep(0.05)
        assert "DELETE" not in said(raw)
        assert await reading == [{"said": "done"}]
        await until(lambda: "DELETE" in said(raw))
        assert begun(raw) == 1


async def test_a_session_that_is_just_being_begun_is_ended_after_its_first_request() -> None:
    async with resumable() as (server, client, raw):
        server.pieces = [server.done()]
        permit = permit_for(profile=Profile.LEGACY, params={"name": "t"})
        reading = asyncio.create_task(asked(client))
        await raw.until_seen(1)
        client.end_sessions(permit.principal.key)
        assert await reading == [{"said": "done"}]
        await until(lambda: "DELETE" in said(raw))
        assert begun(raw) == 1


async def test_with_the_sessions_of_a_principal_ends_what_was_followed_in_them() -> None:
    async with resumable() as (_, client, raw):
        permit = permit_for(
            "resources/subscribe",
            profile=Profile.LEGACY,
            session="esr.1",
            params={"uri": "notes://a"},
        )
        await client.forward(permit)
        client.end_sessions("another")
        assert client._subscriptions._lines
        client.end_sessions(permit.principal.key)
        await until(lambda: "DELETE" in said(raw) and not client._subscriptions._lines)
        assert begun(raw) == 1


async def test_the_end_of_the_client_ends_every_session() -> None:
    async with resumable() as (server, client, raw):
        server.pieces = [server.done()]
        await asked(client)
        await client.aclose()
        last = raw.seen[-1]
        assert (last.method, last.headers["mcp-session-id"]) == ("DELETE", SESSION)

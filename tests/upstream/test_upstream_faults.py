"""An upstream that is slow, silent or gone costs its own callers a fault, and no more."""

import asyncio
import json

import pytest
from aiohttp import web

from gateway.domain.calls import Form, ServerEvent
from gateway.domain.tools import Profile, UpstreamId
from gateway.errors import LimitExceeded, UpstreamFailed
from gateway.upstream.http import HttpUpstream
from gateway.upstream.settings import Limits, Timeouts, UpstreamSettings
from gateway.upstream.stream import EventStream
from tests.servers.process import nobodys_port
from tests.servers.raw import STREAM, RawUpstream, Script, answers, hangs, resets, streams
from tests.upstream.opened import opened
from tests.upstream.permits import permit_for

HASTY = Timeouts(connect_s=2.0, idle_s=0.2, hard_s=20.0)
SHORT = Timeouts(connect_s=2.0, idle_s=10.0, hard_s=0.3)
ONE = b'data: {"a":1}\n\n'


async def stream_of(upstream: HttpUpstream, **about: object) -> EventStream:
    answer = await upstream.forward(permit_for(**about))  # type: ignore[arg-type]
    assert isinstance(answer.body, EventStream)
    return answer.body


async def drips(request: web.Request) -> web.StreamResponse:
    """Send one comment after the other and never an answer."""
    while True:
        await asyncio.sleep(0.02)
        await request[STREAM].write(b": wait\n\n")


async def test_events_arrive_one_by_one_with_their_exact_bytes():
    script = streams(
        b"id: 1\nretry: 5\ndata: \n\n",
        b': keep-alive\n\ndata: {"a"',
        b":1}\n\n",
        media="Text/Event-Stream; charset=utf-8",
    )
    async with opened(script) as (upstream, _):
        events = [event async for event in await stream_of(upstream)]
    assert b"".join(event.raw for event in events) == (
        b'id: 1\nretry: 5\ndata: \n\n: keep-alive\n\ndata: {"a":1}\n\n'
    )
    assert events[-1] == ServerEvent(raw=ONE, data=b'{"a":1}')


async def test_the_first_event_is_there_before_the_last_is_sent():
    async with opened(streams(ONE, then=hangs)) as (upstream, _):
        stream = await stream_of(upstream)
        assert (await anext(stream)).data == b'{"a":1}'
        await stream.aclose()


async def test_closing_a_stream_closes_the_connection_at_once():
    async with opened(streams(ONE, then=hangs)) as (upstream, server):
        stream = await stream_of(upstream)
        await stream.aclose()
        await stream.aclose()
        await server.until_left()


async def test_closing_a_stream_waits_for_nothing():
    async with opened(streams(ONE, then=hangs)) as (upstream, server):
        stream = await stream_of(upstream)
        with pytest.raises(StopIteration):
            stream.aclose().send(None)
        await server.until_left()


async def test_a_reader_that_is_cancelled_closes_the_stream():
    async with opened(streams(ONE, then=hangs)) as (upstream, server):
        stream = await stream_of(upstream)
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await server.until_left()


async def test_a_call_that_is_cancelled_before_its_answer_closes_the_connection():
    async with opened(hangs) as (upstream, server):
        call = asyncio.create_task(upstream.forward(permit_for()))
        await server.until_seen(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.until_left()
    assert len(server.seen) == 1


async def test_nobody_there_is_a_fault():
    upstream = HttpUpstream(
        UpstreamSettings(server=UpstreamId("raw"), url=f"http://127.0.0.1:{nobodys_port()}/mcp")
    )
    with pytest.raises(UpstreamFailed, match="connection: ConnectFailed: ConnectionRefusedError"):
        await upstream.forward(permit_for())
    await upstream.aclose()


async def test_no_free_connection_is_a_fault():
    timeouts = Timeouts(connect_s=0.2, idle_s=10.0, hard_s=20.0)
    async with opened(hangs, timeouts=timeouts, limits=Limits(connections=1)) as (upstream, server):
        first = asyncio.create_task(upstream.forward(permit_for()))
        await server.until_seen(1)
        with pytest.raises(UpstreamFailed, match=r"no free connection in time"):
            await upstream.forward(permit_for(profile=Profile.LEGACY))
        first.cancel()
        await asyncio.wait([first])
        await asyncio.sleep(0.1)
    assert len(server.seen) == 1


async def test_silence_before_the_answer_is_a_fault():
    async with opened(hangs, timeouts=HASTY) as (upstream, server):
        with pytest.raises(UpstreamFailed, match=r"first byte: no answer within 0.2 s"):
            await upstream.forward(permit_for())
        await server.until_left()


async def test_an_upstream_that_does_not_read_the_request_is_a_fault():
    async def accepts(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    held: list[asyncio.StreamWriter] = []
    deaf = await asyncio.start_server(accepts, "127.0.0.1", 0, limit=1024)
    port = deaf.sockets[0].getsockname()[1]
    timeouts = Timeouts(connect_s=0.2, idle_s=0.2, hard_s=20.0)
    upstream = HttpUpstream(
        UpstreamSettings(
            server=UpstreamId("raw"), url=f"http://127.0.0.1:{port}/mcp", timeouts=timeouts
        )
    )
    with pytest.raises(UpstreamFailed, match="first byte"):
        await upstream.forward(permit_for(body=b" " * 32_000_000))
    await upstream.aclose()
    for writer in held:
        writer.transport.abort()
    deaf.close()
    await deaf.wait_closed()


async def test_silence_amid_a_stream_is_a_fault():
    async with opened(streams(ONE, then=hangs), timeouts=HASTY) as (upstream, server):
        stream = await stream_of(upstream)
        assert (await anext(stream)).raw == ONE
        with pytest.raises(UpstreamFailed, match=r"idle: no byte for 0.2 s"):
            await anext(stream)
        await server.until_left()


async def test_silence_amid_a_body_is_a_fault():
    async def script(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b"{")
        return await hangs(request)

    async with opened(script, timeouts=HASTY) as (upstream, server):
        with pytest.raises(UpstreamFailed, match=r"idle: no byte for 0.2 s"):
            await upstream.forward(permit_for())
        await server.until_left()


async def test_a_stream_without_end_is_cut_at_the_hard_maximum():
    async with opened(streams(ONE, then=drips), timeouts=SHORT) as (upstream, server):
        stream = await stream_of(upstream)
        with pytest.raises(UpstreamFailed, match=r"hard maximum: no end within 0.3 s"):
            async for _ in stream:
                pass
        await server.until_left()


@pytest.mark.parametrize(
    "about",
    [
        {"method": "GET", "form": Form.STREAM, "profile": Profile.LEGACY, "session": "s1"},
        {"method": "subscriptions/listen"},
    ],
)
async def test_a_stream_that_listens_may_be_silent(about: dict[str, object]):
    async def later(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(3 * HASTY.idle_s)
        await request[STREAM].write(ONE)
        return web.Response()

    async with opened(streams(b": here\n\n", then=later), timeouts=HASTY) as (upstream, _):
        stream = await stream_of(upstream, **about)
        seen = [(await anext(stream)).raw, (await anext(stream)).raw]
        await stream.aclose()
    assert seen == [b": here\n\n", ONE]


@pytest.mark.parametrize("script", [resets, streams(b"data: {", then=resets)])
async def test_a_broken_connection_is_a_fault(script: Script):
    async with opened(script) as (upstream, _):
        with pytest.raises(UpstreamFailed, match="connection: "):
            async for _ in await stream_of(upstream):
                pass


async def test_an_event_beyond_the_limit_is_refused():
    limits = Limits(result_bytes=10_000)
    async with opened(streams(b"data: ", b"x" * 10_000, then=hangs), limits=limits) as (
        upstream,
        server,
    ):
        with pytest.raises(LimitExceeded):
            await anext(await stream_of(upstream))
        await server.until_left()


async def test_a_flood_of_events_is_refused():
    async def flood(request: web.Request) -> web.StreamResponse:
        while True:
            await request[STREAM].write(ONE * 100)

    limits = Limits(stream_bytes=100_000)
    async with opened(streams(ONE, then=flood), limits=limits) as (upstream, server):
        with pytest.raises(LimitExceeded):
            async for _ in await stream_of(upstream):
                pass
        await server.until_left()


async def test_a_slow_upstream_disturbs_no_other_call():
    async def script(request: web.Request) -> web.StreamResponse:
        if b"slow" in await request.read():
            return await hangs(request)
        return await answers("{}")(request)

    async with opened(script) as (upstream, server):
        slow = asyncio.create_task(upstream.forward(permit_for(body=b'"slow"')))
        await server.until_seen(1)
        assert (await upstream.forward(permit_for())).status == 200
        slow.cancel()
        await asyncio.wait([slow])


def cancelled(server: RawUpstream) -> list[tuple[str, str | None, object]]:
    """Return what `server` was told of cancelled requests: session, revision, message."""
    return [
        (
            seen.headers.get("mcp-session-id", ""),
            seen.headers.get("mcp-protocol-version"),
            seen.json,
        )
        for seen in server.seen
        if b"notifications/cancelled" in seen.body
    ]


async def hangs_on_requests(request: web.Request) -> web.StreamResponse:
    message = json.loads(await request.read())
    return await hangs(request) if "id" in message else web.Response(status=202)


def told(rpc_id: object) -> list[tuple[str, str, object]]:
    message = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": rpc_id, "reason": "nobody waits any more"},
    }
    return [("s1", "2025-11-25", message)]


LEGACY_HEADERS = (("mcp-protocol-version", "2025-11-25"),)


async def test_giving_up_on_a_legacy_upstream_is_said_to_it():
    permit = permit_for(
        profile=Profile.LEGACY, session="s1", headers=LEGACY_HEADERS, rpc_id="call-1"
    )
    async with opened(hangs_on_requests, timeouts=HASTY) as (upstream, server):
        with pytest.raises(UpstreamFailed):
            await upstream.forward(permit)
        await server.until_seen(2)
    assert cancelled(server) == told("call-1")


async def test_giving_up_on_a_legacy_stream_is_said_too():
    async def script(request: web.Request) -> web.StreamResponse:
        if b"cancelled" in await request.read():
            return web.Response(status=202)
        return await streams(ONE, then=hangs)(request)

    about = {"profile": Profile.LEGACY, "session": "s1", "headers": LEGACY_HEADERS}
    async with opened(script, timeouts=HASTY) as (upstream, server):
        stream = await stream_of(upstream, **about)
        with pytest.raises(UpstreamFailed):
            async for _ in stream:
                pass
        await server.until_seen(2)
    assert cancelled(server) == told(7)


async def test_cancelling_a_legacy_call_is_said_once():
    permit = permit_for(profile=Profile.LEGACY, session="s1", headers=LEGACY_HEADERS)
    async with opened(answers(status=202, media=None)) as (upstream, server):
        await upstream.cancel(permit)
    assert cancelled(server) == told(7)


@pytest.mark.parametrize(
    "about",
    [
        {"profile": Profile.MODERN},
        {"profile": Profile.LEGACY, "method": "initialize"},
        {"profile": Profile.LEGACY, "method": "notifications/x", "form": Form.NOTIFICATION},
        {"profile": Profile.LEGACY, "method": "GET", "form": Form.STREAM},
    ],
)
async def test_nothing_is_said_where_a_message_would_not_cancel(about: dict[str, object]):
    async with opened(answers(status=202, media=None)) as (upstream, server):
        await upstream.cancel(permit_for(**about))  # type: ignore[arg-type]
    assert server.seen == []


@pytest.mark.parametrize("script", [resets, answers("<html>", status=500, media="text/html")])
async def test_cancelling_raises_nothing(script: Script):
    async with opened(script) as (upstream, server):
        await upstream.cancel(permit_for(profile=Profile.LEGACY))
    assert len(server.seen) == 1


async def test_cancelling_does_not_wait_for_a_deaf_upstream():
    timeouts = Timeouts(connect_s=0.2, idle_s=60.0, hard_s=60.0)
    async with opened(hangs, timeouts=timeouts) as (upstream, server):
        await upstream.cancel(permit_for(profile=Profile.LEGACY))
        await server.until_left()

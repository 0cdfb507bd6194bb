"""A real server's answer, over a connection that somebody in between cuts."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from gateway.domain.tools import Profile, UpstreamId
from gateway.upstream import own_resume
from gateway.upstream.http import HttpUpstream
from gateway.upstream.own_client import OwnClient
from gateway.upstream.replies import discard
from gateway.upstream.settings import UpstreamSettings
from gateway.wire.jsontext import WireLimits
from tests.servers.process import RunningServer
from tests.servers.raw import RawUpstream, raw_upstream
from tests.upstream.permits import permit_for
from tests.upstream.resuming import Nobody, breaks_after

NAME = UpstreamId("everything")


@asynccontextmanager
async def cut_at_each_event(url: str) -> AsyncIterator[RawUpstream]:
    """Pass everything on to `url`; a stream of events breaks behind its first message."""
    async with aiohttp.ClientSession() as calls:

        async def script(request: web.Request) -> web.StreamResponse:
            passed = {k: v for k, v in request.headers.items() if k.lower() != "host"}
            body = await request.read()
            async with calls.request(request.method, url, headers=passed, data=body) as answer:
                told = {k: v for k, v in answer.headers.items() if k.lower() in KEPT}
                if answer.content_type != "text/event-stream":
                    whole = await answer.read()
                    return web.Response(status=answer.status, headers=told, body=whole)
                return await breaks_after(request, answer, told)

        async with raw_upstream(script) as server:
            yield server


KEPT = {"content-type", "mcp-session-id"}


async def test_every_step_of_an_answer_is_told_once(
    everything: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This server sends what there is when somebody comes back, and nothing after that.
    monkeypatch.setattr(own_resume, "_RETRY_S", 1.0)
    async with cut_at_each_event(everything.url) as server:
        relay = HttpUpstream(UpstreamSettings(server=NAME, url=server.url))
        client = OwnClient(
            NAME, relay, wire=WireLimits(), levels={}, listeners=Nobody(), apart=True
        )
        params = {
            "name": "trigger-long-running-operation",
            "arguments": {"duration": 1, "steps": 2},
            "_meta": {"progressToken": "p"},
        }
        answer = await client.forward(permit_for(profile=Profile.LEGACY, params=params))
        assert not isinstance(answer.body, bytes)
        told = []
        async for event in answer.body:
            told.append(json.loads(event.data or b""))
            if "result" in told[-1]:
                break
        await discard(answer)
        await client.aclose()
        await relay.aclose()
    steps = [one["params"]["progress"] for one in told if one.get("method")]
    assert steps == [1, 2]
    assert "Long running operation completed" in told[-1]["result"]["content"][0]["text"]
    bodies = [one.body for one in server.seen]
    assert sum(b"trigger-long-running" in body for body in bodies) == 1
    came_back = [one.headers.get("last-event-id") for one in server.seen if one.method == "GET"]
    assert len([last for last in came_back if last]) == 1

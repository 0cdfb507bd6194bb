"""A server of the legacy revisions whose answers come in pieces, over as many streams as told."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientResponse, web

from gateway.domain.calls import Permit, RawAnswer
from gateway.domain.tools import Profile, UpstreamId
from gateway.errors import GatewayError
from gateway.upstream.http import HttpUpstream
from gateway.upstream.own_client import OwnClient
from gateway.upstream.own_resume import PAUSED
from gateway.upstream.replies import discard
from gateway.upstream.settings import Limits, Timeouts, UpstreamSettings
from gateway.wire.jsontext import WireLimits
from tests.servers.raw import (
    STREAM,
    RawUpstream,
    Script,
    answers,
    answers_result,
    raw_upstream,
    streams,
)
from tests.upstream.permits import permit_for

PATIENT = Timeouts(connect_s=5.0, idle_s=5.0, hard_s=10.0)
SESSION = "s1"


def note(text: str, id_: str | None = None, retry: str = "") -> bytes:
    """A log message, as an event."""
    params = {"level": "info", "data": text}
    data = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    return framed(data, id_, retry)


def priming(id_: str, retry: str = "") -> bytes:
    """An event that says only where to come back (2025-11-25, transports, sending messages)."""
    again = f"retry: {retry}\n" if retry else ""
    return f"id: {id_}\n{again}data: \n\n".encode()


def framed(message: Any, id_: str | None = None, retry: str = "") -> bytes:
    lines = ["" if id_ is None else f"id: {id_}\n", retry and f"retry: {retry}\n"]
    return "".join([*lines, f"data: {json.dumps(message)}\n\n"]).encode()


class Resumable:
    """Answers a request with `pieces`, and each GET that comes back with the next of `later`.

    A piece that can be called is asked for its bytes with the id of the request. What ends a list and
    is a script has the last word; without one the stream just ends.
    """

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.later: list[list[Any] | Script] = []
        self.came_back: list[tuple[str, float]] = []
        """Each `Last-Event-ID`, and when by the clock of the event loop."""
        self.cancelled: list[Any] = []
        self.pings: list[Any] = []
        self.pong: Script = answers_result({})
        self.sessions: list[str | None] = []
        """In which each came back."""
        self.asked: Any = None
        """The id of the request."""

    async def script(self, request: web.Request) -> web.StreamResponse:  # noqa: PLR0911 - a table
        if request.method == "GET":
            return await self._get(request)
        if request.method == "DELETE":
            return web.Response(status=200)
        message = json.loads(await request.read())
        match message.get("method"):
            case "initialize":
                result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
                body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                return web.json_response(body, headers={"Mcp-Session-Id": SESSION})
            case "tools/call":
                self.asked = message["id"]
                return await self._play(self.pieces, request)
            case "ping":
                self.pings.append(message)
                return await self.pong(request)
            case "resources/subscribe" | "resources/unsubscribe":
                return await answers_result({})(request)
            case "notifications/cancelled":
                self.cancelled.append(message["params"]["requestId"])
            case _:
                pass
        return web.Response(status=202)

    def done(self, text: str = "done", id_: str | None = None) -> Callable[[Any], bytes]:
        """The response."""
        return lambda asked: framed({"jsonrpc": "2.0", "id": asked, "result": {"said": text}}, id_)

    async def _get(self, request: web.Request) -> web.StreamResponse:
        last = request.headers.get("Last-Event-ID")
        if last is None:
            return web.Response(status=405)
        self.came_back.append((last, asyncio.get_running_loop().time()))
        self.sessions.append(request.headers.get("Mcp-Session-Id"))
        following = self.later.pop(0) if self.later else answers("", status=404, media=None)
        if not isinstance(following, list):
            return await following(request)
        return await self._play(following, request)

    async def _play(self, pieces: list[Any], request: web.Request) -> web.StreamResponse:
        made = [one(self.asked) if _is_made(one) else one for one in pieces]
        then = made.pop() if made and not isinstance(made[-1], bytes) else None
        return await streams(*made, then=then)(request)


class Nobody:
    """Who listens where nobody does."""

    async def joined(self, permit: Permit, uri: str) -> None: ...

    async def left(self, permit: Permit, uri: str) -> None:
        raise AssertionError(uri)

    def updated(self, principal: str, holder: str, server: UpstreamId, uri: str) -> None:
        raise AssertionError(uri)

    def relisted(self, server: UpstreamId, principal: str) -> None: ...


async def breaks(request: web.Request) -> web.StreamResponse:
    """Break the stream off, in the middle of it."""
    stream = request[STREAM]
    await asyncio.sleep(0.05)  # what came with the end of a connection may go down with it
    assert request.transport is not None
    request.transport.close()
    return stream


async def breaks_after(
    request: web.Request, answer: ClientResponse, headers: Mapping[str, str]
) -> web.StreamResponse:
    """Pass a stream on up to its first message, and break it off there."""
    stream = web.StreamResponse(headers=headers)
    await stream.prepare(request)
    passed = b""
    async for chunk in answer.content.iter_any():
        await stream.write(chunk)
        passed += chunk
        if b"data: {" in passed and passed.endswith(b"\n\n"):
            request[STREAM] = stream
            answer.close()  # or else the server would write to whom nobody hears
            return await breaks(request)
    return stream


def _is_made(piece: Any) -> bool:
    return callable(piece) and not inspect.iscoroutinefunction(piece)


@asynccontextmanager
async def resumable(
    *, timeouts: Timeouts = PATIENT, limits: Limits | None = None, **more: Any
) -> AsyncIterator[tuple[Resumable, OwnClient, RawUpstream]]:
    """Run such a server, and the gateway's client of it."""
    server = Resumable()
    async with raw_upstream(server.script) as raw:
        relay = HttpUpstream(
            UpstreamSettings(
                server=UpstreamId("raw"),
                url=raw.url,
                timeouts=timeouts,
                limits=limits or Limits(),
            )
        )
        client = OwnClient(
            UpstreamId("raw"),
            relay,
            wire=WireLimits(),
            levels={},
            listeners=Nobody(),
            apart=True,
            timeouts=timeouts,
            limits=limits,
            **more,
        )
        try:
            yield server, client, raw
        finally:
            await client.aclose()
            await relay.aclose()


async def read(answer: RawAnswer) -> list[Any]:
    """Return what a client is told: the text of each message, and how it ended."""
    told: list[Any] = []
    assert not isinstance(answer.body, bytes)
    try:
        async for event in answer.body:
            if event is PAUSED:
                continue
            assert event.data is not None
            message = json.loads(event.data)
            told.append(message["params"]["data"] if "params" in message else message["result"])
    except GatewayError as error:
        told.append(error.detail)
    finally:
        await discard(answer)
    return told


async def asked(client: OwnClient) -> list[Any]:
    """Call a tool, and return what its client is told."""
    permit = permit_for(profile=Profile.LEGACY, params={"name": "t"})
    return await read(await client.forward(permit))

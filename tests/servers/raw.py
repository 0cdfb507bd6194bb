"""An upstream made of one handler, for everything that a well-behaved server does not do."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.servers.process import free_port

Script = Callable[[web.Request], Awaitable[web.StreamResponse]]

STREAM = web.RequestKey("stream", web.StreamResponse)
"""What `streams` has begun, for the script that goes on with it."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request as it arrived."""

    method: str
    headers: Mapping[str, str]
    """Lower-case names."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class RawUpstream:
    """A running server; `script` may be exchanged at any time."""

    script: Script
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    """Every request, in the order of arrival."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client went away before it had its whole answer."""
    connections: set[asyncio.BaseTransport] = field(default_factory=set)

    async def until_seen(self, count: int) -> None:
        """Return once `count` requests have arrived."""
        async with asyncio.timeout(60):
            while len(self.seen) < count:
                await asyncio.sleep(0.005)

    async def until_left(self) -> None:
        """Return once a client has gone away."""
        async with asyncio.timeout(60):
            await self.left.wait()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            self.connections.add(request.transport)
        self.seen.append(
            Seen(
                method=request.method,
                headers={name.lower(): text for name, text in request.headers.items()},
                body=await request.read(),
            )
        )
        try:
            return await self.script(request)
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise


@asynccontextmanager
async def raw_upstream(script: Script) -> AsyncIterator[RawUpstream]:
    """Serve `script` at every path of a free loopback port."""
    upstream = RawUpstream(script)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", upstream._handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    upstream.url = f"http://127.0.0.1:{port}/mcp"
    try:
        yield upstream
    finally:
        await runner.cleanup()


def answers(
    body: bytes | str = b"",
    *,
    status: int = 200,
    media: str | None = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Script:
    """Give every request the same answer."""
    octets = body.encode() if isinstance(body, str) else body

    async def script(request: web.Request) -> web.StreamResponse:
        named = dict(headers or {})
        if media is not None:
            named["Content-Type"] = media
        return web.Response(status=status, body=octets, headers=named)

    return script


def answers_result(result: Mapping[str, Any], *, session: str | None = None) -> Script:
    """Answer every JSON-RPC request with `result`, and everything else with 202."""

    async def script(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read() or b"{}")
        headers = {} if session is None else {"Mcp-Session-Id": session}
        if "id" not in message:
            return web.Response(status=202, headers=headers)
        return web.json_response(
            {"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers
        )

    return script


def streams(*pieces: bytes, then: Script | None = None, media: str = "text/event-stream") -> Script:
    """Send `pieces` as an event stream, one write each; then end it, or go on with `then`."""

    async def script(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": media})
        await response.prepare(request)
        request[STREAM] = response
        for piece in pieces:
            await response.write(piece)
        if then is not None:
            await then(request)
        await response.write_eof()
        return response

    return script


async def hangs(request: web.Request) -> web.StreamResponse:
    """Never go on."""
    await asyncio.Event().wait()
    raise AssertionError


async def resets(request: web.Request) -> web.StreamResponse:
    """Break the connection with a TCP reset."""
    transport = request.transport
    if transport is not None:
        linger_not_at_all = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, linger_not_at_all
        )
        transport.abort()
    return web.Response()

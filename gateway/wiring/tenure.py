"""A configuration's time in force: what its requests are served by, until the last one is."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.config import Config
from gateway.web.app import PublicApp
from gateway.web.guard import guard_for
from gateway.web.mcp import McpEndpoint
from gateway.web.metrics import Metrics
from gateway.web.oauth import FROM_ANYWHERE
from gateway.web.peers import client_address
from gateway.wire.jsontext import WireLimits
from gateway.wiring.desk import app_apart
from gateway.wiring.foundation import new_id
from gateway.wiring.plane_doors import endpoints_of_planes
from gateway.wiring.runtime import Runtime

DRAIN_S = 25
"""How long calls under way may go on when the gateway stops, or another configuration comes."""

Build: TypeAlias = Callable[[Config, AsyncExitStack], Awaitable[Runtime]]
"""Builds what a configuration needs, which the stack takes down."""


class Tenure:
    """A configuration's time in force."""

    def __init__(
        self, built: Runtime, app: PublicApp, desk: ASGIApp, stack: AsyncExitStack
    ) -> None:
        self.runtime = built
        self.client_address = client_address(built.config.trusted_proxies)
        """Tells whom a request is from."""
        self._app = app
        self._desk = desk
        self._stack = stack
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @classmethod
    async def begin(cls, config: Config, build: Build, metrics: Metrics) -> "Tenure":
        """Build what `config` needs; it ends with `end`."""
        async with AsyncExitStack() as stack:
            built = await build(config, stack)
            desk = app_apart(config, built.authorization.desk, metrics)
            return cls(built, _public(built, metrics), desk, stack.pop_all())

    async def serve(
        self, scope: Scope, receive: Receive, send: Send, *, at_desk: bool = False
    ) -> None:
        """Serve one request to its end, also if another configuration comes into force."""
        app = self._desk if at_desk else self._app
        self._under_way += 1
        self._idle.clear()
        try:
            await app(scope, receive, send)
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                self._idle.set()

    @contextmanager
    def held(self) -> Iterator[Runtime]:
        """Yield what is in force, which is not taken down meanwhile."""
        self._under_way += 1
        self._idle.clear()
        try:
            yield self.runtime
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                self._idle.set()

    def end_listening(self) -> None:
        """End the streams on which clients only listen; they may come back for another one."""
        self._app.end_listening()
        self.runtime.authorization.streams.end()

    async def end(self) -> None:
        """Take it down once its calls are done; what goes on too long fails with its connection."""
        self.end_listening()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await self._idle.wait()
        await self._stack.aclose()


def _public(built: Runtime, metrics: Metrics) -> PublicApp:
    """Return the application of the public listener for one configuration."""
    config = built.config
    guard = guard_for(
        config.public_url,
        (config.listen.host, config.listen.port),
        config.allowed_origins,
        config.limits.request_bytes,
    )
    address = client_address(config.trusted_proxies)
    mcp = McpEndpoint(
        carrier=built.pipeline,
        aggregate=built.aggregate,
        servers=config.servers,
        most_bytes=config.limits.request_bytes,
        limits=WireLimits(json_depth=config.limits.json_depth),
        metrics=metrics,
        client_address=address,
        new_id=new_id,
        proven=built.authorization.proven.read,
    )
    return PublicApp(
        mcp=mcp,
        beside=endpoints_of_planes(built, address, metrics),
        sign_in=built.authorization.routes,
        open_to_pages=FROM_ANYWHERE,
        guard=guard,
        metrics=metrics,
        client_address=address,
    )

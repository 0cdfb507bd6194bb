"""A configuration's time in force: what its requests are served by, until the last one is."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any, Final, TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.config import Config
from gateway.errors import PolicyUnavailable
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
_CUT_S: Final = 5.0
"""How long those that are cut off then have to put on record that they were."""

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
        self._under_way: set[asyncio.Task[Any] | None] = set()
        self._cut: frozenset[asyncio.Task[Any]] = frozenset()
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
        """Serve one request to its end, or until `end` cuts it off: another configuration is in force."""
        app = self._desk if at_desk else self._app
        task = asyncio.current_task()
        self._under_way.add(task)
        self._idle.clear()
        try:
            await app(scope, receive, send)
        finally:
            self._under_way.discard(task)
            if not self._under_way:
                self._idle.set()

    @contextmanager
    def held(self) -> Iterator[Runtime]:
        """Yield what is in force, for as long as `serve` serves a request.

        Raises:
            PolicyUnavailable: It was cut off; whoever asked waits for an answer.

        """
        task = asyncio.current_task()
        self._under_way.add(task)
        self._idle.clear()
        try:
            yield self.runtime
        except asyncio.CancelledError:
            if task not in self._cut or task.uncancel():
                raise
            raise PolicyUnavailable("another configuration is in force by now") from None
        finally:
            self._under_way.discard(task)
            if not self._under_way:
                self._idle.set()

    def end_listening(self) -> None:
        """End the streams on which clients only listen; they may come back for another one."""
        self._app.end_listening()
        self.runtime.authorization.streams.end()

    async def end(self) -> None:
        """Take it down once its calls are done; what goes on too long is cut off."""
        self.end_listening()
        if not await self._is_idle_within(DRAIN_S):
            # Whoever goes on would do so by what nobody keeps up to date any more.
            self._cut = frozenset(task for task in self._under_way if task is not None)
            for task in self._cut:
                task.cancel()
            await self._is_idle_within(_CUT_S)
        await self._stack.aclose()

    async def _is_idle_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        return self._idle.is_set()


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

"""The running process: its listeners, its signals, and how it ends."""

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import uvicorn

from gateway.config import Address, Config
from gateway.errors import ConfigError
from gateway.web.bounds import Bounds
from gateway.web.connections import Listener
from gateway.wire import param_headers
from gateway.wiring import housekeeping
from gateway.wiring.gateway import Gateway
from gateway.wiring.identity import opened
from gateway.wiring.planes_by_grpc import asked_by_grpc
from gateway.wiring.tenure import DRAIN_S

logger = logging.getLogger(__name__)

_BACKLOG = 2048
_MOST_ADMIN_CONNECTIONS = 100
_PLANES_S = 5.0
"""How much longer than clients' own calls those may take that planes ask about."""


async def serve_until_told(config: Config, path: Path) -> None:
    """Serve `config`, read from `path`, until SIGTERM or SIGINT; SIGHUP reads `path` again.

    Raises:
        ConfigError: It cannot be served.

    """
    housekeeping.lay_out()
    loading = asyncio.create_task(
        asyncio.to_thread(param_headers.rules)
    )  # while policies are built
    async with AsyncExitStack() as stack:
        public = stack.enter_context(_listening(config.listen))
        private = stack.enter_context(_listening(config.admin_listen))
        at_desk = None
        if config.console.listen is not None:
            at_desk = stack.enter_context(_listening(config.console.listen))
        gateway = Gateway(config, path, await stack.enter_async_context(opened(config)))
        await stack.enter_async_context(gateway.running())
        await stack.enter_async_context(gateway.recorded.running())
        await stack.enter_async_context(gateway.watch.running())
        await stack.enter_async_context(gateway.unread.running())
        front = _Server(_settings(gateway.serve, gateway.listener, config))
        back = _Server(_settings(gateway.admin_app(), _few_connections(), None))
        desk = _Server(_settings(gateway.serve_desk, _few_connections(), config))
        await gateway.started()
        await loading
        housekeeping.settle()
        await stack.enter_async_context(asked_by_grpc(config, gateway.for_planes, _PLANES_S))
        await stack.enter_async_context(housekeeping.kept_small())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_obey(gateway, front, desk))
                watching = group.create_task(back.serve(sockets=[private]))
                if at_desk is not None:
                    group.create_task(desk.serve(sockets=[at_desk]))
                await front.serve(sockets=[public])
                # Until the last call is done, /readyz goes on saying that this gateway stops.
                back.end()
                await watching
        finally:
            await gateway.stopped()


class _Server(uvicorn.Server):
    """A listener that leaves the process's signals to us, and wakes for nothing until it is told to end.

    By itself it looks ten times a second whether it was, and what time it is: our connections ask it for
    neither.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()

    def end(self) -> None:
        """Take no further connection, and end once what is under way is done."""
        self.should_exit = True
        self._told.set()

    async def main_loop(self) -> None:
        await self._told.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _few_connections() -> Listener:
    return Listener(Bounds(connections=_MOST_ADMIN_CONNECTIONS))


def _settings(app: Any, listener: Listener, config: Config | None) -> uvicorn.Config:
    tls = None if config is None else config.tls
    return uvicorn.Config(
        app,
        interface="asgi3",
        # Whatever makes a connection: it asks for a class, and calls it.
        http=cast("type[asyncio.Protocol]", listener),
        loop="none",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN_S,
        ssl_certfile=None if tls is None else str(tls.certificate),
        ssl_keyfile=None if tls is None else str(tls.key),
    )


async def _obey(gateway: Gateway, *listeners: _Server) -> None:
    """Reload on SIGHUP; on SIGTERM or SIGINT say so in /readyz, and end once calls are done."""
    loop = asyncio.get_running_loop()
    told: asyncio.Queue[int] = asyncio.Queue()
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.put_nowait, number)
    while await told.get() == signal.SIGHUP:
        gateway.reload()
    logger.info("draining")
    gateway.drain()
    for one in listeners:
        one.end()


@contextmanager
def _listening(address: Address) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With the protocol spelled out, the event loop switches Nagle's algorithm off.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host, address.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {address}: {error.strerror}") from error
    with listener:
        yield listener

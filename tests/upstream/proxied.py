"""A proxy that listens on loopback, as it does in a jail, and a world outside that is none."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from gateway.domain.tools import UpstreamId
from gateway.upstream.addresses import IPAddress
from gateway.upstream.proxy import Connection, ForwardProxy, ProxyLimits, Refusals, WayOut
from gateway.upstream.reach import Destination, Reach
from tests.listening import listening
from tests.upstream.outside import NameService

USUAL = ProxyLimits()
PUBLIC = "93.184.215.14"
LOCAL = UpstreamId("local")

Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class World:
    """Whatever address is dialled, its server is one of ours on loopback, if it is there at all."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.dialled: list[str] = []
        self.gone: set[str] = set()
        self.silent: set[str] = set()
        self.told: list[tuple[str, str, str]] = []

    async def dial(self, address: IPAddress, port: int) -> Connection:
        self.dialled.append(f"{address} {port}")
        if str(address) in self.silent:
            await asyncio.Event().wait()
        if str(address) in self.gone:
            raise ConnectionRefusedError
        return await asyncio.open_connection("127.0.0.1", self._port)

    def tell(self, server: UpstreamId, destination: str, why: str) -> None:
        self.told.append((server, destination, why))


class Served:
    """One proxy, whom it serves and where it leads."""

    def __init__(self, world: World, names: NameService, port: int) -> None:
        self.world = world
        self.names = names
        self.port = port

    async def connect(self) -> Connection:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def say(self, said: bytes) -> bytes:
        """Say all that is to be said, and return all that is answered."""
        reader, writer = await self.connect()
        try:
            writer.write(said)
            async with asyncio.timeout(60):
                return await reader.read()
        finally:
            writer.close()

    async def status(self, said: bytes) -> int:
        return int((await self.say(said)).split(b" ", 2)[1])


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say back what is said, and end when nothing more is."""
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def proxied(
    *listed: str,
    server: Answering = echo,
    limits: ProxyLimits = USUAL,
    names: NameService | None = None,
) -> AsyncIterator[Served]:
    """Open a proxy with this list, in front of a world where `server` answers everywhere."""
    async with listening(server) as outside:
        world = World(outside)
        service = names or NameService(api_example_com=[[PUBLIC]])
        way = WayOut(
            resolver=service, dial=world.dial, refusals=Refusals(world.tell), limits=limits
        )
        reach = Reach(destinations=tuple(map(Destination.of, listed)))
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        proxy = ForwardProxy(LOCAL, reach, way)
        proxy.serve(listener)
        try:
            yield Served(world, service, port)
        finally:
            await proxy.aclose()

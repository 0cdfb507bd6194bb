"""A name that nobody tells holds up whoever named it, and nobody else."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from gateway.domain.tools import UpstreamId
from gateway.errors import UpstreamFailed
from gateway.upstream.egress import EgressPolicy, GuardedFetcher
from gateway.upstream.exchange import Exchange
from gateway.upstream.resolver import SystemResolver
from gateway.upstream.settings import Timeouts, UpstreamSettings
from tests.servers.raw import raw_upstream
from tests.upstream.outside import NameService
from tests.upstream.proxied import proxied

MANY = 20


class Names:
    """The system's: what is told to be slow is looked up until it is let go."""

    def __init__(self) -> None:
        self.slow: set[str] = set()
        self.slower: set[str] = set()
        self.free, self.all_free = threading.Event(), threading.Event()
        self.asked: list[str] = []

    async def until_asked(self, many: int) -> None:
        async with asyncio.timeout(30):
            while len(self.asked) < many:
                await asyncio.sleep(0.001)

    def __call__(self, name: str, port: int, **_: Any) -> list[Any]:
        self.asked.append(name)
        if name in self.slow:
            self.free.wait(60)
        if name in self.slower:
            self.all_free.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    made = Names()
    monkeypatch.setattr("socket.getaddrinfo", made)
    yield made
    made.free.set()
    made.all_free.set()


@asynccontextmanager
async def under_way(*asked: Any) -> AsyncIterator[list[asyncio.Task[Any]]]:
    tasks = [asyncio.ensure_future(one) for one in asked]
    for _ in range(10):
        await asyncio.sleep(0)
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def exchange(server: str, url: str) -> Exchange:
    timeouts = Timeouts(connect_s=60.0)
    return Exchange(UpstreamSettings(server=UpstreamId(server), url=url, timeouts=timeouts))


async def test_who_calls_another_server_notices_nothing(names: Names) -> None:
    names.slow.add("evil.example")

    async def script(_: web.Request) -> web.Response:
        return web.json_response({})

    async with raw_upstream(script) as server:
        evil, fine = exchange("evil", "https://evil.example/mcp"), exchange("fine", server.url)
        named = exchange("named", server.url.replace("127.0.0.1", "fine.example"))
        calls = [evil.send("POST", [], b"{}", who=f"p{n}") for n in range(MANY)]
        async with under_way(*calls), asyncio.timeout(30):
            await names.until_asked(1)
            assert (await fine.send("POST", [], b"{}", who="alice")).status == 200
            assert (await named.send("POST", [], b"{}", who="alice")).status == 200
        assert names.asked == ["evil.example", "fine.example"]
        for one in (evil, fine, named):
            await one.aclose()


async def test_an_address_is_looked_up_by_nobody(names: Names) -> None:
    resolve = SystemResolver()
    assert [*await resolve("127.0.0.1", 443), *await resolve("::1", 443)] == ["127.0.0.1", "::1"]
    assert names.asked == []


async def test_of_many_who_ask_for_one_name_one_looks_it_up(names: Names) -> None:
    resolve = SystemResolver()
    names.slow.add("a.example")
    async with under_way(*(resolve("a.example", 443) for _ in range(MANY))) as asking:
        await names.until_asked(1)
        asking[0].cancel()  # which takes the answer from nobody
        names.free.set()
        async with asyncio.timeout(30):
            assert [*await asyncio.gather(*asking[1:])] == [("127.0.0.1",)] * (MANY - 1)
    assert names.asked == ["a.example"]
    await resolve("a.example", 443)
    assert names.asked == ["a.example"] * 2


async def test_of_many_who_waited_to_ask_for_one_name_one_looks_it_up(names: Names) -> None:
    resolve = SystemResolver()
    names.slow.update(["a.example", "b.example"])
    names.slower.add("c.example")
    asked = ["a.example", "b.example", *["c.example"] * 5]
    async with under_way(*(resolve(name, 443, "evil") for name in asked)) as asking:
        await names.until_asked(2)
        assert names.asked == ["a.example", "b.example"]
        names.free.set()
        async with asyncio.timeout(30):
            await asyncio.gather(*asking[:2])
        await names.until_asked(3)
        for _ in range(10):
            await asyncio.sleep(0)
        assert names.asked == ["a.example", "b.example", "c.example"]
        names.all_free.set()
        async with asyncio.timeout(30):
            assert [*await asyncio.gather(*asking)] == [("127.0.0.1",)] * 7


async def test_whoever_names_many_hosts_has_few_looked_up_at_once(names: Names) -> None:
    resolve = SystemResolver()
    hosts = [f"h{n}.evil.example" for n in range(MANY)]
    names.slow.update(hosts)
    async with under_way(*(resolve(host, 443, "evil") for host in hosts)):
        await names.until_asked(2)
        async with asyncio.timeout(30):
            assert await resolve("idp.example", 443) == ("127.0.0.1",)
            assert await resolve("as.example", 443, "another server") == ("127.0.0.1",)
        assert len(names.asked) == 2 + 2
    # Who waited gave up; the threads go on, and the next ones wait for them.
    async with under_way(*(resolve(host, 443, "evil") for host in hosts)) as late:
        assert len(names.asked) == 2 + 2
        names.free.set()
        async with asyncio.timeout(10):
            assert [*await asyncio.gather(*late)] == [("127.0.0.1",)] * MANY
    await asyncio.sleep(0)
    assert not resolve._under_way
    assert not [*resolve._turns]


class System(NameService):
    """The system's names, for a proxy."""

    def __init__(self) -> None:
        super().__init__()
        self._resolve = SystemResolver()

    async def __call__(self, name: str, port: int, who: str = "") -> Sequence[str]:
        return await self._resolve(name, port, who)


async def test_a_jailed_server_that_may_reach_all_of_a_domain_has_few_of_its_names_looked_up_at_once(
    names: Names,
) -> None:
    hosts = [f"h{n}.evil.example" for n in range(MANY)]
    names.slow.update(hosts)
    async with proxied("*.evil.example:443", names=System()) as served:
        writers = [(await served.connect())[1] for _ in hosts]
        for host, writer in zip(hosts, writers, strict=True):
            writer.write(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode())
        # By then all of them were read, too.
        assert await served.status(b"CONNECT other.example:443 HTTP/1.1\r\n\r\n") == 403
        await names.until_asked(2)
        assert len(names.asked) == 2
        names.free.set()
        for writer in writers:
            writer.close()


async def test_what_cannot_be_looked_up_is_told_to_all_and_looked_up_again(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = SystemResolver()

    def fails(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    with monkeypatch.context() as patch:
        patch.setattr("socket.getaddrinfo", fails)
        found = await asyncio.gather(
            *(resolve("a.example", 443) for _ in range(3)), return_exceptions=True
        )
        assert [type(one) for one in found] == [socket.gaierror] * 3
    assert await resolve("a.example", 443) == ("127.0.0.1",)


async def test_without_a_thread_it_cannot_be_told(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = SystemResolver()

    def none(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    names.slow.add("slow.example")
    async with under_way(resolve("slow.example", 443, "a")), asyncio.timeout(10):
        for _ in range(3):  # and nobody's turn is lost
            with monkeypatch.context() as patch:
                patch.setattr("threading.Thread.start", none)
                with pytest.raises(OSError, match="no thread"):
                    await resolve("a.example", 443, "a")
        assert await resolve("a.example", 443, "a") == ("127.0.0.1",)


async def test_on_one_upstreams_word_few_names_are_looked_up_at_once_and_sign_in_goes_on(
    names: Names,
) -> None:
    """Its authorization server, which people connect to, may name as many hosts as it likes."""
    fetcher = GuardedFetcher(EgressPolicy.of(["127.0.0.1"]))
    hosts = [f"h{n}.evil.example" for n in range(MANY)]
    names.slow.update(hosts)
    asking = [fetcher.get(f"https://{host}/", who="evil") for host in hosts]
    async with under_way(*asking), asyncio.timeout(30):
        await names.until_asked(2)
        for who in ("", "mail"):
            with pytest.raises(UpstreamFailed, match="no usable answer"):
                await fetcher.get("http://idp.example:9/", who=who)  # it was found, and dialled
        assert len([name for name in names.asked if name != "idp.example"]) == 2
        assert names.asked.count("idp.example") == 2

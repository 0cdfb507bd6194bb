"""What a real jail reaches: what its list says, through the proxy, and nothing in any other way."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import UpstreamFailed
from gateway.upstream import jail, jail_entry
from gateway.upstream.handover import Handover
from gateway.upstream.jail import ProcessLimits
from gateway.upstream.launch import Launch
from gateway.upstream.proxy import Refusals, WayOut
from gateway.upstream.reach import PROXIES, Destination
from tests.upstream.started import (
    call,
    initialize,
    launch,
    local_upstream,
    said,
    session_of,
    settings,
)

PORT = jail_entry.PORT
METADATA = "169.254.169.254"


class Inside:
    """A server in a jail, told what to try."""

    def __init__(self, upstream, session, told) -> None:
        self._upstream = upstream
        self._session = session
        self._ids = iter(range(100))
        self.told = told
        """Of each refusal, the destination and why."""

    async def tries(self, what: str, **given: object) -> Any:
        return await said(self._upstream, call(what, self._session, next(self._ids), **given))

    async def asks(self, request: str) -> str:
        """Return the answer of its proxy to these words."""
        return str(await self.tries("exchange", port=PORT, said=f"{request}\r\n\r\n"))


@asynccontextmanager
async def jailed(folder: Path, *listed: str) -> AsyncIterator[Inside]:
    told: list[tuple[str, str]] = []
    way = WayOut(refusals=Refusals(lambda _, destination, why: told.append((destination, why))))
    about = {"reach": tuple(map(Destination.of, listed))}
    one = settings(folder, jailed=True, launch=about, way_out=way)
    async with local_upstream(folder, settings=one) as upstream:
        yield Inside(upstream, await session_of(upstream), told)


async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    writer.close()


async def test_it_reaches_what_is_listed_and_that_through_the_proxy_alone(tmp_path):
    async with await asyncio.start_server(hello, "127.0.0.1", 0) as outside:
        port = outside.sockets[0].getsockname()[1]
        place = f"127.0.0.1:{port}"
        async with jailed(tmp_path, place) as inside:
            answered = await inside.asks(f"GET http://{place}/ HTTP/1.1")
            assert answered.endswith("\r\n\r\nhello")
            tunnel = f"CONNECT {place} HTTP/1.1\r\n\r\nGET / HTTP/1.1"
            answered = await inside.asks(tunnel)
            assert answered.startswith("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200")
            direct = await inside.tries("connect", port=port)
            assert direct == "ConnectionRefusedError: Connection refused"
            assert inside.told == []


async def test_it_reaches_nothing_else(tmp_path):
    async with await asyncio.start_server(hello, "127.0.0.1", 0) as outside:
        port = outside.sockets[0].getsockname()[1]
        async with jailed(tmp_path, "127.0.0.1:9", "*.example.com:443") as inside:
            for destination in (f"127.0.0.1:{port}", f"{METADATA}:80", "localhost:9", "[::1]:9"):
                answered = await inside.asks(f"CONNECT {destination} HTTP/1.1")
                assert answered.startswith("HTTP/1.1 403 ")
                assert inside.told[-1] == (destination, "it is not listed")
            answered = await inside.asks(f"GET http://{METADATA}/latest/meta-data/ HTTP/1.1")
            assert answered.startswith("HTTP/1.1 403 ")
            for wrong in ("CONNECT emma@127.0.0.1:9", "CONNECT a.example.com.:443", "GET /"):
                answered = await inside.asks(f"{wrong} HTTP/1.1")
                assert answered.startswith("HTTP/1.1 400 ")


async def test_without_the_proxy_there_is_no_network(tmp_path):
    """No route, no name service, no datagrams; and nobody's socket in a folder."""
    async with jailed(tmp_path, f"{METADATA}:80", "*.example.com:443") as inside:
        unreachable = "OSError: Network is unreachable"
        assert await inside.tries("connect", host=METADATA, port=80) == unreachable
        assert await inside.tries("connect", host="93.184.215.14", port=443) == unreachable
        assert await inside.tries("send", host="8.8.8.8", port=53) == unreachable
        looked_up = str(await inside.tries("look_up", host="a.example.com"))
        assert looked_up.startswith("gaierror: ")
        found = await inside.tries("read", path="/proc/net/dev")
        devices = [line.partition(":")[0].strip() for line in str(found).splitlines()[2:]]
        assert devices == ["lo"]
        unix = str(await inside.tries("read", path="/proc/net/unix")).splitlines()
        assert len(unix) == 1


async def test_it_has_no_file_open_but_its_own(tmp_path):
    async with jailed(tmp_path, "127.0.0.1:9") as inside:
        found = await inside.tries("folder", path="/proc/self/fd")
        assert found == "['0', '1', '2', '3']"  # the last is the folder that is read
        assert await inside.tries("pid") < 10


async def test_what_it_begins_as_leaves_no_signal_ignored(tmp_path):
    shell = ("/bin/sh", "-c", "grep SigIgn /proc/self/status")
    one = Launch(argv=shell, folder=tmp_path, reach=(Destination.of("a.example.com:443"),))
    with Handover() as handover:
        process = await asyncio.create_subprocess_exec(
            *jail.command(one, ProcessLimits(), handover.number),
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(handover.number,),
        )
        listener = await handover.listener()
        with listener:
            assert (listener.getsockname(), os.get_inheritable(listener.fileno())) == (
                ("127.0.0.1", PORT),
                False,
            )
        printed, _ = await process.communicate()
    ignored = int(printed.split()[1], 16)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        assert not ignored & 1 << (number - 1)


async def test_its_programs_are_told_of_the_proxy(tmp_path):
    async with jailed(tmp_path, "127.0.0.1:9", "*.example.com:443") as inside:
        found = await inside.tries("environment")
    proxy = f"http://127.0.0.1:{PORT}"
    told = {name: text for name, text in found.items() if name in PROXIES}
    assert told == {
        **dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"), proxy),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,::1"),
        "NODE_USE_ENV_PROXY": "1",
    }


async def test_it_is_shown_whom_the_system_trusts_to_name_servers(tmp_path, monkeypatch):
    trusted = tmp_path / "certs"
    trusted.mkdir()
    (trusted / "ca.pem").touch()
    monkeypatch.setattr(jail, "_AUTHORITIES", (trusted, tmp_path / "gone"))
    async with jailed(tmp_path, "127.0.0.1:9") as inside:
        assert await inside.tries("folder", path=str(trusted)) == "['ca.pem']"
    async with jailed(tmp_path) as inside:
        assert str(await inside.tries("folder", path=str(trusted))).startswith("FileNotFound")


async def test_a_jail_with_an_empty_list_has_no_proxy(tmp_path):
    async with jailed(tmp_path) as inside:
        assert not PROXIES & set(await inside.tries("environment"))
        assert await inside.tries("connect", port=PORT) == (
            "ConnectionRefusedError: Connection refused"
        )


async def test_the_proxy_of_one_jail_is_not_another_ones(tmp_path):
    async with jailed(tmp_path, "127.0.0.1:9"), jailed(tmp_path) as other:
        refused = "ConnectionRefusedError: Connection refused"
        assert await other.tries("connect", port=PORT) == refused
    with pytest.raises(ConnectionRefusedError):  # nor this machine's
        socket.create_connection(("127.0.0.1", PORT), timeout=2)


async def test_its_proxy_ends_with_it(tmp_path):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.set()
        with suppress(OSError):
            await reader.read()
        ended.set()
        writer.close()

    async with await asyncio.start_server(waits, "127.0.0.1", 0) as outside:
        place = f"127.0.0.1:{outside.sockets[0].getsockname()[1]}"
        async with jailed(tmp_path, place) as inside:
            asked = f"CONNECT {place} HTTP/1.1"
            under_way = asyncio.create_task(inside.asks(asked))
            async with asyncio.timeout(60):
                await begun.wait()
        with pytest.raises(UpstreamFailed):
            await under_way
        async with asyncio.timeout(60):
            await ended.wait()
    assert not [task for task in asyncio.all_tasks() if "ForwardProxy" in repr(task)]


async def test_a_jail_that_hands_nothing_out_is_no_server(tmp_path, monkeypatch):
    broken = tmp_path / "entry.py"
    broken.write_text("raise SystemExit(1)")
    monkeypatch.setattr(jail, "_ENTRY", broken)
    one = settings(tmp_path, jailed=True, launch={"reach": (Destination.of("a.example.com:1"),)})
    async with local_upstream(tmp_path, settings=one) as upstream:
        with pytest.raises(UpstreamFailed) as refused:
            await upstream.forward(initialize())
    assert refused.value.detail == "its jail has handed out no socket for its proxy"


def test_no_server_without_a_jail_is_given_a_proxy(tmp_path):
    one = launch(tmp_path, reach=(Destination.of("a.example.com:443"),))
    assert not PROXIES & set(jail.environment(one))
    assert str(jail_entry.__file__) not in jail.command(one, ProcessLimits())


def test_what_it_begins_as_shows_no_data_of_the_gateways(tmp_path):
    """Of the gateway's own program a jail with a proxy shows one file, and the interpreter."""
    one = Launch(argv=("/usr/bin/env",), folder=tmp_path)
    more = replace(one, reach=(Destination.of("a.example.com:443"),))
    bare, proxied = jail.command(one, ProcessLimits()), jail.command(more, ProcessLimits())
    added = {Path(word) for word in set(proxied) - set(bare)}
    interpreter = Path(sys.executable).resolve()
    allowed = {Path(jail_entry.__file__), interpreter, interpreter.parent.parent / "lib"}
    assert added <= allowed | set(jail._AUTHORITIES) | {one.resolve() for one in jail._AUTHORITIES}
    entry = str(Path(jail_entry.__file__).parent)
    assert list(jail.hides(more, [Path(entry)])) == [
        f"`{jail_entry.__file__}` would show the gateway's own data"
    ]


@pytest.mark.parametrize("listed", ["a.example.com:444", "b.example.com:443", "*.example.com:443"])
def test_pins_hold_for_what_a_server_reaches(tmp_path, listed):
    one = launch(tmp_path, jailed=True, reach=(Destination.of("a.example.com:443"),))
    other = replace(one, reach=(Destination.of(listed),))
    assert len({one.identity, other.identity, replace(one, reach=()).identity}) == 3

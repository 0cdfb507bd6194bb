"""A jail's way out: where it leads, what it refuses, and how long and how much it takes."""

import asyncio
import logging
from contextlib import suppress

import pytest

from gateway.upstream import proxy
from gateway.upstream.proxy import ProxyLimits
from tests.upstream.outside import NameService
from tests.upstream.proxied import PUBLIC, proxied

API = "api.example.com:443"
CONNECT = b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n"
OPEN = b"HTTP/1.1 200 Connection established\r\n\r\n"


def connect(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\n\r\n".encode()


async def test_a_tunnel_carries_bytes_both_ways_until_both_ends_have_ended():
    async with proxied(API) as served:
        reader, writer = await served.connect()
        writer.write(CONNECT)
        assert await reader.readexactly(len(OPEN)) == OPEN
        said = bytes(range(256)) * 4000
        writer.write(said)
        assert await reader.readexactly(len(said)) == said
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        assert (served.names.asked, served.world.dialled) == (
            ["api.example.com"],
            [f"{PUBLIC} 443"],
        )
        assert served.world.told == []


async def test_what_is_said_before_the_tunnel_is_open_goes_through_it():
    async with proxied(API) as served:
        reader, writer = await served.connect()
        writer.write(CONNECT + b"hello")
        assert await reader.readexactly(len(OPEN) + 5) == OPEN + b"hello"
        writer.close()


async def test_a_name_in_capitals_is_the_name():
    async with proxied(API) as served:
        reader, writer = await served.connect()
        writer.write(connect("API.EXAMPLE.com:443"))
        assert await reader.readexactly(len(OPEN)) == OPEN
        writer.close()
    assert served.names.asked == ["api.example.com"]


@pytest.mark.parametrize(
    "target",
    [
        "api.example.com:22",
        "other.example.com:443",
        "169.254.169.254:80",
        "[::ffff:169.254.169.254]:80",
        "127.0.0.1:443",
        "localhost:443",
        f"{PUBLIC}:443",
    ],
)
async def test_what_is_not_listed_is_refused_told_and_not_even_looked_up(target, caplog):
    async with proxied(API) as served:
        answer = await served.say(connect(target))
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert answer.endswith(b"\r\n\r\nThe gateway refuses this: it is not listed.\n")
    assert (served.names.asked, served.world.dialled) == ([], [])
    ((server, destination, why),) = served.world.told
    assert (server, why) == ("local", "it is not listed")
    assert f"server local is refused {destination}: it is not listed" in caplog.text


@pytest.mark.parametrize(
    "said",
    [
        connect("emma@api.example.com:443"),
        connect("api.example.com.:443"),
        connect("api.example.com"),
        b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: other.example.com\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
    ],
    ids=["userinfo", "dot", "port", "host", "origin", "tls"],
)
async def test_what_is_no_request_for_a_proxy_goes_nowhere(said):
    async with proxied(API) as served:
        assert await served.status(said) == 400
        assert (served.names.asked, served.world.dialled) == ([], [])


@pytest.mark.parametrize("address", ["169.254.169.254", "127.0.0.1", "10.1.2.3", "::1"])
async def test_a_listed_name_that_leads_inside_is_refused(address):
    names = NameService(api_example_com=[[PUBLIC, address]])
    async with proxied(API, names=names) as served:
        assert await served.status(CONNECT) == 403
    assert served.world.dialled == []
    assert served.world.told == [("local", API, "it is at an address that is not public")]


async def test_what_was_judged_is_what_is_dialled():
    """However the name's answer changes in between, or for the next connection."""
    names = NameService(api_example_com=[[PUBLIC], ["127.0.0.1"]])
    async with proxied(API, names=names) as served:
        reader, writer = await served.connect()
        writer.write(CONNECT)
        assert await reader.readexactly(len(OPEN)) == OPEN
        writer.close()
        assert await served.status(CONNECT) == 403
    assert served.world.dialled == [f"{PUBLIC} 443"]


async def test_an_address_that_is_listed_itself_is_reached_and_not_looked_up():
    async with proxied("127.0.0.1:8080") as served:
        reader, writer = await served.connect()
        writer.write(connect("127.0.0.1:8080"))
        assert await reader.readexactly(len(OPEN)) == OPEN
        writer.close()
        assert await served.status(connect("127.0.0.1:8081")) == 403
    assert (served.names.asked, served.world.dialled) == ([], ["127.0.0.1 8080"])


async def test_of_several_addresses_the_next_one_is_tried():
    names = NameService(api_example_com=[["93.184.215.13", PUBLIC]])
    async with proxied(API, names=names) as served:
        served.world.gone = {"93.184.215.13"}
        reader, writer = await served.connect()
        writer.write(CONNECT)
        assert await reader.readexactly(len(OPEN)) == OPEN
        writer.close()
        served.world.gone.add(PUBLIC)
        assert await served.status(CONNECT) == 502


async def test_an_address_that_is_silent_leaves_time_for_the_next_one():
    names = NameService(api_example_com=[["93.184.215.13", PUBLIC]])
    async with proxied(API, names=names, limits=ProxyLimits(connect_s=1.0)) as served:
        served.world.silent = {"93.184.215.13"}
        reader, writer = await served.connect()
        writer.write(CONNECT)
        assert await reader.readexactly(len(OPEN)) == OPEN
        writer.close()


async def test_a_name_that_nobody_knows_is_not_reached():
    async with proxied("gone.example.com:443") as served:
        assert await served.status(connect("gone.example.com:443")) == 502
    assert served.world.told == []


async def test_a_destination_that_does_not_take_the_connection_is_given_up():
    async with proxied(API, limits=ProxyLimits(connect_s=0.05)) as served:
        served.world.silent = {PUBLIC}
        assert await served.status(CONNECT) == 504


# Plain http.


class WebServer:
    """Answers a request, and goes on listening to what else comes."""

    def __init__(self) -> None:
        self.heard = b""
        self.ends = True

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard += await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        if self.ends:
            await asyncio.sleep(0.05)  # time for what must not come
        else:
            self.heard += await reader.read()
        self.heard += bytes(reader._buffer)  # type: ignore[attr-defined]
        writer.close()


async def test_a_plain_request_is_sent_on_alone():
    web = WebServer()
    async with proxied("api.example.com:80", server=web) as served:
        request = b"POST http://api.example.com/a HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"
        another = b"GET http://other.example.com/ HTTP/1.1\r\n\r\n"
        answer = await served.say(request + another)
    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    head, _, body = web.heard.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        *(b"POST /a HTTP/1.1", b"Host: api.example.com:80"),
        *(b"Content-Length: 4", b"Connection: close"),
    ]
    assert body == b"body"


async def test_a_plain_request_is_judged_like_a_tunnel():
    names = NameService(web_example_com=[["10.0.0.1"]])
    async with proxied(API, "web.example.com:80", names=names) as served:
        assert await served.status(b"GET http://api.example.com/ HTTP/1.1\r\n\r\n") == 403
        assert await served.status(b"GET http://169.254.169.254/latest HTTP/1.1\r\n\r\n") == 403
        assert await served.status(b"GET http://web.example.com/ HTTP/1.1\r\n\r\n") == 403
    assert served.world.dialled == []


async def test_a_body_that_does_not_end_ends_the_request():
    web = WebServer()
    web.ends = False
    async with proxied("api.example.com:80", server=web) as served:
        reader, writer = await served.connect()
        writer.write(b"POST http://api.example.com/ HTTP/1.1\r\nContent-Length: 9\r\n\r\nbody")
        writer.write_eof()
        async with asyncio.timeout(60):
            await reader.read()
        writer.close()


# How long, and how much.


async def test_a_head_that_is_too_large_is_refused():
    async with proxied(API, limits=ProxyLimits(head_bytes=1000)) as served:
        said = CONNECT[:-2] + b"X: " + b"x" * 1000 + b"\r\n\r\n"
        assert await served.status(said) == 431
        assert await served.status(b"x" * 3000) == 431
    assert served.world.dialled == []


async def test_a_head_that_is_too_slow_is_refused():
    async with proxied(API, limits=ProxyLimits(head_s=0.05)) as served:
        assert await served.status(CONNECT[:-2]) == 408
    assert served.world.dialled == []


async def test_a_tunnel_that_is_silent_for_too_long_is_closed():
    async with proxied(API, limits=ProxyLimits(idle_s=0.1)) as served:
        async with asyncio.timeout(60):
            assert await served.say(CONNECT) == OPEN


async def test_a_reader_who_takes_nothing_is_not_waited_for():
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        except OSError:
            ended.set()
        finally:
            writer.close()

    ended = asyncio.Event()
    async with proxied(API, server=flood, limits=ProxyLimits(idle_s=0.1)) as served:
        _, writer = await served.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(CONNECT)
        async with asyncio.timeout(60):
            await ended.wait()
        writer.close()


async def test_there_are_no_more_connections_than_allowed():
    async with proxied(API, limits=ProxyLimits(connections=1)) as served:
        reader, writer = await served.connect()
        writer.write(CONNECT)
        assert await reader.readexactly(len(OPEN)) == OPEN
        waiting_reader, waiting_writer = await served.connect()
        waiting_writer.write(CONNECT)
        waits = asyncio.create_task(waiting_reader.readexactly(len(OPEN)))
        writer.write(b"still here")
        assert await reader.readexactly(10) == b"still here"
        assert (waits.done(), len(served.world.dialled)) == (False, 1)
        writer.close()
        async with asyncio.timeout(60):
            assert await waits == OPEN
        waiting_writer.close()


async def test_connections_end_with_the_proxy():
    async with proxied(API) as served:
        reader, writer = await served.connect()
        writer.write(CONNECT)
        assert await reader.readexactly(len(OPEN)) == OPEN
    async with asyncio.timeout(60):
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await served.connect()


async def test_the_same_refusal_is_told_once_and_only_so_many_at_all(monkeypatch, caplog):
    monkeypatch.setattr(proxy, "_MOST_TOLD", 2)
    async with proxied(API) as served:
        for host in ("a", "a", "b", "c"):
            assert await served.status(connect(f"{host}.example.com:443")) == 403
    assert [destination for _, destination, _ in served.world.told] == [
        "a.example.com:443",
        "b.example.com:443",
    ]
    warned = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warned) == 2


@pytest.mark.parametrize("limit", ["connections", "head_bytes", "head_s", "connect_s", "idle_s"])
def test_no_limit_can_be_switched_off(limit):
    with pytest.raises(ValueError, match="positive"):
        ProxyLimits(**{limit: 0})

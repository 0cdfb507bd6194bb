"""A server that somebody registered is reached where the operator lets the gateway go, and nowhere else."""

import socket
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_address
from typing import Any

import aiohappyeyeballs
import pytest
from aiohttp import web

from gateway.domain.tools import UpstreamId
from gateway.errors import UpstreamFailed
from gateway.upstream.bounds import Bounds, EgressPolicy
from gateway.upstream.exchange import Exchange
from gateway.upstream.settings import Timeouts, UpstreamSettings
from tests.servers.process import free_port

BODY = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
HEADERS = [("content-type", "application/json")]


class Names:
    """Answers look-ups with what the test says, one after the other."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, name: str, port: int, who: str = "") -> Sequence[str]:
        self.asked.append(name)
        assert port
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture(autouse=True)
def on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dial loopback alone, so that no broken guard reaches further."""
    dial = aiohappyeyeballs.start_connection

    async def near(infos: Sequence[Any], **how: Any) -> socket.socket:
        if not all(ip_address(address[0]).is_loopback for *_, address in infos):
            raise OSError("tests stay on loopback")
        return await dial(infos, **how)

    monkeypatch.setattr(aiohappyeyeballs, "start_connection", near)


class Server:
    def __init__(self) -> None:
        self.port = free_port()
        self.seen: list[str] = []
        self.location = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append(request.host)
        headers = {"connection": "close"}
        if self.location:
            return web.Response(status=307, headers={**headers, "location": self.location})
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {}}, headers=headers)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", server.port).start()
    yield server
    await runner.cleanup()


async def sent(url: str, names: Names, *allow: str, times: int = 1) -> int:
    bounds = Bounds(policy=EgressPolicy.of(allow), resolve=names)
    timeouts = Timeouts(connect_s=5.0, idle_s=5.0, hard_s=10.0)
    status = 0
    exchange = Exchange(
        UpstreamSettings(server=UpstreamId("one"), url=url, bounds=bounds, timeouts=timeouts)
    )
    try:
        for _ in range(times):
            status = (await exchange.send("POST", HEADERS, BODY)).status
        return status
    finally:
        await exchange.aclose()


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "127.1", "0x7f000001", "2130706433", "0.0.0.0"],
)
async def test_an_address_of_this_machine_is_not_reached(server: Server, host: str) -> None:
    with pytest.raises(UpstreamFailed, match="where the gateway does not go"):
        await sent(f"http://{host}:{server.port}/mcp", Names(["127.0.0.1"]))
    assert server.seen == []


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["169.254.169.254"], ["10.0.0.1"], ["::1"], ["93.184.216.34", "127.0.0.1"]],
)
async def test_a_name_is_judged_by_every_address_that_it_has(
    server: Server, addresses: Sequence[str]
) -> None:
    for scheme in ("http", "https"):
        with pytest.raises(UpstreamFailed, match="where the gateway does not go"):
            await sent(f"{scheme}://rebind.example:{server.port}/mcp", Names(addresses))
    assert server.seen == []


async def test_a_public_address_is_not_asked_in_the_clear(server: Server) -> None:
    with pytest.raises(UpstreamFailed, match="not asked for over https"):
        await sent(f"http://one.example:{server.port}/mcp", Names(["93.184.216.34"]))


async def test_what_the_operator_allows_is_reached(server: Server) -> None:
    url = f"http://one.example:{server.port}/mcp"
    assert await sent(url, Names(["127.0.0.1"]), "127.0.0.0/8") == 200
    literal = f"http://127.0.0.1:{server.port}/mcp"
    assert await sent(literal, Names(["127.0.0.1"]), "127.0.0.0/8") == 200


async def test_a_name_that_moves_is_judged_anew_at_each_connection(server: Server) -> None:
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    with pytest.raises(UpstreamFailed, match="where the gateway does not go"):
        await sent(f"http://one.example:{server.port}/mcp", names, "127.0.0.1/32", times=2)
    assert (len(server.seen), len(names.asked)) == (1, 2)


async def test_no_redirect_is_followed(server: Server) -> None:
    server.location = f"http://127.0.0.1:{server.port}/elsewhere"
    url = f"http://one.example:{server.port}/mcp"
    with pytest.raises(UpstreamFailed):
        await sent(url, Names(["127.0.0.1"]), "127.0.0.0/8")
    assert len(server.seen) == 1

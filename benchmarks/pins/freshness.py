"""What it costs that no call relies on an old list: 50 servers of 100 tools, all of them in use.

The servers are processes of their own, over HTTP; counted is the processor time of this one. The clock of
lists is moved by hand, so an hour of looks takes a minute, and no waiting is counted.
"""

import asyncio
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from benchmarks.report import ROOT, print_table
from gateway.config import load
from gateway.domain.tools import Kind, Profile, UpstreamId
from gateway.pipeline.keeper import PinKeeper
from gateway.policy.refusing import RefusingEngine
from gateway.ports import PinStore
from gateway.upstream.crawler import Crawler
from gateway.upstream.settings import UpstreamSettings
from gateway.wiring.foundation import open_store
from tests.servers.process import free_port

SERVERS, TOOLS, LOOKS = 50, 100, 5
FRESH_S = 60.0
LOOKS_A_MINUTE = FRESH_S / (FRESH_S * (1 - (0.15 + 0.4) / 2))
"""A list that calls rely on is looked at when, on average, so much of its life is over."""
MOST_CORE_PERCENT = 2.0
"""Of one core, for all of these servers, where nothing has changed."""

KINDS: Mapping[str, Profile] = {
    "legacy": Profile.LEGACY,
    "modern": Profile.MODERN,
    "etag": Profile.MODERN,
}
"""How the servers speak; those of `etag` answer conditional requests."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of looking at one server's list of tools once."""

    ms: float
    requests: float

    @property
    def ms_a_minute(self) -> float:
        """Processor time for one server and minute."""
        return self.ms * LOOKS_A_MINUTE

    @property
    def requests_a_minute(self) -> float:
        """Requests to one server in a minute."""
        return self.requests * LOOKS_A_MINUTE

    @property
    def core_percent(self) -> float:
        """Share of one core, for all servers."""
        return self.ms_a_minute * SERVERS / FRESH_S / 10


async def measured() -> dict[str, Cost]:
    """Return the cost by how servers speak; of `compared`, where the same is compared every time."""
    found = {}
    with tempfile.TemporaryDirectory() as place:
        config = Path(place) / "douane.yaml"
        config.write_text("version: 1\npublic_url: http://127.0.0.1:8080\n")
        async with open_store(load(config)) as store, _servers() as url:
            keeper = _Keeper(
                pins=store.pins,
                policy=RefusingEngine(digest="none"),
                audit=store.audit,
                clock=time.time,
                new_id=lambda: secrets.token_hex(16),
                identities={UpstreamId(f"s{number}"): "one" for number in range(SERVERS)},
            )
            for name, profile in KINDS.items():
                found[name] = await _cost(url, name, profile, keeper, store.pins)
            keeper.anew = True
            found["compared"] = await _cost(url, "modern", Profile.MODERN, keeper, store.pins)
    return found


def failures_of(found: Mapping[str, Cost]) -> list[str]:
    """Say what the figures promise and do not keep."""
    return [
        f"looking at {SERVERS} servers ({name}) takes {cost.core_percent:.2f} % of a core"
        for name, cost in found.items()
        if name in KINDS and cost.core_percent > MOST_CORE_PERCENT
    ]


def figures_of(found: Mapping[str, Cost]) -> dict[str, float]:
    """Return the figures."""
    figures = {}
    for name, cost in found.items():
        figures[f"fresh_{name}_ms_a_minute"] = round(cost.ms_a_minute, 2)
        figures[f"fresh_{name}_requests_a_minute"] = round(cost.requests_a_minute, 2)
        figures[f"fresh_{name}_core_percent"] = round(cost.core_percent, 3)
    return figures


def show(found: Mapping[str, Cost]) -> None:
    """Print a table for people."""
    rows = [
        (name, f"{c.ms_a_minute:.2f}", f"{c.requests_a_minute:.2f}", f"{c.core_percent:.2f}")
        for name, c in found.items()
    ]
    heads = ("lists kept fresh", "ms/server/min", "requests/server/min", "% of a core")
    print_table(heads, rows)


async def _cost(url: str, kind: str, profile: Profile, keeper: "_Keeper", pins: PinStore) -> Cost:
    clock = _Clock()
    settings = [
        UpstreamSettings(server=UpstreamId(f"s{number}"), url=f"{url}/{kind}/{number}")
        for number in range(SERVERS)
    ]
    crawler = Crawler(settings, sink=keeper, clock=time.time, monotonic=clock)

    async def look() -> None:
        clock.now += FRESH_S
        for one in settings:
            await crawler.refresh(one.server, profile, Kind.TOOL)

    try:
        # Once to see them, and once more since the pins are others by then.
        await look()
        await look()
        if sum(pin.profile is profile for pin in pins.all()) < SERVERS * TOOLS:
            raise ValueError("not every tool was seen")
        requests, began = await _count(url), time.process_time()
        for _ in range(LOOKS):
            await look()
        spent = time.process_time() - began
        looks = LOOKS * SERVERS
        return Cost(ms=spent * 1000 / looks, requests=(await _count(url) - requests) / looks)
    finally:
        await crawler.aclose()


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _Keeper(PinKeeper):
    """With `anew` nothing that was compared counts, as if the pins had changed each time."""

    anew = False

    def compared_with(self, server: UpstreamId) -> object:
        return object() if self.anew else super().compared_with(server)


async def _count(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/seen") as answer:
        return int(await answer.text())


@asynccontextmanager
async def _servers() -> AsyncIterator[str]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.pins.freshness", "serve", str(port), cwd=ROOT
    )
    try:
        url = f"http://127.0.0.1:{port}"
        async with asyncio.timeout(60):
            while True:
                with suppress(aiohttp.ClientError):
                    await _count(url)
                    break
                await asyncio.sleep(0.05)
        yield url
    finally:
        process.terminate()
        await process.wait()


def _tools(server: str) -> list[dict[str, Any]]:
    fields = {
        f"field_{number}": {"type": "string", "description": f"What is meant by {number}."}
        for number in range(6)
    }
    return [
        {
            "name": f"tool_{number}",
            "title": f"Tool {number}",
            "description": f"Does what number {number} of server {server} does, and says so. " * 3,
            "inputSchema": {"type": "object", "properties": fields, "required": ["field_0"]},
            "annotations": {"readOnlyHint": True},
        }
        for number in range(TOOLS)
    ]


def _app() -> web.Application:
    seen = [0]
    texts: dict[str, bytes] = {}

    async def answer(request: web.Request) -> web.Response:
        seen[0] += 1
        if request.method != "POST":
            return web.Response(status=200)
        message = orjson.loads(await request.read())
        kind, server = request.match_info["kind"], request.match_info["server"]
        if "id" not in message:
            return web.Response(status=202)
        if kind == "etag" and request.headers.get("if-none-match") == '"1"':
            return web.Response(status=304, headers={"ETag": '"1"'})
        opens = "initialize" if kind == "legacy" else "server/discover"
        if message["method"] in {"initialize", "server/discover"} - {opens}:
            error = {"code": -32601, "message": "no"}
            return _json({"jsonrpc": "2.0", "id": message["id"], "error": error}, status=404)
        head = b'{"jsonrpc":"2.0","id":' + orjson.dumps(message["id"]) + b',"result":'
        if server not in texts:
            texts[server] = orjson.dumps({**_RESULT, "tools": _tools(server)}) + b"}"
        headers = {"Mcp-Session-Id": "s"} if kind == "legacy" else {}
        headers |= {"ETag": '"1"'} if kind == "etag" else {}
        return web.Response(
            body=head + texts[server], content_type="application/json", headers=headers
        )

    async def count(_: web.Request) -> web.Response:
        return web.Response(text=str(seen[0]))

    app = web.Application()
    app.router.add_get("/seen", count)
    app.router.add_route("*", "/{kind}/{server}", answer)
    return app


_RESULT: Mapping[str, Any] = {
    "resultType": "complete",
    "protocolVersion": "2025-11-25",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "many", "version": "1"},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "many", "version": "1"}},
}


def _json(content: Mapping[str, Any], *, status: int) -> web.Response:
    return web.Response(body=orjson.dumps(content), content_type="application/json", status=status)


def main(arguments: Sequence[str]) -> int:
    """Serve, or measure and print."""
    if arguments[:1] == ["serve"]:
        web.run_app(_app(), host="127.0.0.1", port=int(arguments[1]), print=None)
        return 0
    found = asyncio.run(measured())
    show(found)
    return 1 if failures_of(found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

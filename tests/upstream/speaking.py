"""Scripted servers that speak MCP, and a crawler in front of one."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from gateway.domain.tools import UpstreamId
from gateway.upstream.crawler import Crawler
from gateway.upstream.settings import UpstreamSettings
from tests.servers.raw import RawUpstream, Script, raw_upstream
from tests.upstream.sinks import Catalog

RAW = UpstreamId("raw")
NOW = 1_800_000_000.0
SERVER = {
    "name": "raw",
    "instructions": "be kind",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "raw", "version": "7"},
}
NOTHING: dict[str, list[Any]] = {"tools": [], "prompts": [], "resourceTemplates": []}

Respond = Callable[[str, dict[str, Any]], Any]


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, "odd": 1.5}


def legacy(respond: Respond) -> Script:
    """Speak 2025-11-25; `respond` gives a list's result, a JSON-RPC error code or a whole answer."""

    async def script(request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=200)
        message = json.loads(await request.read())
        method, params = message["method"], message.get("params", {})
        if "id" not in message:
            return web.Response(status=202)
        if method == "server/discover":
            return rpc_error(None, -32000, status=400)
        result = (
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "raw", "version": "7"},
                "instructions": "be kind",
            }
            if method == "initialize"
            else respond(method, params)
        )
        if isinstance(result, web.Response):
            return result
        if isinstance(result, int):
            return rpc_error(message["id"], result)
        return web.json_response(
            {"jsonrpc": "2.0", "id": message["id"], "result": result},
            headers={"Mcp-Session-Id": "s1"},
        )

    return script


def rpc_error(rpc_id: object, code: int, *, status: int = 200) -> web.Response:
    error = {"code": code, "message": "no"}
    return web.json_response({"jsonrpc": "2.0", "id": rpc_id, "error": error}, status=status)


def shows(*names: str) -> Respond:
    """List tools by `names`, on one page, and nothing else."""
    return lambda method, _: {**NOTHING, "tools": [tool(name) for name in names]}


def modern(result: Mapping[str, Any]) -> Script:
    """Speak 2026-07-28 only, with one result for everything."""

    async def script(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        if message["method"] == "initialize":
            return rpc_error(message["id"], -32601, status=404)
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})

    return script


MODERN_RESULT = {
    **NOTHING,
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "raw", "version": "7"}},
    "instructions": "be kind",
    "tools": [tool("a")],
}


@asynccontextmanager
async def crawling(
    script: Script, *, settings: Mapping[str, Any] | None = None, **about: Any
) -> AsyncIterator[tuple[Crawler, Catalog, RawUpstream]]:
    catalog = about.pop("sink", None) or Catalog()
    async with raw_upstream(script) as server:
        one = UpstreamSettings(server=RAW, url=server.url, **(settings or {}))
        crawler = Crawler([one], sink=catalog, clock=lambda: NOW, **about)
        try:
            yield crawler, catalog, server
        finally:
            await crawler.aclose()


def lists_read(server: RawUpstream) -> int:
    return sum(b'"tools/list"' in seen.body for seen in server.seen)

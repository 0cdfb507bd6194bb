"""Every server of a suite: a call gets what was recorded of the step that it belongs to."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from aiohttp import web

from benchmarks.flow.traces import Step

_STATELESS = "2026-07-28"
_LASTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_METHOD_NOT_FOUND, _INVALID_PARAMS = -32601, -32602
_LARGEST_BODY = 64 * 1024 * 1024
_Tool: TypeAlias = tuple[str, str]
"""A server's name and a tool's."""


class RecordedServers:
    """What the servers offer, which calls are expected, and which of them have arrived.

    They speak both families of revisions. Nothing in a call tells whose it is, for a gateway may keep
    that to itself: calls of one tool are expected one after the other, and others at once.
    """

    def __init__(self, tools: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """`tools` is what each server answers to `tools/list`."""
        self._tools = tools
        self._expected: dict[_Tool, list[tuple[Step, bool]]] = {}
        self._over = asyncio.Condition()

    @asynccontextmanager
    async def expecting(self, steps: Sequence[Step]) -> AsyncIterator[list[tuple[Step, bool]]]:
        """Expect calls of these steps in this order, and give them with whether they have arrived.

        Some may never come. Nobody else expects calls of the same tools meanwhile.
        """
        tools = {(step.server, step.tool) for step in steps}
        expected = [(step, False) for step in steps]
        async with self._over:
            await self._over.wait_for(lambda: tools.isdisjoint(self._expected))
            self._expected |= dict.fromkeys(tools, expected)
        try:
            yield expected
        finally:
            async with self._over:
                for tool in tools:
                    del self._expected[tool]
                self._over.notify_all()

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one request of either family."""
        if request.method == "DELETE":
            return web.Response()
        if request.method != "POST":
            return web.Response(status=405, headers={"Allow": "POST, DELETE"})
        message = json.loads(await request.read())
        if "id" not in message:
            return web.Response(status=202)
        stateless = request.headers.get("MCP-Protocol-Version") == _STATELESS
        found = self._found(request.match_info["server"], message, stateless=stateless)
        headers = {}
        if message["method"] == "initialize":
            headers["Mcp-Session-Id"] = secrets.token_hex(16)
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **found}, headers=headers)

    def _found(
        self, server: str, message: Mapping[str, Any], *, stateless: bool
    ) -> Mapping[str, Any]:
        params = message.get("params") or {}
        about = {
            "capabilities": {"tools": {}},
            "serverInfo": {"name": server, "version": "1"},
        }
        lasts = _LASTS if stateless else {}
        match message["method"]:
            case "tools/call":
                return self._called(server, params, lasts)
            case "tools/list":
                return {"result": {"tools": list(self._tools.get(server, ())), **lasts}}
            case "server/discover":
                return {"result": {"supportedVersions": [_STATELESS], **about, **_LASTS}}
            case "initialize":
                return {"result": {"protocolVersion": params["protocolVersion"], **about}}
            case "ping":
                return {"result": {}}
            case _:
                return {"error": {"code": _METHOD_NOT_FOUND, "message": "no such method"}}

    def _called(
        self, server: str, params: Mapping[str, Any], lasts: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        expected = self._expected.get((server, str(params.get("name"))), [])
        at = _place(expected, server, params)
        if at is None:
            return {"error": {"code": _INVALID_PARAMS, "message": "nothing is recorded of this"}}
        step, _ = expected[at]
        expected[at] = (step, True)
        return {"result": {**step.result, **({"resultType": "complete"} if lasts else {})}}


def _place(
    expected: Sequence[tuple[Step, bool]], server: str, params: Mapping[str, Any]
) -> int | None:
    """Return which step a call is of: of those after the last that came, the first that fits."""
    last = max((at for at, (_, arrived) in enumerate(expected) if arrived), default=-1)
    named = [
        at
        for at, (step, _) in enumerate(expected)
        if at > last and (step.server, step.tool) == (server, params.get("name"))
    ]
    same = (at for at in named if expected[at][0].arguments == params.get("arguments"))
    return next(same, named[0] if named else None)


@asynccontextmanager
async def listening(servers: RecordedServers, port: int) -> AsyncIterator[None]:
    """Serve each of them at `/SERVER/mcp` of a loopback port until the context ends."""
    app = web.Application(client_max_size=_LARGEST_BODY)
    app.router.add_route("*", "/{server}/mcp", servers.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
        yield
    finally:
        await runner.cleanup()

"""MCP servers of one process: `python -m benchmarks.front.servers PORT FILE`.

FILE is JSON: the definitions of each server's tools, by its name. Each is at `/NAME/mcp`, has one
resource, and speaks both families of revisions. `POST /NAME/hang` has it answer nothing any more, and
`POST /NAME/answer` has it answer again, also what it was asked meanwhile.
"""

import asyncio
import json
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

_STATELESS = "2026-07-28"
_LASTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_INFORMATION = {
    "capabilities": {"tools": {}, "resources": {}},
    "serverInfo": {"name": "benchmark", "version": "1"},
}
_METHOD_NOT_FOUND = -32601


class Server:
    """One server: its tools, and whether it answers."""

    def __init__(self, name: str, tools: Sequence[Mapping[str, Any]]) -> None:
        self._name = name
        self._tools = tools
        self.answers = asyncio.Event()
        self.answers.set()

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Answer one message, once the server answers at all."""
        if request.method != "POST":
            return web.Response(status=405)
        message = json.loads(await request.read())
        await self.answers.wait()
        if "id" not in message or "method" not in message:
            return web.Response(status=202)
        result = self._result(message["method"], message.get("params") or {})
        told = (
            {"error": {"code": _METHOD_NOT_FOUND, "message": "no such method"}}
            if result is None
            else {"result": result}
        )
        begins = message["method"] == "initialize"
        headers = {"Mcp-Session-Id": secrets.token_hex(16)} if begins else {}
        body = {"jsonrpc": "2.0", "id": message["id"], **told}
        return web.json_response(body, headers=headers)

    def _result(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:  # noqa: PLR0911 - a table
        match method:
            case "initialize":
                return {"protocolVersion": params["protocolVersion"], **_INFORMATION}
            case "server/discover":
                return {"supportedVersions": [_STATELESS], **_INFORMATION, **_LASTS}
            case "tools/list":
                return {"tools": self._tools, **_LASTS}
            case "resources/list":
                uri = f"{self._name}://page"
                return {"resources": [{"uri": uri, "name": "page"}], **_LASTS}
            case "resources/templates/list":
                return {"resourceTemplates": [], **_LASTS}
            case "tools/call":
                text = {"type": "text", "text": f"{params['name']} is done"}
                return {"content": [text], "isError": False, "resultType": "complete"}
            case "ping":
                return {}
            case _:
                return None


def application(servers: Mapping[str, Server]) -> web.Application:
    """Return what serves all of them."""

    async def respond(request: web.Request) -> web.StreamResponse:
        return await servers[request.match_info["name"]].respond(request)

    async def hang(request: web.Request) -> web.StreamResponse:
        servers[request.match_info["name"]].answers.clear()
        return web.Response()

    async def answer(request: web.Request) -> web.StreamResponse:
        servers[request.match_info["name"]].answers.set()
        return web.Response()

    app = web.Application(client_max_size=16 << 20)
    app.router.add_route("*", "/{name}/mcp", respond)
    app.router.add_post("/{name}/hang", hang)
    app.router.add_post("/{name}/answer", answer)
    return app


async def serve(port: int, tools: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Listen on the loopback until the process ends."""
    servers = {name: Server(name, listed) for name, listed in tools.items()}
    runner = web.AppRunner(application(servers), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())))

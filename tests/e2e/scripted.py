"""An upstream that behaves, until a test exchanges its script; it remembers all that reached it."""

import asyncio
import json
import secrets
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from aiohttp import web

from tests.servers.raw import RawUpstream, Script, Seen, raw_upstream

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
PLACE = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}
TOOLS: list[dict[str, Any]] = [
    {"name": "allowed", "description": "Says what it was told.", "inputSchema": TEXT},
    {"name": "denied", "description": "Is refused by a rule.", "inputSchema": TEXT},
    {"name": "hidden", "description": "Is not even listed.", "inputSchema": TEXT},
    {"name": "slow", "description": "Takes its time.", "inputSchema": TEXT},
    {"name": "located", "description": "Names a place twice.", "inputSchema": PLACE},
    {"name": "page", "description": "Fetches what a stranger wrote.", "inputSchema": TEXT},
    {"name": "remove", "description": "Removes something.", "inputSchema": TEXT},
    {"name": "amounts", "description": "Moves an amount.", "inputSchema": {"type": "object"}},
]
PROMPTS = [{"name": "greeting"}, {"name": "hidden"}]
RESOURCES = [{"uri": "raw://page", "name": "page"}, {"uri": "raw://hidden", "name": "hidden"}]
LISTS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "tools/list": ("tools", TOOLS),
    "prompts/list": ("prompts", PROMPTS),
    "resources/list": ("resources", RESOURCES),
    "resources/templates/list": ("resourceTemplates", []),
}
CAPABILITIES: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}
FRESH = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""What the stateless revision wants in every result of ours."""


async def behaves(request: web.Request) -> web.StreamResponse:
    """Answer as an MCP server of both families of revisions."""
    if request.method != "POST":
        return web.Response(status=405 if request.method == "GET" else 200)
    message = json.loads(await request.read())
    if "id" not in message or "method" not in message:
        return web.Response(status=202)
    result = _result(message["method"], message.get("params", {}))
    if result is None:
        error = {"code": -32601, "message": "Method not found"}
        body = {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return web.json_response(body, status=404)
    begins = message["method"] == "initialize"
    return answer(message, result, session=secrets.token_hex(16) if begins else None)


def _result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:  # noqa: PLR0911 - a table
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": CAPABILITIES,
                "serverInfo": {"name": "raw", "version": "1"},
            }
        case "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, **FRESH}
        case "tools/call":
            return told(json.dumps(params.get("arguments", {})))
        case "prompts/get":
            text = {"type": "text", "text": f"prompt {params['name']}"}
            return {"messages": [{"role": "user", "content": text}], **FRESH}
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "text": "a page"}], **FRESH}
        case _ if method in LISTS:
            member, items = LISTS[method]
            return {member: items, **FRESH}
        case _:
            return None


def told(text: str) -> dict[str, Any]:
    """The result of a tool that says `text`."""
    return {"content": [{"type": "text", "text": text}], "resultType": "complete"}


def answer(
    message: dict[str, Any],
    result: dict[str, Any],
    *,
    session: str | None = None,
    status: int = 200,
) -> web.Response:
    headers = {} if session is None else {"Mcp-Session-Id": session}
    body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return web.json_response(body, headers=headers, status=status)


def instead(method: str, script: Script) -> Script:
    """Behave, but meet JSON-RPC `method` (or a GET) with `script`."""

    async def scripted(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        named = json.loads(body).get("method", "") if body else request.method
        return await (script if named == method else behaves)(request)

    return scripted


class Raw:
    """The scripted upstream as tests see it, from another thread than it runs in."""

    def __init__(self, upstream: RawUpstream) -> None:
        self._upstream = upstream
        self.url = upstream.url

    def play(self, script: Script) -> None:
        self._upstream.script = script

    def forget(self) -> None:
        """Behave again, as if nothing had happened."""
        self._upstream.script = behaves
        self._upstream.seen.clear()
        self._upstream.left.clear()

    @property
    def client_left(self) -> bool:
        """Whether the gateway hung up before it had the whole of some answer."""
        return self._upstream.left.is_set()

    @property
    def seen(self) -> list[Seen]:
        """What clients sent, without what the gateway asks for itself."""
        return [one for one in list(self._upstream.seen) if b'"douane-' not in one.body]

    @property
    def methods(self) -> list[str]:
        """The JSON-RPC methods of `seen`; GET and DELETE by these names."""
        return [one.json.get("method", "") if one.body else one.method for one in self.seen]

    async def until(self, method: str, count: int = 1) -> list[Seen]:
        """Return the first `count` messages of `method` once they have come."""
        async with asyncio.timeout(60):
            while self.methods.count(method) < count:
                await asyncio.sleep(0.01)
        of_method = zip(self.methods, self.seen, strict=True)
        return [one for named, one in of_method if named == method][:count]


@contextmanager
def raw_in_a_thread() -> Iterator[Raw]:
    """Run the upstream on a loop of its own, so that it outlives every test's loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ended = asyncio.Event()
    ready: asyncio.Future[RawUpstream] = loop.create_future()

    async def serve() -> None:
        async with raw_upstream(behaves) as upstream:
            ready.set_result(upstream)
            await ended.wait()

    async def started() -> RawUpstream:
        return await asyncio.wait_for(ready, 60)

    serving = asyncio.run_coroutine_threadsafe(serve(), loop)
    try:
        yield Raw(asyncio.run_coroutine_threadsafe(started(), loop).result(20))
    finally:
        loop.call_soon_threadsafe(ended.set)
        serving.result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def released(gate: threading.Event) -> AsyncIterator[None]:
    """Open `gate` at the end, whatever happens, so that no script waits for ever."""
    try:
        yield
    finally:
        gate.set()


async def opened(gate: threading.Event) -> None:
    """Wait for a gate that a test opens, from its own thread."""
    while not gate.is_set():
        await asyncio.sleep(0.005)

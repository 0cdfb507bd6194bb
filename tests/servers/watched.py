"""A server of the stateless revision whose resources change when it is asked to change them."""

import argparse

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

VERSION, REVISION = b"mcp-protocol-version", b"2026-07-28"

server = MCPServer("watched", version="1.0.0")
doors = {"front": "shut", "back": "shut"}


@server.resource("watch://door/front")
def front() -> str:
    """Say whether the front door is open."""
    return doors["front"]


@server.resource("watch://door/back")
def back() -> str:
    """Say whether the back door is open."""
    return doors["back"]


@server.tool()
async def open_door(name: str, context: Context) -> str:
    """Open a door, and say so to whoever follows it."""
    doors[name] = "open"
    await context.notify_resource_updated(f"watch://door/{name}")
    return "it is open"


@server.tool()
async def relist(context: Context) -> str:
    """Say that there are other resources than before."""
    await context.notify_resources_changed()
    return "told"


class StatelessOnly:
    """Lets only requests of the stateless revision pass, as of one that knows no other."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (VERSION, REVISION) not in scope["headers"]:
            await PlainTextResponse("no such revision", 400)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    uvicorn.run(
        StatelessOnly(server.streamable_http_app()),
        host="127.0.0.1",
        port=port,
        log_level="warning",
        timeout_graceful_shutdown=1,
    )


if __name__ == "__main__":
    main()

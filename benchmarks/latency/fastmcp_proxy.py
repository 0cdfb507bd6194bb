"""FastMCP's own proxy: `python -m benchmarks.latency.fastmcp_proxy FORM UPSTREAM PORT`.

FORM is one of

- `shared`: as fast as it goes. Every call is sent through one client that stays connected, so nothing
  is opened for a call; callers share that session, as FastMCP warns where one is passed.
- `fresh`: a client for each call, which is what it does by itself, but with the settings that make
  that fast: one TLS context (it makes one for every client, even of plain HTTP), no logs, no spans.
- `shipped`: as it comes.
"""

import asyncio
import sys
from typing import Any

import httpx2
import uvicorn
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server import create_proxy

FORMS = ("shared", "fresh", "shipped")


def environment(form: str) -> dict[str, str]:
    """Return the settings of `form`."""
    if form == "shipped":
        return {}
    return {"FASTMCP_LOG_ENABLED": "false", "FASTMCP_TELEMETRY_MODE": "off"}


def main(form: str, upstream: str, port: int) -> None:
    """Serve until the process ends."""
    if form == "shipped":
        create_proxy(upstream).run(
            transport="http", host="127.0.0.1", port=port, json_response=True, stateless_http=True
        )
        return
    transport = StreamableHttpTransport(upstream, verify=httpx2.create_ssl_context())
    with asyncio.Runner(loop_factory=uvicorn.Config("", loop="uvloop").get_loop_factory()) as loop:
        loop.run(_shared(transport, port) if form == "shared" else _serve(transport, port))


async def _shared(transport: StreamableHttpTransport, port: int) -> None:
    async with Client(transport) as connected:
        await _serve(connected, port)


async def _serve(target: Any, port: int) -> None:
    app = create_proxy(target).http_app(path="/mcp", json_response=True, stateless_http=True)
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        http="httptools",
        ws="none",
        log_level="warning",
        access_log=False,
    )
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

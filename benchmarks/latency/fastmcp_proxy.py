"""FastMCP's own proxy: `python -m benchmarks.latency.fastmcp_proxy FORM UPSTREAM PORT [streams]`.

FORM is one of

- `shared`: as fast as it goes. Every call is sent through one client that stays connected, so nothing
  is opened for a call; callers share that session, as FastMCP warns where one is passed.
- `fresh`: a client for each call, which is what it does by itself, but with the settings that make
  that fast: one TLS context (it makes one for every client, even of plain HTTP), no logs, no spans.
- `shipped`: as it comes.

With `streams` it answers in streams, and passes on what its server says beside its answer.
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


def main(form: str, upstream: str, port: int, *, streams: bool) -> None:
    """Serve until the process ends."""
    if form == "shipped":
        create_proxy(upstream).run(
            transport="http",
            host="127.0.0.1",
            port=port,
            json_response=not streams,
            stateless_http=True,
        )
        return
    transport = StreamableHttpTransport(upstream, verify=httpx2.create_ssl_context())
    with asyncio.Runner(loop_factory=uvicorn.Config("", loop="uvloop").get_loop_factory()) as loop:
        serve = _shared if form == "shared" else _serve
        loop.run(serve(transport, port, streams=streams))


async def _shared(transport: StreamableHttpTransport, port: int, *, streams: bool) -> None:
    async with Client(transport) as connected:
        await _serve(connected, port, streams=streams)


async def _serve(target: Any, port: int, *, streams: bool) -> None:
    proxy = create_proxy(target)
    app = proxy.http_app(path="/mcp", json_response=not streams, stateless_http=True)
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
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), streams="streams" in sys.argv[4:])

"""FastMCP's own proxy: `python -m benchmarks.latency.fastmcp_proxy UPSTREAM PORT`.

As it comes, it makes a TLS context for every call, even of plain HTTP, which is then most of what
a call costs. Its own settings avoid that, and logs and spans as well: a comparison should be with
the proxy, not with what it can do without.
"""

import sys

import httpx2
import uvicorn
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server import create_proxy

ENVIRONMENT = {"FASTMCP_LOG_ENABLED": "false", "FASTMCP_TELEMETRY_MODE": "off"}


def main(upstream: str, port: int) -> None:
    """Serve until the process ends."""
    transport = StreamableHttpTransport(upstream, verify=httpx2.create_ssl_context())
    uvicorn.run(
        create_proxy(transport).http_app(path="/mcp", json_response=True, stateless_http=True),
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        ws="none",
        log_level="warning",
        access_log=False,
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""An ordinary MCP client for `make run`: `python -m tests.demo.client SERVER TOOL ARGUMENTS`."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.demo.run import FOLDER, PORTS
from tests.running import fetch_token


@asynccontextmanager
async def connected(url: str, token: str, mode: str = "auto") -> AsyncIterator[Client]:
    """Connect to an MCP endpoint, as any program on the SDK would."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def call(
    url: str, token: str, tool: str, arguments: dict[str, Any], mode: str = "auto"
) -> Any:
    """Call one tool at an MCP endpoint."""
    async with connected(url, token, mode) as client:
        return await client.call_tool(tool, arguments)


def main() -> int:
    """Print the result; return 1 if it is an error."""
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    server, tool = sys.argv[1:3]
    arguments = json.loads(sys.argv[3]) if len(sys.argv) == 4 else {}
    url = f"http://127.0.0.1:{PORTS[0]}"
    client = json.loads((FOLDER / f"agent-{server}.json").read_text())
    token = fetch_token(url, server, client)
    result = asyncio.run(call(f"{url}/mcp/{server}", token, tool, arguments))
    for block in result.content:
        print(getattr(block, "text", block))
    return 1 if result.is_error else 0


if __name__ == "__main__":
    sys.exit(main())

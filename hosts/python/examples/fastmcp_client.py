"""FastMCP's client."""

from collections.abc import Sequence

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from douane_host import http_client, task


async def host(requests: Sequence[str], url: str, headers: dict[str, str]) -> None:
    """Carry out what a person asks for, one request after the other."""
    transport = StreamableHttpTransport(url, headers, httpx_client_factory=http_client)
    async with Client(transport) as client:
        for words in requests:
            async with task(words):
                await client.call_tool("page", {})

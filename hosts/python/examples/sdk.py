"""The client of the MCP SDK."""

from collections.abc import Sequence

from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from douane_host import http_client, task


async def host(requests: Sequence[str], url: str, headers: dict[str, str]) -> None:
    """Carry out what a person asks for, one request after the other."""
    async with (
        http_client(headers) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        for words in requests:
            async with task(words):
                await client.call_tool("page", {})

"""The client of version 1 of the MCP SDK: its session is opened inside of the task."""

from collections.abc import Sequence

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from douane_host import http_client, task


async def host(requests: Sequence[str], url: str, headers: dict[str, str]) -> None:
    """Carry out what a person asks for, one request after the other."""
    for words in requests:
        async with (
            task(words),
            http_client(headers) as http,
            streamable_http_client(url, http_client=http) as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            await session.call_tool("page", {})

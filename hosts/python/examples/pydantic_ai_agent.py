"""Pydantic AI's MCP toolset."""

from collections.abc import Sequence

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.test import TestModel

from douane_host import http_client, task


async def host(requests: Sequence[str], url: str, headers: dict[str, str]) -> None:
    """Carry out what a person asks for, one request after the other."""
    model = TestModel(call_tools=["page"])
    async with http_client(headers) as http:
        agent = Agent(model, toolsets=[MCPToolset(url, http_client=http)])
        for words in requests:
            async with task(words):
                await agent.run(words)

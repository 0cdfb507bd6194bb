"""LangChain's MCP adapters, which open a session for each call of a tool."""

from collections.abc import Sequence

from langchain_mcp_adapters.client import MultiServerMCPClient

from douane_host import http_client, task


async def host(requests: Sequence[str], url: str, headers: dict[str, str]) -> None:
    """Carry out what a person asks for, one request after the other."""
    client = MultiServerMCPClient(
        {
            "mail": {
                "transport": "http",
                "url": url,
                "headers": headers,
                "httpx_client_factory": http_client,
            }
        }
    )
    (page,) = (tool for tool in await client.get_tools() if tool.name == "page")
    for words in requests:
        async with task(words):
            await page.ainvoke({})

"""A gateway as a server of Claude's Agent SDK, which lets no host say anything with a call.

Its options take where a server is and its headers; what is sent there, another program sends. So
the gateway is given as a server in this process, which passes on what it is asked: by a client of
this process, that declares.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import mcp_types as types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server

from douane_host.clients import http_client

_Asked = Any
"""A request's context: its `lifespan_context` is the client."""
_Page = types.PaginatedRequestParams | None


def relayed(name: str, url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return what is to stand in `mcp_servers` for the gateway's endpoint at `url`.

    Call `query`, or open the client, inside of a task: what is asked later is of that one. It takes
    version 2 of the MCP SDK.
    """
    return {"type": "sdk", "name": name, "instance": _server(name, url, headers)}


def _server(name: str, url: str, headers: Mapping[str, str]) -> Server[Client]:
    return Server(
        name,
        lifespan=partial(_connected, url, headers),
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt,
        on_list_resources=_list_resources,
        on_list_resource_templates=_list_templates,
        on_read_resource=_read_resource,
    )


@asynccontextmanager
async def _connected(
    url: str, headers: Mapping[str, str], _: Server[Client]
) -> AsyncIterator[Client]:
    async with (
        http_client(headers) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def _cursor(page: _Page) -> str | None:
    return None if page is None else page.cursor


async def _list_tools(asked: _Asked, page: _Page) -> types.ListToolsResult:
    return await _client(asked).list_tools(cursor=_cursor(page))


async def _call_tool(asked: _Asked, call: types.CallToolRequestParams) -> types.CallToolResult:
    return await _client(asked).call_tool(call.name, call.arguments)


async def _list_prompts(asked: _Asked, page: _Page) -> types.ListPromptsResult:
    return await _client(asked).list_prompts(cursor=_cursor(page))


async def _get_prompt(asked: _Asked, get: types.GetPromptRequestParams) -> types.GetPromptResult:
    return await _client(asked).get_prompt(get.name, get.arguments)


async def _list_resources(asked: _Asked, page: _Page) -> types.ListResourcesResult:
    return await _client(asked).list_resources(cursor=_cursor(page))


async def _list_templates(asked: _Asked, page: _Page) -> types.ListResourceTemplatesResult:
    return await _client(asked).list_resource_templates(cursor=_cursor(page))


async def _read_resource(
    asked: _Asked, read: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    return await _client(asked).read_resource(read.uri)


def _client(asked: _Asked) -> Client:
    client: Client = asked.lifespan_context
    return client

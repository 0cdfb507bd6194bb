"""A server of builds, which take their time: it answers late where its client can follow a task."""

import argparse
import asyncio
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server

from tests.servers import conformance_tasks as tasks
from tests.servers.conformance_tasks import HANDLERS, TASKS, About, Context, Task

TAKES_S = 1.5
BUILD = {
    "name": "build",
    "description": "Build a branch, and say how it went.",
    "inputSchema": {
        "type": "object",
        "properties": {"branch": {"type": "string"}},
        "required": ["branch"],
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}


async def list_tools(context: Context, params: object) -> types.ListToolsResult:
    return types.ListToolsResult.model_validate({"tools": [BUILD]})


async def call_tool(
    context: Context, params: types.CallToolRequestParams
) -> types.CallToolResult | dict[str, Any]:
    branch = (params.arguments or {}).get("branch")
    words = f"built {branch}: 214 tests, all green"

    async def work(task: Task) -> None:
        await asyncio.sleep(TAKES_S)
        task.complete(words)

    if tasks.declared(context):
        return tasks.begin(work)
    await asyncio.sleep(TAKES_S)
    return types.CallToolResult.model_validate({"content": [{"type": "text", "text": words}]})


def build() -> Server[Any]:
    server: Server[Any] = Server("builds", version="1.0.0", on_list_tools=list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    server.extensions = {TASKS: {}}
    for method, handler in HANDLERS.items():
        server.add_request_handler(method, About, handler)
    return server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    uvicorn.run(
        build().streamable_http_app(),
        host="127.0.0.1",
        port=parser.parse_args().port,
        log_level="warning",
        timeout_graceful_shutdown=1,
    )


if __name__ == "__main__":
    main()

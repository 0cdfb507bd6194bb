"""A server with everything that the public conformance suite asks a server for.

The names and texts are the suite's; it speaks both families of revisions.
"""

import argparse
import itertools
import warnings
from collections.abc import Mapping
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from tests.servers.conformance_tasks import HANDLERS, TASKS, About
from tests.servers.conformance_tools import (
    PNG,
    TOOLS,
    Context,
    Result,
    ask,
    bus,
    icons_of,
    image,
    question,
    resource,
    text,
)

NAME = "conformance-fixture"
RETRY_MS = 100
"""After how long a client should come back for the rest of a stream."""

RESOURCES: Mapping[str, Mapping[str, Any]] = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Nothing has happened yet."},
}
TEMPLATE = "test://template/{id}/data"
_BEFORE_ID, _AFTER_ID = TEMPLATE.split("{id}")

PROMPTS: Mapping[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}
"""The arguments of each, all of them required."""


class Events(EventStore):
    """Keeps every event of every stream, for clients that come back."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self._kept.append((stream_id, message))
        return str(len(self._kept))

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        last = int(last_event_id) if last_event_id.isdecimal() else 0
        if not 0 < last <= len(self._kept):
            return None
        stream = self._kept[last - 1][0]
        for number, (of, message) in itertools.islice(enumerate(self._kept, 1), last, None):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


async def list_tools(context: Context, params: object) -> types.ListToolsResult:
    tools = [
        {
            "name": name,
            "description": f"Does what {name} is for.",
            "inputSchema": schema,
            "icons": icons_of("tools", name),
        }
        for name, (_, schema) in TOOLS.items()
    ]
    return types.ListToolsResult.model_validate({"tools": tools})


async def call_tool(context: Context, params: types.CallToolRequestParams) -> Result:
    if params.name not in TOOLS:
        # As servers on the SDK's high-level interface say it.
        return text(f"Unknown tool: {params.name}", is_error=True)
    behaviour, _ = TOOLS[params.name]
    return await behaviour(context, params)


async def list_resources(context: Context, params: object) -> types.ListResourcesResult:
    return types.ListResourcesResult.model_validate(
        {
            "resources": [
                {
                    "uri": uri,
                    "name": uri.removeprefix("test://"),
                    "description": "A resource that is always there.",
                    "mimeType": content["mimeType"],
                }
                for uri, content in RESOURCES.items()
            ]
        }
    )


async def list_templates(context: Context, params: object) -> types.ListResourceTemplatesResult:
    template = {
        "uriTemplate": TEMPLATE,
        "name": "template",
        "description": "A resource for every id.",
        "mimeType": "application/json",
    }
    return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": [template]})


async def read_resource(
    context: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    content = RESOURCES.get(params.uri) or _of_template(params.uri)
    if content is None:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", data={"uri": params.uri})
    return types.ReadResourceResult.model_validate({"contents": [{"uri": params.uri, **content}]})


def _of_template(uri: str) -> Mapping[str, Any] | None:
    if not uri.startswith(_BEFORE_ID) or not uri.endswith(_AFTER_ID):
        return None
    id_ = uri.removeprefix(_BEFORE_ID).removesuffix(_AFTER_ID)
    data = f'{{"id":"{id_}","templateTest":true,"data":"Data for ID: {id_}"}}'
    return {"mimeType": "application/json", "text": data}


async def accept(context: Context, params: object) -> types.EmptyResult:
    return types.EmptyResult()


async def list_prompts(context: Context, params: object) -> types.ListPromptsResult:
    prompts = [
        {
            "name": name,
            "description": f"Says what {name} is for.",
            "icons": icons_of("prompts", name),
            "arguments": [
                {"name": argument, "description": "A text.", "required": True}
                for argument in arguments
            ],
        }
        for name, arguments in PROMPTS.items()
    ]
    return types.ListPromptsResult.model_validate({"prompts": prompts})


async def get_prompt(
    context: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return _messages(_text("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            one, two = given.get("arg1"), given.get("arg2")
            return _messages(_text(f"Prompt with arguments: arg1='{one}', arg2='{two}'"))
        case "test_prompt_with_embedded_resource":
            uri = given.get("resourceUri", "test://example-resource")
            embedded = resource(uri, "text/plain", "Embedded resource content for testing.")
            return _messages(embedded, _text("Please process the embedded resource above."))
        case "test_prompt_with_image":
            return _messages(image(), _text("Please analyze the image above."))
        case "test_input_required_result_prompt":
            if "user_context" in (params.input_responses or {}):
                return _messages(_text("The context was given."))
            asked = question("What context should the prompt use?", "context")
            return ask({"user_context": asked})
        case _:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _messages(*contents: Mapping[str, Any]) -> types.GetPromptResult:
    messages = [{"role": "user", "content": content} for content in contents]
    return types.GetPromptResult.model_validate({"messages": messages})


async def complete(context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [v for v in ("paris", "park", "party") if v.startswith(params.argument.value)]
    completion = {"values": values, "total": len(values), "hasMore": False}
    return types.CompleteResult.model_validate({"completion": completion})


def build() -> Server[Any]:
    server: Server[Any] = Server(
        NAME,
        version="1.0.0",
        on_list_tools=list_tools,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=accept,
        on_unsubscribe_resource=accept,
        on_subscriptions_listen=ListenHandler(bus),
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_set_logging_level=accept,
    )
    # Which may answer with a task, of which the SDK's own seam knows nothing.
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    server.extensions = {TASKS: {}}
    for method, handler in HANDLERS.items():
        server.add_request_handler(method, About, handler)
    server.middleware.append(
        RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME)
    )
    return server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    # Logging is deprecated in the newest revision, and still a part of the older ones.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    uvicorn.run(
        build().streamable_http_app(event_store=Events(), retry_interval=RETRY_MS),
        host="127.0.0.1",
        port=port,
        # The other parser keeps the blanks behind a header's value (RFC 9110 section 5.5).
        http="h11",
        log_level="warning",
        timeout_graceful_shutdown=1,
    )


if __name__ == "__main__":
    main()

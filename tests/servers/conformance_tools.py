"""The tools of the conformance fixture: what each is called, what it takes, what it does."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged
from mcp_types import (
    INTERNAL_ERROR,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
    InputRequiredResult,
    ProgressNotification,
    SamplingCapability,
)

from tests.servers import conformance_tasks as tasks
from tests.servers.conformance_tasks import Task

Context: TypeAlias = ServerRequestContext[Any, Any]
Params: TypeAlias = CallToolRequestParams
Result: TypeAlias = CallToolResult | InputRequiredResult | dict[str, Any]
"""An object is the beginning of a task."""
Behaviour: TypeAlias = Callable[[Context, Params], Awaitable[Result]]

PAUSE_S = 0.05

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
"""One red pixel."""
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
"""One sample of silence."""

bus = InMemorySubscriptionBus()
"""Carries what has changed to those who listen (2026-07-28)."""


def text(words: str, *, is_error: bool = False) -> CallToolResult:
    return content({"type": "text", "text": words}, is_error=is_error)


def content(*blocks: Mapping[str, Any], is_error: bool = False) -> CallToolResult:
    return CallToolResult.model_validate({"content": list(blocks), "isError": is_error})


def image() -> dict[str, Any]:
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def resource(uri: str, media: str, words: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": media, "text": words}}


def always(result: CallToolResult) -> Behaviour:
    async def behaviour(context: Context, params: Params) -> Result:
        return result

    return behaviour


# What tools do while they run.


async def logs(context: Context, params: Params) -> Result:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", words, related_request_id=context.request_id)
        await asyncio.sleep(PAUSE_S)
    return text("three messages were logged")


async def reports_progress(context: Context, params: Params) -> Result:
    token = (context.meta or {}).get("progress_token")
    for progress in (0, 50, 100):
        if token is not None:
            message = {"progressToken": token, "progress": progress, "total": 100}
            await context.session.send_notification(
                ProgressNotification.model_validate(
                    {"method": "notifications/progress", "params": message}
                ),
                related_request_id=context.request_id,
            )
        await asyncio.sleep(PAUSE_S)
    return text("the work is done")


async def closes_its_stream(context: Context, params: Params) -> Result:
    """Cut the answer's stream in the middle, so that the client has to come back for the rest."""
    # The head of the answer has to be out: with nothing sent there is nothing to come back for.
    await asyncio.sleep(2 * PAUSE_S)
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
    await asyncio.sleep(2 * PAUSE_S)
    return text("sent on another stream than the one that asked")


changes: Counter[str] = Counter()
"""How often each list has changed: one definition in it has got another icon, and nothing else."""
CHANGING = frozenset({"test_trigger_tool_change", "test_simple_prompt"})


def icons_of(listed: str, name: str) -> list[dict[str, str]]:
    """Return the icons of the one called `name` in a list now."""
    number = changes[listed] if name in CHANGING else 0
    return [{"src": f"https://icons.example/{number}.png"}]


async def changes_tools(context: Context, params: Params) -> Result:
    changes["tools"] += 1
    await bus.publish(ToolsListChanged())
    return text("the tools have changed, and listeners were told")


async def changes_prompts(context: Context, params: Params) -> Result:
    changes["prompts"] += 1
    await bus.publish(PromptsListChanged())
    return text("the prompts have changed, and listeners were told")


async def needs_sampling(context: Context, params: Params) -> Result:
    sampling = ClientCapabilities(sampling=SamplingCapability())
    if not context.session.check_client_capability(sampling):
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "this tool needs a client that can sample",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return text("the client can sample")


async def echoes_region(context: Context, params: Params) -> Result:
    return text(f"region: {(params.arguments or {}).get('region', 'none')}")


# What tools ask of the client, in the revisions in which a server can send requests.


async def asks_model(context: Context, params: Params) -> Result:
    request = CreateMessageRequest.model_validate(sampling((params.arguments or {})["prompt"], 100))
    answer = await context.session.send_request(request, CreateMessageResult, metadata=_on(context))
    return text(f"LLM response: {getattr(answer.content, 'text', '')}")


async def _elicit(context: Context, message: str, schema: Mapping[str, Any]) -> ElicitResult:
    request = ElicitRequest.model_validate(form(message, schema))
    return await context.session.send_request(request, ElicitResult, metadata=_on(context))


def _on(context: Context) -> ServerMessageMetadata:
    """Send a request on the stream of the call that it belongs to."""
    return ServerMessageMetadata(related_request_id=context.request_id)


async def asks_user(context: Context, params: Params) -> Result:
    schema = {
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    }
    answer = await _elicit(context, (params.arguments or {})["message"], schema)
    return text(f"User response: action={answer.action}, content={answer.content}")


DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
}


def _titled(*titles: str) -> list[dict[str, str]]:
    return [
        {"const": f"value{number}", "title": title} for number, title in enumerate(titles, start=1)
    ]


_OPTIONS = ["option1", "option2", "option3"]
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _OPTIONS},
        "titledSingle": {
            "type": "string",
            "oneOf": _titled("First Option", "Second Option", "Third Option"),
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        "titledMulti": {
            "type": "array",
            "items": {"anyOf": _titled("First Choice", "Second Choice", "Third Choice")},
        },
    },
}


def asks_form(message: str, schema: Mapping[str, Any]) -> Behaviour:
    async def behaviour(context: Context, params: Params) -> Result:
        answer = await _elicit(context, message, schema)
        return text(f"Elicitation completed: action={answer.action}, content={answer.content}")

    return behaviour


# What tools ask in the stateless revision: by a result that is no result yet.


def form(message: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def question(message: str, member: str, kind: str = "string") -> dict[str, Any]:
    """Return a form with one field."""
    properties = {member: {"type": kind}}
    return form(message, {"type": "object", "properties": properties, "required": [member]})


def sampling(prompt: str, max_tokens: int) -> dict[str, Any]:
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    params = {"messages": [message], "maxTokens": max_tokens}
    return {"method": "sampling/createMessage", "params": params}


NAME = question("What is your name?", "name")
CAPITAL = sampling("What is the capital of France?", 100)
ROOTS = {"method": "roots/list", "params": {}}
CONFIRM = question("Please confirm", "ok", "boolean")


def ask(requests: Mapping[str, Any], *, state: str | None = None) -> InputRequiredResult:
    """Ask for `requests`; `state` is sealed on its way out and opened when it comes back."""
    asked = {"resultType": "input_required", "inputRequests": requests}
    return InputRequiredResult.model_validate(
        asked if state is None else {**asked, "requestState": state}
    )


def asks_once(
    requests: Mapping[str, Any], done: Callable[[Mapping[str, Any]], str], *, state: str = ""
) -> Behaviour:
    """Ask until every request has an answer, and the state has come back where there is one."""

    async def behaviour(context: Context, params: Params) -> Result:
        answers = params.input_responses or {}
        if not requests.keys() <= answers.keys() or (params.request_state or "") != state:
            return ask(requests, state=state or None)
        return text(done(answers))

    return behaviour


async def asks_twice(context: Context, params: Params) -> Result:
    answers = params.input_responses or {}
    if params.request_state == "second" and "step2" in answers:
        return text("both questions are answered")
    if params.request_state == "first" and "step1" in answers:
        second = question("Step 2: What is your favorite color?", "color")
        return ask({"step2": second}, state="second")
    return ask({"step1": question("Step 1: What is your name?", "name")}, state="first")


async def asks_what_is_declared(context: Context, params: Params) -> Result:
    declared = context.session.client_capabilities or ClientCapabilities()
    requests = {}
    if declared.sampling is not None:
        requests["question"] = CAPITAL
    if declared.elicitation is not None:
        requests["name"] = NAME
    if not requests or (params.input_responses or {}).keys() >= requests.keys():
        return text("nothing is left to ask")
    return ask(requests)


# What answers late, where the client can follow a task.


async def computes(context: Context, params: Params) -> Result:
    given = params.arguments or {}
    seconds, label = given.get("seconds", 0), given.get("label", "")

    async def work(task: Task) -> None:
        await asyncio.sleep(seconds)
        task.complete(f"computed {label} in {seconds} s")

    if seconds and tasks.declared(context):
        return tasks.begin(work)
    return text(f"computed {label} at once")


async def fails_late(context: Context, params: Params) -> Result:
    async def work(task: Task) -> None:
        await asyncio.sleep(PAUSE_S)
        task.complete("the job has failed", is_error=True)

    tasks.require_declared(context)
    return tasks.begin(work)


async def breaks_late(context: Context, params: Params) -> Result:
    async def work(task: Task) -> None:
        await asyncio.sleep(PAUSE_S)
        raise MCPError(INTERNAL_ERROR, "the job has broken")

    tasks.require_declared(context)
    return tasks.begin(work)


def asks_late(*members: str) -> Behaviour:
    async def behaviour(context: Context, params: Params) -> Result:
        async def work(task: Task) -> None:
            await task.ask({f"ask-{name}": question(f"{name}?", name) for name in members})
            task.complete("all of it was answered")

        tasks.require_declared(context)
        return tasks.begin(work)

    return behaviour


async def asks_and_then_works(context: Context, params: Params) -> Result:
    answers = params.input_responses or {}
    if "user_name" not in answers:
        return ask({"user_name": NAME})
    words = _greeting(answers)

    async def work(task: Task) -> None:
        await asyncio.sleep(PAUSE_S)
        task.complete(words)

    tasks.require_declared(context)
    return tasks.begin(work)


async def greets(context: Context, params: Params) -> Result:
    return text(f"Hello, {(params.arguments or {}).get('name')}!")


# The list.

_SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

_NOTHING: Mapping[str, Any] = {"type": "object", "properties": {}}


def _takes(member: str, **more: str) -> Mapping[str, Any]:
    properties = {member: {"type": "string", **more}}
    required = [] if more else [member]
    return {"type": "object", "properties": properties, "required": required}


_COMPUTES: Mapping[str, Any] = {
    "type": "object",
    "properties": {"seconds": {"type": "number"}, "label": {"type": "string"}},
}
_MIXED = content(
    {"type": "text", "text": "Multiple content types test:"},
    image(),
    resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
)
_EMBEDDED = content(
    resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
)
_FAILURE = text("This tool intentionally returns an error for testing", is_error=True)


def _greeting(answers: Mapping[str, Any]) -> str:
    return f"Hello, {(answers['user_name'].content or {}).get('name')}!"


TOOLS: Mapping[str, tuple[Behaviour, Mapping[str, Any]]] = {
    "test_simple_text": (always(text("This is a simple text response for testing.")), _NOTHING),
    "test_image_content": (always(content(image())), _NOTHING),
    "test_audio_content": (
        always(content({"type": "audio", "data": WAV, "mimeType": "audio/wav"})),
        _NOTHING,
    ),
    "test_embedded_resource": (always(_EMBEDDED), _NOTHING),
    "test_multiple_content_types": (always(_MIXED), _NOTHING),
    "test_error_handling": (always(_FAILURE), _NOTHING),
    "test_tool_with_logging": (logs, _NOTHING),
    "test_logging_tool": (logs, _NOTHING),
    "test_tool_with_progress": (reports_progress, _NOTHING),
    "test_reconnection": (closes_its_stream, _NOTHING),
    "test_trigger_tool_change": (changes_tools, _NOTHING),
    "test_trigger_prompt_change": (changes_prompts, _NOTHING),
    "test_missing_capability": (needs_sampling, _NOTHING),
    "test_x_mcp_header": (echoes_region, _takes("region", **{"x-mcp-header": "Region"})),
    "json_schema_2020_12_tool": (always(text("accepted")), _SCHEMA_2020_12),
    "test_sampling": (asks_model, _takes("prompt")),
    "test_elicitation": (asks_user, _takes("message")),
    "test_elicitation_sep1034_defaults": (asks_form("Check the defaults", DEFAULTS), _NOTHING),
    "test_elicitation_sep1330_enums": (asks_form("Choose", ENUMS), _NOTHING),
    "test_streaming_elicitation": (asks_once({"user_name": NAME}, _greeting), _NOTHING),
    "test_input_required_result_elicitation": (
        asks_once({"user_name": NAME}, _greeting),
        _NOTHING,
    ),
    "test_input_required_result_sampling": (
        asks_once({"capital_question": CAPITAL}, lambda got: f"{got['capital_question'].content}"),
        _NOTHING,
    ),
    "test_input_required_result_list_roots": (
        asks_once({"client_roots": ROOTS}, lambda got: f"{got['client_roots'].roots}"),
        _NOTHING,
    ),
    "test_input_required_result_request_state": (
        asks_once({"confirm": CONFIRM}, lambda _: "state-ok", state="asked"),
        _NOTHING,
    ),
    "test_input_required_result_tampered_state": (
        asks_once({"confirm": CONFIRM}, lambda _: "state-ok", state="asked"),
        _NOTHING,
    ),
    "test_input_required_result_multiple_inputs": (
        asks_once(
            {
                "user_name": NAME,
                "greeting": sampling("Generate a greeting", 50),
                "client_roots": ROOTS,
            },
            _greeting,
            state="asked",
        ),
        _NOTHING,
    ),
    "test_input_required_result_multi_round": (asks_twice, _NOTHING),
    "test_input_required_result_capabilities": (asks_what_is_declared, _NOTHING),
    "greet": (greets, _takes("name")),
    "slow_compute": (computes, _COMPUTES),
    "failing_job": (fails_late, _NOTHING),
    "protocol_error_job": (breaks_late, _NOTHING),
    "confirm_delete": (asks_late("confirm"), _takes("filename")),
    "multi_input": (asks_late("name", "confirm"), _NOTHING),
    "test_tool_with_task": (asks_and_then_works, _NOTHING),
}
"""What each tool does, and the schema of what it takes. None of them changes anything."""

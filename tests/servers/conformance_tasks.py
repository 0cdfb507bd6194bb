"""The tools of the conformance fixture that answer late, where their client can follow a task.

The SDK has no such tasks (2026-07-28, extension io.modelcontextprotocol/tasks): what it would do is
done here, as far as the suite looks.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import Field

TASKS = "io.modelcontextprotocol/tasks"
TTL_MS, POLL_MS = 60_000, 100

_MISSING, _MISMATCH = -32021, -32020
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_TERMINAL = frozenset({"completed", "failed", "cancelled"})

Context: TypeAlias = ServerRequestContext[Any, Any]
Content: TypeAlias = Mapping[str, Any]
Work: TypeAlias = Callable[["Task"], Awaitable[None]]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class About(types.RequestParams):
    """The params of a request about a task."""

    task_id: str = Field(alias="taskId")
    input_responses: dict[str, Any] = Field(default_factory=dict, alias="inputResponses")


@dataclass
class Task:
    """One call that goes on."""

    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    status: str = "working"
    result: Content | None = None
    error: Content | None = None
    requests: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    created: str = field(default_factory=now)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    running: asyncio.Task[None] | None = None

    def complete(self, words: str, *, is_error: bool = False) -> None:
        content = [{"type": "text", "text": words}]
        self.status, self.result = "completed", {"content": content, "isError": is_error}

    def fail(self, code: int, words: str) -> None:
        self.status, self.error = "failed", {"code": code, "message": words}

    async def ask(self, requests: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answers to `requests`, once there is one to each."""
        self.status, self.requests = "input_required", dict(requests)
        await self.answered.wait()
        self.status = "working"
        return self.answers

    def answer(self, answers: Mapping[str, Any]) -> None:
        for name in answers.keys() & self.requests.keys():
            self.answers[name] = answers[name]
            del self.requests[name]
        if not self.requests:
            self.answered.set()

    def cancel(self) -> None:
        if self.status not in _TERMINAL:
            self.status = "cancelled"
            if self.running is not None:
                self.running.cancel()

    @property
    def frame(self) -> dict[str, Any]:
        return {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created,
            "lastUpdatedAt": now(),
            "ttlMs": TTL_MS,
            "pollIntervalMs": POLL_MS,
        }

    @property
    def details(self) -> dict[str, Any]:
        more: dict[str, Any] = {}
        match self.status:
            case "completed":
                more = {"result": self.result}
            case "failed":
                more = {"error": self.error}
            case "input_required":
                more = {"inputRequests": self.requests}
            case _:
                pass
        return {"resultType": "complete", **self.frame, **more}


_tasks: dict[str, Task] = {}


def begin(work: Work) -> dict[str, Any]:
    """Begin a task, and return the answer that says so."""
    task = _tasks.setdefault((new := Task()).id, new)
    begun = {"resultType": "task", **task.frame}
    task.running = asyncio.create_task(_run(task, work))
    return begun


async def _run(task: Task, work: Work) -> None:
    try:
        await work(task)
    except MCPError as error:
        task.fail(error.error.code, error.error.message)


def declared(context: Context) -> bool:
    """Whether this request says that its client can follow a task."""
    meta = (context.params or {}).get("_meta") or {}
    capabilities = meta.get(_CAPABILITIES) or {}
    return TASKS in (capabilities.get("extensions") or {})


def require_declared(context: Context) -> None:
    if not declared(context):
        raise MCPError(
            _MISSING,
            "Missing required client capability",
            data={"requiredCapabilities": {"extensions": {TASKS: {}}}},
        )


async def get(context: Context, params: About) -> dict[str, Any]:
    return _found(context, params).details


async def update(context: Context, params: About) -> dict[str, Any]:
    _found(context, params).answer(params.input_responses)
    return {"resultType": "complete"}


async def cancel(context: Context, params: About) -> dict[str, Any]:
    _found(context, params).cancel()
    return {"resultType": "complete"}


HANDLERS = {"tasks/get": get, "tasks/update": update, "tasks/cancel": cancel}


def _found(context: Context, params: About) -> Task:
    require_declared(context)
    if context.request is not None and context.request.headers.get("mcp-name") != params.task_id:
        raise MCPError(_MISMATCH, "Mcp-Name header does not match the request's body")
    if params.task_id not in _tasks:
        raise MCPError(types.INVALID_PARAMS, "Task not found")
    return _tasks[params.task_id]

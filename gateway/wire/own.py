"""What a host tells the gateway itself: its user's task, and which run a call is in."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.domain.calls import Call, Message, Reply
from gateway.domain.flow import Task
from gateway.domain.tools import Profile
from gateway.errors import ProtocolError
from gateway.wire import jsontext
from gateway.wire.extensions import with_params
from gateway.wire.inbound import CONTENT_TYPE, RUN_KEY
from gateway.wire.jsonrpc import INVALID_PARAMS
from gateway.wire.operations import RUN_BEGIN

LONGEST_PROMPT: Final = 64 * 1024
"""Characters: it is kept for as long as its run is live."""
MOST_TOOLS: Final = 1024
TASK_KEY: Final = "douane/task"
ORIGIN_KEY: Final = "douane/origin"
"""Where a host says that a program of its own makes the call."""
_FOR_US: Final = frozenset({TASK_KEY, RUN_KEY, ORIGIN_KEY})
_META: Final = "_meta"
_LONGEST_NAME: Final = 512
_OK: Final = 200


def begins(message: Message) -> bool:
    """Whether `message` asks for a run to begin, rather than to end."""
    return message.method == RUN_BEGIN


def declared_task(message: Message) -> Task | None:
    """Return the task that a run is begun for: `params.task`, if there is one.

    Raises:
        ProtocolError: It is not `{"prompt"?: text, "tools"?: [text]}`, or is too large.

    """
    declared = message.params.get("task")
    if declared is None:
        return None
    if not isinstance(declared, dict) or not declared.keys() <= {"prompt", "tools"}:
        raise _bad("task must be an object with prompt and tools", message)
    prompt, tools = declared.get("prompt"), declared.get("tools")
    if prompt is not None and not _is_text(prompt, LONGEST_PROMPT):
        raise _bad(f"task.prompt must be at most {LONGEST_PROMPT} characters of text", message)
    if tools is not None and not (
        isinstance(tools, list)
        and len(tools) <= MOST_TOOLS
        and all(_is_text(tool, _LONGEST_NAME) for tool in tools)
    ):
        raise _bad(f"task.tools must be a list of at most {MOST_TOOLS} names", message)
    return Task(prompt=prompt, tools=None if tools is None else tuple(tools))


def told_us(message: Message) -> tuple[Message, Task | None]:
    """Return `message` without what is meant for us alone, and the task that it declares.

    A user's words are nobody else's business, and a handle is worth something. A task that is
    malformed or too large is none, which is read more strictly.
    """
    meta = message.params.get(_META)
    if not isinstance(meta, dict) or meta.keys().isdisjoint(_FOR_US):
        return message, None
    task = None
    if TASK_KEY in meta:
        try:
            task = declared_task(replace(message, params={"task": meta[TASK_KEY]}))
        except ProtocolError:
            task = None
    kept = {name: meta[name] for name in meta if name not in _FOR_US}
    params = {name: message.params[name] for name in message.params if name != _META}
    return with_params(message, {**params, _META: kept} if kept else params), task


def says_program(message: Message) -> bool:
    """Whether its host says that a program makes this call; whatever it says there, it says so.

    It can only lose by it: what a program may do besides, the credential says and nothing else.
    """
    meta = message.params.get(_META)
    return isinstance(meta, dict) and ORIGIN_KEY in meta


def named_handle(message: Message) -> str:
    """Return the handle of the run that is to end.

    Raises:
        ProtocolError: There is none.

    """
    handle = message.params.get("run")
    if not isinstance(handle, str) or not 0 < len(handle) <= _LONGEST_NAME:
        raise _bad(f"{message.method} needs a string run", message)
    return handle


def reply(call: Call, result: Mapping[str, Any]) -> Reply:
    """Return the gateway's own answer to `call`."""
    if call.profile is Profile.MODERN:
        result = {**result, "resultType": "complete"}  # required since 2026-07-28
    body = jsontext.write({"jsonrpc": "2.0", "id": call.message.id, "result": result})
    return Reply(status=_OK, headers=(CONTENT_TYPE,), body=body.encode())


def _is_text(content: Any, longest: int) -> bool:
    return isinstance(content, str) and len(content) <= longest


def _bad(public: str, message: Message) -> ProtocolError:
    return ProtocolError(public, rpc_code=INVALID_PARAMS, rpc_id=message.id)

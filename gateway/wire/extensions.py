"""What client and server declare beyond the protocol's core: nothing passes that is not approved.

Extensions are negotiated by capabilities (MCP 2026-07-28, extensions), so one that neither side
hears of stays off. Experimental capabilities are older extensions under another member.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.domain.calls import Form, Message
from gateway.domain.document import DEEPEST
from gateway.domain.tools import Profile
from gateway.wire import jsontext
from gateway.wire.inbound import MODERN_CAPABILITIES_KEY
from gateway.wire.operations import RUN_BEGIN

TASKS: Final = "io.modelcontextprotocol/tasks"
"""Of the stateless revisions alone; in the older ones a task is another thing."""
UI: Final = "io.modelcontextprotocol/ui"

DECLARING: Final = frozenset({"extensions", "experimental"})
"""Members of capabilities that hold settings by an extension's name."""
_REFUSED: Final = frozenset({"tasks"})
_META: Final = "_meta"
_TASK: Final = frozenset({"task"})
_SUPPORT: Final = "taskSupport"


def within(message: Message, profile: Profile, approved: frozenset[str]) -> Message:
    """Return `message` declaring only extensions that are `approved`; itself, if it does already.

    What is returned instead has other bytes, of the same content but for what is left out. Whoever
    asks for a task is answered as if they had not: nobody offers them (MCP 2025-11-25, tasks).
    """
    message = _at_once(message)
    if profile is Profile.LEGACY:
        approved -= {TASKS}
    params, meta = message.params, message.params.get(_META)
    if message.method == "initialize":
        params = _kept_in(params, "capabilities", approved) or params
    if isinstance(meta, dict):
        # In a family in which it means nothing, too: a name of an extension is its caller's word.
        about = _kept_in(meta, MODERN_CAPABILITIES_KEY, approved)
        params = params if about is None else {**params, _META: about}
    return message if params is message.params else with_params(message, params)


def asking_nothing(message: Message, profile: Profile) -> Message:
    """Return `message` of a client that nobody can ask anything: it declares no capability.

    That is for where a server's own requests have no way back.
    """
    if profile is Profile.LEGACY:
        if message.method != "initialize" or not message.params.get("capabilities"):
            return message
        return with_params(message, {**message.params, "capabilities": {}})
    meta = message.params.get(_META)
    if not isinstance(meta, dict) or not meta.get(MODERN_CAPABILITIES_KEY):
        return message
    return with_params(message, {**message.params, _META: {**meta, MODERN_CAPABILITIES_KEY: {}}})


def _at_once(message: Message) -> Message:
    """Return `message` asking for no task: no server hears of one, however loosely it reads."""
    params = message.params
    if _TASK.isdisjoint(map(str.casefold, params)) or message.method == RUN_BEGIN:
        return message
    kept = {name: said for name, said in params.items() if name.casefold() not in _TASK}
    return with_params(message, kept)


def without_tasks(definition: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return a legacy tool's definition as of one that answers at once; `None` of one that cannot.

    What it says of tasks is for clients of servers that have them (MCP 2025-11-25, tasks): nobody is
    told that any has.
    """
    execution = definition.get("execution")
    support = execution.get(_SUPPORT) if isinstance(execution, dict) else None
    if not isinstance(execution, dict) or support is None:
        return definition
    if support == "required":
        return None
    kept = {name: inner for name, inner in execution.items() if name != _SUPPORT}
    return {
        name: kept if name == "execution" else inner
        for name, inner in definition.items()
        if name != "execution" or kept
    }


def approved_only(capabilities: Any, approved: frozenset[str]) -> Any:
    """Return `capabilities` without extensions that are not `approved`; as they are, if none is.

    A reader that matches names loosely would take `Tasks` for `tasks`, so neither passes; and
    capabilities that are no object declare nothing that anybody could judge.
    """
    if not isinstance(capabilities, dict):
        return {}
    kept = {
        name: _approved(settings, approved) if name in DECLARING else settings
        for name, settings in capabilities.items()
        if name in DECLARING or name.casefold() not in DECLARING | _REFUSED
    }
    return capabilities if kept == capabilities else kept


def _approved(settings: Any, approved: frozenset[str]) -> dict[str, Any]:
    named = settings if isinstance(settings, dict) else {}
    return {name: named[name] for name in named if name in approved}


def _kept_in(
    holder: Mapping[str, Any], member: str, approved: frozenset[str]
) -> dict[str, Any] | None:
    """Return `holder` with the capabilities in `member` narrowed; `None` if they are narrow.

    What could be taken for `member` has been refused when the message was read.
    """
    if member not in holder or approved_only(holder[member], approved) is holder[member]:
        return None
    return {**holder, member: approved_only(holder[member], approved)}


def with_params(message: Message, params: Mapping[str, Any]) -> Message:
    """Return the same message with other params, a response with another outcome, and the bytes that say so."""
    if message.form is Form.RESPONSE:
        return _with_outcome(message, params)
    content: dict[str, Any] = {"jsonrpc": "2.0", "method": message.method, "params": params}
    if message.id is not None:
        content["id"] = message.id
    return replace(message, params=params, body=jsontext.write(content).encode())


def _with_outcome(message: Message, outcome: Mapping[str, Any]) -> Message:
    content = jsontext.read_exact(message.body, DEEPEST)
    member = "error" if "error" in content else "result"
    body = jsontext.write({**content, member: outcome}).encode()
    return replace(message, params=outcome, body=body)

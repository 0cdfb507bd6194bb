"""One task, played: what the model asks for is called at `/mcp`, and what comes back it is told."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.wire.operations import CALL_TOOL, SEARCH_TOOLS

MOST_TURNS = 24
_SYSTEM = (
    "You carry out the user's task with the tools that you have. Call every tool that the task needs, "
    "with plausible arguments where you lack some; the results are simulated. When nothing is left to "
    "be done, say so in one sentence."
)


class Speaks(Protocol):
    """A model."""

    def answer(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the message that comes next."""
        ...


class Endpoint(Protocol):
    """`/mcp`, as one client sees it."""

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of one request."""
        ...

    def tools(self) -> list[dict[str, Any]]:
        """Return what is listed."""
        ...


@dataclass
class Played:
    """What happened in one task."""

    called: list[str] = field(default_factory=list)
    """Tools of servers that were called, and answered."""
    failed: int = 0
    """Calls that were refused or failed, the gateway's own tools among them."""
    searches: int = 0
    turns: int = 0
    finished: bool = False
    """The model said that nothing was left, in time."""

    def met(self, needs: Sequence[Sequence[str]]) -> float:
        """Return the share of `needs` for which an acceptable tool was called."""
        return sum(not set(self.called).isdisjoint(need) for need in needs) / len(needs)


def play(task: str, model: Speaks, front: Endpoint, *, most_turns: int = MOST_TURNS) -> Played:
    """Have the model carry out `task` with the tools that are listed to it.

    Raises:
        ModelFailed: It gave no answer.

    """
    tools = [offered(one) for one in front.tools()]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": task},
    ]
    played = Played()
    while played.turns < most_turns and not played.finished:
        played.turns += 1
        message = model.answer(messages, tools)
        messages.append(message)
        wanted = message.get("tool_calls") or []
        played.finished = not wanted
        for call in wanted:
            told = _use(front, call.get("function") or {}, played)
            messages.append({"role": "tool", "tool_call_id": call.get("id"), "content": told})
    return played


def offered(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition of MCP's in the form that chat completions take."""
    function = {
        "name": definition["name"],
        "description": definition.get("description") or "",
        "parameters": definition["inputSchema"],
    }
    return {"type": "function", "function": function}


def _use(front: Endpoint, function: Mapping[str, Any], played: Played) -> str:
    """Call what the model wants called; return what it is told of that."""
    name = str(function.get("name"))
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        played.failed += 1
        return "The arguments are not a JSON object. Nothing was called; try again."
    try:
        result = front.ask("tools/call", name=name, arguments=arguments)
    except RuntimeError as error:
        played.failed += 1
        return f"The call failed: {error}"
    played.searches += name == SEARCH_TOOLS
    meant = arguments.get("name") if name == CALL_TOOL else name
    if result.get("isError"):
        played.failed += 1
    elif isinstance(meant, str) and "__" in meant:
        played.called.append(meant)
    blocks = result.get("content") or []
    return "\n".join(str(block.get("text", "")) for block in blocks)

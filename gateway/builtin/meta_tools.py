"""The gateway's own tools, with which a model finds others: their definitions and arguments (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.calls import Call, OriginKind
from gateway.errors import BadCommand
from gateway.wire.extensions import with_params
from gateway.wire.operations import CALL_TOOL, SEARCH_TOOLS, TOOL_DETAILS

MOST_HITS: Final = 50
_USUAL_HITS: Final = 10
_MOST_NAMES: Final = 50
_LONGEST_QUERY: Final = 4_000
"""Characters."""
_STRATEGIES: Final = ("keyword", "regex")
_ONLY: Final = "the arguments are {}, and no others"


class Detail(StrEnum):
    """How much is told of each tool that was found."""

    NAME = "name"
    SUMMARY = "summary"
    FULL = "full"


def _definition(
    name: str,
    title: str,
    description: str,
    *,
    properties: Mapping[str, Any],
    required: Sequence[str],
    annotations: Mapping[str, bool],
) -> Mapping[str, Any]:
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        },
        "annotations": annotations,
    }


_READS: Final = {"readOnlyHint": True, "openWorldHint": False}

DEFINITIONS: Final[tuple[Mapping[str, Any], ...]] = (
    _definition(
        SEARCH_TOOLS,
        "Search tools",
        "Find the tools for one step of a task among all that you may use here. Say what is to be "
        "done, in a few words; search anew for another kind of step, and not again for a tool that "
        "you have already seen. Tools are grouped by server, the best first.",
        properties={
            "query": {
                "type": "string",
                "maxLength": _LONGEST_QUERY,
                "description": "What is to be done; or an expression, if strategy is regex.",
            },
            "server": {"type": "string", "description": "Search the tools of this server alone."},
            "detail": {
                "enum": [detail.value for detail in Detail],
                "default": Detail.SUMMARY.value,
                "description": "name: names alone. summary: with the first lines of what they say "
                "of themselves. full: whole definitions, ready to be called.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_HITS,
                "default": _USUAL_HITS,
                "description": "How many tools at most.",
            },
            "strategy": {
                "enum": list(_STRATEGIES),
                "description": "keyword: words in common, the usual one. regex: RE2, upper and "
                "lower case alike. The answer says which was used.",
            },
        },
        required=("query",),
        annotations=_READS,
    ),
    _definition(
        TOOL_DETAILS,
        "Get tool details",
        "Get the whole definitions of tools that you know by name, with the hash of each. Look at "
        "a tool before you call it for the first time.",
        properties={
            "names": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "maxItems": _MOST_NAMES,
                "description": "Names as search_tools or the list of tools gives them.",
            }
        },
        required=("names",),
        annotations=_READS,
    ),
    _definition(
        CALL_TOOL,
        "Call a tool",
        "Call a tool that is not in your list of tools, by its name. It is the same as a direct "
        "call: the same is allowed, asked for and refused.",
        properties={
            "name": {"type": "string", "description": "Its name, such as server__tool."},
            "arguments": {
                "type": "object",
                "description": "What its inputSchema asks for.",
            },
            "definition_hash": {
                "type": "string",
                "description": "The definition_hash that came with the definition you have read. "
                "Nothing is called if another definition is in force.",
            },
        },
        required=("name",),
        annotations={},
    ),
)
"""What is listed first, for everybody alike and never changed by what is approved."""


@value
class Wanted:
    """What one search is for."""

    query: str
    server: str | None
    detail: Detail
    limit: int
    strategy: str | None


def wanted(arguments: Mapping[str, Any]) -> Wanted:
    """Return what the arguments of `search_tools` ask for.

    Raises:
        BadCommand: They are not what its definition says.

    """
    _only(arguments, "query", "server", "detail", "limit", "strategy")
    query, server = arguments.get("query"), arguments.get("server")
    detail = arguments.get("detail", Detail.SUMMARY.value)
    limit, strategy = arguments.get("limit", _USUAL_HITS), arguments.get("strategy")
    if not isinstance(query, str) or not 0 < len(query) <= _LONGEST_QUERY:
        raise BadCommand(f"query must be a text of 1 to {_LONGEST_QUERY} characters")
    if not isinstance(server, str | None):
        raise BadCommand("server must be the name of a server")
    if detail not in list(Detail):
        raise BadCommand("detail must be name, summary or full")
    if type(limit) is not int or not 1 <= limit <= MOST_HITS:
        raise BadCommand(f"limit must be a whole number from 1 to {MOST_HITS}")
    if strategy is not None and strategy not in _STRATEGIES:
        raise BadCommand("strategy must be keyword or regex")
    return Wanted(query=query, server=server, detail=Detail(detail), limit=limit, strategy=strategy)


def named(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names in the arguments of `get_tool_details`, each once.

    Raises:
        BadCommand: They are not what its definition says.

    """
    _only(arguments, "names")
    names = arguments.get("names")
    if (
        not isinstance(names, list)
        or not 1 <= len(names) <= _MOST_NAMES
        or not all(isinstance(name, str) for name in names)
    ):
        raise BadCommand(f"names must be a list of 1 to {_MOST_NAMES} names of tools")
    return tuple(dict.fromkeys(names))


def misuse(arguments: Mapping[str, Any]) -> str:
    """Return what is wrong with the arguments of `call_tool`; nothing, if they call something."""
    known = ("name", "arguments", "definition_hash")
    if not arguments.keys() <= set(known):
        return _ONLY.format(", ".join(known))
    if not isinstance(arguments.get("name"), str) or not arguments["name"]:
        return "name must be the name of a tool"
    if arguments["name"] == CALL_TOOL:
        return "call_tool calls other tools"
    if not isinstance(arguments.get("arguments", {}), dict):
        return "arguments must be an object"
    if not isinstance(arguments.get("definition_hash", ""), str):
        return "definition_hash must be a text"
    return ""


def called_through(call: Call) -> Call:
    """Return the call that a well-formed `call_tool` asks for; any other call as it is.

    Whatever else came along (answers to questions, `_meta`) belongs to that call.
    """
    params = call.message.params
    if call.message.method != "tools/call" or params.get("name") != CALL_TOOL:
        return call
    inner = params.get("arguments")
    if not isinstance(inner, dict) or misuse(inner):
        return call
    meant = {"name": inner["name"], "arguments": inner.get("arguments", {})}
    return replace(
        call,
        message=with_params(call.message, {**params, **meant}),
        origin=OriginKind.META_TOOL,
        definition_hash=inner.get("definition_hash"),
    )


def _only(arguments: Mapping[str, Any], *known: str) -> None:
    if not arguments.keys() <= set(known):
        raise BadCommand(_ONLY.format(", ".join(known)))

"""The gateway's own tools, with which a model finds others: their definitions and arguments (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.calls import Call, OriginKind
from gateway.domain.programs import Language
from gateway.errors import BadCommand
from gateway.wire.extensions import with_params
from gateway.wire.operations import CALL_TOOL, RUN_CODE, SEARCH_TOOLS, TOOL_DETAILS

MOST_HITS: Final = 50
_USUAL_HITS: Final = 8
_MOST_NAMES: Final = 50
_LONGEST_QUERY: Final = 4_000
"""Characters."""
SUBAGENT: Final = "subagent"
_STRATEGIES: Final = ("keyword", "regex", "embedding", "hybrid", SUBAGENT)
"""The same for everybody and everywhere: where one is not to be had, keyword answers."""
_ONLY: Final = "the arguments are {}, and no others"


class Shape(StrEnum):
    """In which form an answer is given."""

    TEXT = "text"
    TOOL_REFERENCE = "tool_reference"
    """Besides as blocks that name tools, for hosts that hand these to their model's interface."""


class Form(StrEnum):
    """In which form `get_tool_details` tells of a tool."""

    FULL = "full"
    STUBS = "stubs"


class Detail(StrEnum):
    """How much is told of each tool that was found."""

    NAME = "name"
    SUMMARY = "summary"
    FULL = "full"


def _definition(
    name: str,
    description: str,
    *,
    properties: Mapping[str, Any],
    required: Sequence[str],
    annotations: Mapping[str, bool] | None = None,
) -> Mapping[str, Any]:
    """Return a definition without what a model can do without: every host pays for it every time."""
    return {
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        },
        **({"annotations": annotations} if annotations else {}),
    }


_READS: Final = {"readOnlyHint": True, "openWorldHint": False}

DEFINITIONS: Final[tuple[Mapping[str, Any], ...]] = (
    _definition(
        SEARCH_TOOLS,
        "Find the tools for one step of a task among all that you may use here. Search anew for "
        "another kind of step, and not again for a tool that you have seen.",
        properties={
            "query": {
                "type": "string",
                "description": "What is to be done, in a few words.",
            },
            "server": {"type": "string", "description": "Search this one alone."},
            "detail": {
                "enum": [detail.value for detail in Detail],
                "default": Detail.SUMMARY.value,
            },
            "limit": {
                "type": "integer",
                "maximum": MOST_HITS,
                "default": _USUAL_HITS,
            },
            "form": {
                "enum": [shape.value for shape in Shape],
                "description": "For hosts; leave it out.",
            },
            "strategy": {
                "enum": list(_STRATEGIES),
                "description": "Best left out. regex: query is RE2.",
            },
        },
        required=("query",),
        annotations=_READS,
    ),
    _definition(
        TOOL_DETAILS,
        "Get the whole definitions of tools by name. Look at each before its first call.",
        properties={
            "names": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": _MOST_NAMES,
            }
        },
        required=("names",),
        annotations=_READS,
    ),
    _definition(
        CALL_TOOL,
        "Call a tool that is not in your list, once you have seen its definition. The same is "
        "allowed and refused as in a direct call.",
        properties={
            "name": {"type": "string"},
            "arguments": {"type": "object", "description": "As its inputSchema says."},
            "definition_hash": {
                "type": "string",
                "description": "Of the definition you have read.",
            },
        },
        required=("name",),
    ),
)
"""What is listed first, for everybody alike and never changed by what is approved."""


def with_stubs(languages: Sequence[Language] = ()) -> Sequence[Mapping[str, Any]]:
    """Return the definitions where programs are run, whose authors look at tools as functions."""
    return [
        _offering_stubs(one, languages) if one["name"] == TOOL_DETAILS else one
        for one in DEFINITIONS
    ]


def _offering_stubs(details: Mapping[str, Any], languages: Sequence[Language]) -> Mapping[str, Any]:
    schema = details["inputSchema"]
    detail = {
        "enum": [form.value for form in Form],
        "default": Form.FULL.value,
        "description": f"stubs: Python functions, as programs of {RUN_CODE} call them.",
    }
    properties = {**schema["properties"], "detail": detail}
    if Language.TYPESCRIPT in languages:
        properties["language"] = {
            "enum": [one.value for one in languages],
            "default": Language.PYTHON.value,
            "description": "Of the stubs.",
        }
    return {**details, "inputSchema": {**schema, "properties": properties}}


@value
class Wanted:
    """What one search is for."""

    query: str
    server: str | None
    detail: Detail
    shape: Shape
    limit: int
    strategy: str | None


def wanted(arguments: Mapping[str, Any]) -> Wanted:
    """Return what the arguments of `search_tools` ask for.

    Raises:
        BadCommand: They are not what its definition says.

    """
    _only(arguments, "query", "server", "detail", "limit", "form", "strategy")
    query, server = arguments.get("query"), arguments.get("server")
    detail = arguments.get("detail", Detail.SUMMARY.value)
    shape = arguments.get("form", Shape.TEXT.value)
    limit, strategy = arguments.get("limit", _USUAL_HITS), arguments.get("strategy")
    if not isinstance(query, str) or not 0 < len(query) <= _LONGEST_QUERY:
        raise BadCommand(f"query must be one step in 1 to {_LONGEST_QUERY} characters")
    if not isinstance(server, str | None):
        raise BadCommand("server must be the name of a server")
    if detail not in list(Detail):
        raise BadCommand("detail must be name, summary or full")
    if shape not in list(Shape):
        raise BadCommand("form must be text or tool_reference")
    if type(limit) is not int or not 1 <= limit <= MOST_HITS:
        raise BadCommand(f"limit must be a whole number from 1 to {MOST_HITS}")
    if strategy is not None and strategy not in _STRATEGIES:
        raise BadCommand(f"strategy must be one of {', '.join(_STRATEGIES)}")
    return Wanted(
        query=query,
        server=server,
        detail=Detail(detail),
        shape=Shape(shape),
        limit=limit,
        strategy=strategy,
    )


def language_of(arguments: Mapping[str, Any], languages: Sequence[Language]) -> Language:
    """Return which of `languages` the arguments of `get_tool_details` ask for.

    Raises:
        BadCommand: One that is not there.

    """
    asked = arguments.get("language", Language.PYTHON.value)
    if not isinstance(asked, str) or asked not in {Language.PYTHON.value, *languages}:
        raise BadCommand(f"language must be {' or '.join(languages)}")
    return Language(asked)


def named(
    arguments: Mapping[str, Any], forms: Sequence[Form], languages: Sequence[Language] = ()
) -> tuple[tuple[str, ...], Form]:
    """Return the names in the arguments of `get_tool_details`, each once, and which of `forms`.

    Raises:
        BadCommand: They are not what its definition says.

    """
    offered = ["detail"] if len(forms) > 1 else []
    _only(arguments, "names", *offered, *(["language"] if len(languages) > 1 else []))
    names, form = arguments.get("names"), arguments.get("detail", Form.FULL.value)
    if form not in list(forms):
        raise BadCommand(f"detail must be {' or '.join(forms)}")
    if (
        not isinstance(names, list)
        or not 1 <= len(names) <= _MOST_NAMES
        or not all(isinstance(name, str) for name in names)
    ):
        raise BadCommand(f"names must be a list of 1 to {_MOST_NAMES} names of tools")
    return tuple(dict.fromkeys(names)), Form(form)


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

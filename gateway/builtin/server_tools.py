"""The gateway's own tools about servers: their definitions, arguments and what is told (pure)."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from gateway.domain.document import Document
from gateway.domain.tools import UpstreamId
from gateway.errors import BadCommand
from gateway.wire.operations import DISABLE_SERVER, ENABLE_SERVER, SEARCH_SERVERS

ALL: Final = frozenset({UpstreamId("*")})
"""Stands for every server, alone."""
_MOST_NAMES: Final = 100
_LONGEST_QUERY: Final = 1_000
_MOST_WORDS: Final = 32
_SUMMARY: Final = 200
"""Characters of a description."""

_SERVERS: Final = {
    "type": "array",
    "items": {"type": "string"},
    "minItems": 1,
    "maxItems": _MOST_NAMES,
    "description": "Names as search_available_servers gives them.",
}
_CHANGES: Final = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}

DEFINITIONS: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "name": SEARCH_SERVERS,
        "title": "Search available servers",
        "description": "Find the servers that you may use, whether or not their tools are shown now.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "maxLength": _LONGEST_QUERY,
                    "description": "What they should be about, in a few words; none for all.",
                }
            },
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": ENABLE_SERVER,
        "title": "Enable servers",
        "description": "Show the tools of these servers too, at once in this conversation and in "
        "those that begin later. Nothing is hidden by it; * alone stands for every server.",
        "inputSchema": {
            "type": "object",
            "properties": {"servers": _SERVERS},
            "required": ["servers"],
            "additionalProperties": False,
        },
        "annotations": {**_CHANGES, "idempotentHint": True},
    },
    {
        "name": DISABLE_SERVER,
        "title": "Disable servers",
        "description": "Hide the tools of these servers, at once in this conversation and in those "
        "that begin later; * alone stands for every server that may be hidden.",
        "inputSchema": {
            "type": "object",
            "properties": {"servers": _SERVERS},
            "required": ["servers"],
            "additionalProperties": False,
        },
        "annotations": {**_CHANGES, "idempotentHint": True},
    },
)
"""What is listed of them, for everybody alike."""


def asked_for(arguments: Mapping[str, Any]) -> str:
    """Return what the arguments of `search_available_servers` ask for; empty for everything.

    Raises:
        BadCommand: They are not what its definition says.

    """
    query = arguments.get("query", "")
    if not arguments.keys() <= {"query"}:
        raise BadCommand("the argument is query, and no other")
    if not isinstance(query, str) or len(query) > _LONGEST_QUERY:
        raise BadCommand(f"query must be a text of at most {_LONGEST_QUERY} characters")
    return query


def named_servers(arguments: Mapping[str, Any]) -> frozenset[UpstreamId]:
    """Return the names in the arguments of `enable_server` and `disable_server`.

    Raises:
        BadCommand: They are not what their definitions say.

    """
    names = arguments.get("servers")
    if (
        arguments.keys() != {"servers"}
        or not isinstance(names, list)
        or not 1 <= len(names) <= _MOST_NAMES
        or not all(isinstance(name, str) for name in names)
        or ("*" in names and len(names) > 1)
    ):
        raise BadCommand(
            f"servers must be a list of 1 to {_MOST_NAMES} names or * alone, and all there is"
        )
    return frozenset(UpstreamId(name) for name in names)


def described(itself: Document) -> Mapping[str, str]:
    """Return what a server says of itself, as a person approved it, cut short."""
    said = itself.content
    info = said.get("serverInfo")
    words = info if isinstance(info, dict) else {}
    title, description = words.get("title"), words.get("description") or said.get("instructions")
    return {
        "title": title if isinstance(title, str) else str(said.get("name", "")),
        "description": description[:_SUMMARY] if isinstance(description, str) else "",
    }


def fits(query: str, name: str, itself: Document, tools: Iterable[Document]) -> int:
    """Return how well a server fits: 1 and more, or 0. Every server fits an empty query.

    Of a longer query the first 32 words count: each is looked for in all that a server says.
    """
    words = set(islice(query.casefold().split(), _MOST_WORDS))
    if not words:
        return 1
    text = " ".join((name, *_texts(itself), *(t for tool in tools for t in _texts(tool))))
    folded = text.casefold()
    return sum(word in folded for word in words)


def _texts(document: Document) -> Iterable[str]:
    content = document.content
    info = content.get("serverInfo")
    for holder in (content, info if isinstance(info, dict) else {}):
        for member in ("name", "title", "description", "instructions"):
            text = holder.get(member)
            if isinstance(text, str):
                yield text

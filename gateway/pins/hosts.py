"""What hosts are known to refuse, drop or cut of a server's tools: a table, each row with its source.

Hosts change weekly. A row says what was observed by its date; it is not a promise of anybody's.
"""

from string import ascii_letters, digits
from typing import Literal

from gateway.domain._value import value

Level = Literal["error", "warning"]
"""An error is a tool that is lost, or takes the others with it; a warning is a tool that is worse."""


@value
class Source:
    """Who said so, and when it was read."""

    where: str
    date: str


@value
class Names:
    """What a host calls a tool, and what it does with a name that is not for it."""

    prefix: str
    """Before the tool's own name; `{server}` is what the host's user called the server."""
    longest: int
    letters: str
    """The characters that it takes."""
    source: Source
    keeps: int = 0
    """Characters at both ends that are kept of a longer name; with 0 it is refused or dropped."""


@value
class Keyword:
    """A keyword of JSON Schema that a host does not take."""

    names: tuple[str, ...]
    becomes: str
    source: Source
    level: Level = "error"
    root: bool = False
    """Whether it matters only at the root."""
    schemas: tuple[str, ...] = ("inputSchema",)
    only: Literal["", "array", "integer", "draft-07"] = ""
    """Which contents of it matter; empty for any."""


@value
class Count:
    """How many tools a host takes."""

    most: int
    becomes: str
    level: Level
    source: Source


@value
class Wanted:
    """What a host's directory or review asks each tool to say."""

    hints: tuple[str, ...]
    source: Source
    title: bool = False
    longest_description: int = 0


@value
class Host:
    """The rules of one; what is absent is not known."""

    names: Names | None = None
    keywords: tuple[Keyword, ...] = ()
    count: Count | None = None
    wanted: Wanted | None = None


_READ = "2026-11-22"
_PLAIN = f"{ascii_letters}{digits}_-"
_WASSETTE = Source(where="microsoft/wassette #56", date=_READ)
_CLAUDE_ROOT = Source(where="anthropics/claude-code #95504", date=_READ)
_COPILOT = Source(
    where="learn.microsoft.com/microsoft-copilot-studio/mcp-troubleshooting", date=_READ
)

HOSTS: dict[str, Host] = {
    "claude": Host(
        names=Names(
            prefix="mcp__{server}__",
            longest=64,
            letters=_PLAIN,
            source=Source(where="anthropics/claude-code #36921, #2326", date=_READ),
        ),
        keywords=(
            Keyword(
                names=("oneOf", "anyOf", "allOf", "if", "then", "else"),
                root=True,
                becomes="the request is refused, or the tool dropped without a word",
                source=_CLAUDE_ROOT,
            ),
            Keyword(
                names=("$schema",),
                only="draft-07",
                root=True,
                schemas=("outputSchema",),
                becomes="the tool is refused",
                source=Source(where="anthropics/claude-code #586", date=_READ),
            ),
        ),
        wanted=Wanted(
            hints=("readOnlyHint", "destructiveHint"),
            title=True,
            source=Source(where="Anthropic's directory of connectors", date=_READ),
        ),
    ),
    "openai": Host(
        names=Names(prefix="", longest=64, letters=_PLAIN, source=_WASSETTE),
        wanted=Wanted(
            hints=("readOnlyHint", "destructiveHint", "openWorldHint"),
            longest_description=200,
            source=Source(where="ChatGPT's review of apps", date=_READ),
        ),
    ),
    "gemini": Host(
        names=Names(
            prefix="mcp_{server}_",
            longest=63,
            letters=f"{_PLAIN}.:",
            keeps=30,
            source=Source(where="google-gemini/gemini-cli #20987, #28971", date=_READ),
        ),
        keywords=(
            Keyword(
                names=(
                    "additionalProperties",
                    "$schema",
                    "const",
                    "exclusiveMinimum",
                    "propertyNames",
                    "patternProperties",
                    "uniqueItems",
                    "multipleOf",
                ),
                becomes="the API refuses the request, and all other tools with this one",
                source=Source(where="danny-avila/LibreChat #13850", date=_READ),
            ),
        ),
    ),
    "copilot-studio": Host(
        keywords=(
            Keyword(names=("$ref",), becomes="the tool is left out silently", source=_COPILOT),
            Keyword(
                names=("exclusiveMinimum",),
                only="integer",
                becomes="the list ends in a FormatException",
                source=_COPILOT,
            ),
            Keyword(
                names=("type",),
                only="array",
                level="warning",
                becomes="the schema is truncated",
                source=_COPILOT,
            ),
            Keyword(
                names=("enum",),
                level="warning",
                becomes="it is read as a plain string",
                source=_COPILOT,
            ),
        ),
    ),
    "vscode": Host(
        count=Count(
            most=128,
            level="error",
            becomes="a request with more, of all servers together, is an error",
            source=Source(where="microsoft/vscode #337428", date=_READ),
        ),
    ),
    "cursor": Host(
        count=Count(
            most=40,
            level="warning",
            becomes="it long took the first 40, of all servers together",
            source=Source(where="microsoft/vscode-copilot-release #11653", date=_READ),
        ),
    ),
}
"""Every host that `douane check SERVER --for` knows."""

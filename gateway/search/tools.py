"""What of a tool can be found, and what a search answers."""

from collections.abc import Mapping
from enum import StrEnum
from itertools import islice
from typing import Any, Self

from gateway.domain._value import value
from gateway.domain.tools import Manifest

_DESCRIPTION = 8_000
"""Characters of a description; what follows is rarely about what the tool is for."""
_TITLE = 200
_PARAMETERS = 64
"""As many of a tool's, in the order of its schema."""
_PARAMETER = 64
"""Characters of a parameter's name."""
_DOCUMENTED = 200
"""Characters of what is said of one."""


class Strategy(StrEnum):
    """How a query is compared with tools."""

    KEYWORD = "keyword"
    REGEX = "regex"
    EMBEDDING = "embedding"
    HYBRID = "hybrid"


@value
class ToolText:
    """An approved tool as text. Two tools with one `digest` and one server are the same text."""

    id: str
    """Names the tool among all that are indexed; ties are broken by it."""
    server: str
    name: str
    title: str = ""
    """Cut, as all that follows: how much a definition says is for its server to choose."""
    description: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    """Pairs of a parameter's name and its description."""
    server_description: str = ""
    digest: str
    """`sha256:...` of the definition; vectors are kept under it."""

    @property
    def size(self) -> int:
        """How many characters it says about, for a pattern to look through."""
        said = sum(len(name) + len(documented) for name, documented in self.parameters)
        return len(self.name) + len(self.title) + len(self.description) + said

    @classmethod
    def of(cls, id: str, manifest: Manifest, *, server_description: str = "") -> Self:  # noqa: A002 - the field's name
        """Return what can be found of an approved definition."""
        content = manifest.definition.content
        return cls(
            id=id,
            server=manifest.target.server,
            name=manifest.target.name,
            title=_text(content.get("title"))[:_TITLE],
            description=_text(content.get("description"))[:_DESCRIPTION],
            parameters=parameters_of(content.get("inputSchema")),
            server_description=server_description,
            digest=str(manifest.digest),
        )


def parameters_of(schema: object) -> tuple[tuple[str, str], ...]:
    """Return the names and descriptions of the first top-level properties of an input schema."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return ()
    first = islice(properties.items(), _PARAMETERS)
    return tuple((str(name)[:_PARAMETER], _documented(node)) for name, node in first)


def _documented(node: Any) -> str:
    return _text(node.get("description"))[:_DOCUMENTED] if isinstance(node, Mapping) else ""


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""


@value
class Hit:
    """One tool in a ranking."""

    id: str
    score: float
    """Only comparable within one ranking."""


@value
class Ranking:
    """The best hits first, and which strategy found them; it may not be the one asked for."""

    hits: tuple[Hit, ...]
    found: int
    """How many tools there are to choose from, before the limit."""
    answered_by: Strategy

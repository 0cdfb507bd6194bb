"""What a client was told of tools before it calls them, and what an operator adds to that."""

from collections.abc import Mapping
from typing import Any

from gateway.domain._value import value
from gateway.domain.document import Document
from gateway.domain.tools import Target


@value
class Guidance:
    """What an operator says of a tool (`servers.S.tools.T.guidance` of the configuration)."""

    brief: str = ""
    """What the brief list says of it; empty for the first sentence of its description."""
    examples: tuple[Mapping[str, Any], ...] = ()
    """Arguments as they are sent."""
    usage: str = ""
    errors: str = ""

    @property
    def content(self) -> dict[str, Any]:
        """What stands beside a whole definition: as much as was said, by its names there."""
        told = {
            "examples": [dict(example) for example in self.examples],
            "usage_guidance": self.usage,
            "error_guidance": self.errors,
        }
        return {name: part for name, part in told.items() if part}


NO_GUIDANCE = Guidance()


def description_id(target: Target, definition: Document, guidance: Guidance) -> str:
    """Return what names a whole description: another one if anything of it is another.

    The brief text is no part of it: it says which tool to use, and nothing of how.
    """
    if not guidance.content:
        return f"{target} {definition.digest}"
    both = Document.of({"definition": str(definition.digest), **guidance.content})
    return f"{target} {both.digest}"


@value
class Reader:
    """Whose reading counts: one session's, or without sessions one principal's."""

    principal: str
    """`Principal.key`."""
    person: str
    """`Principal.person`: in whose share it is."""
    session: str = ""
    """The session's id as its client has it; empty in the stateless revision."""

"""What an operator tells models of one tool, beside what its server says of it."""

from typing import Annotated, Any

from pydantic import AfterValidator, StringConstraints

from gateway.config.section import Section, Word
from gateway.domain.descriptions import Guidance
from gateway.domain.document import canonical

Prose = Annotated[str, StringConstraints(min_length=1, max_length=4_000)]
Brief = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[^\r\n]+$")]


def _example(arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        canonical(arguments)
    except ValueError as error:
        raise ValueError(f"are no arguments that could be sent: {error}") from None
    return arguments


Example = Annotated[dict[Word, Any], AfterValidator(_example)]


class GuidanceSection(Section):
    brief: Brief | None = None
    """In place of the first sentence of its description, where lists are brief."""
    examples: tuple[Example, ...] = ()
    """Arguments as they are sent."""
    usage: Prose | None = None
    errors: Prose | None = None
    """What its errors mean, and what to do then."""

    @property
    def value(self) -> Guidance:
        """The domain's form."""
        return Guidance(
            brief=self.brief or "",
            examples=self.examples,
            usage=self.usage or "",
            errors=self.errors or "",
        )

"""What every section of `douane.yaml` is made of."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gateway.config.values import SecretRef

Word = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Words = tuple[Word, ...]


def written(default: Any) -> Any:
    """Give a key a default as the file would write it; it is read, and shown in the schema, so."""
    return Field(default=default)


class Section(BaseModel):
    """A mapping of known keys, frozen after it is read."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        validate_default=True,
        hide_input_in_errors=True,
    )

    @property
    def references(self) -> Iterator[SecretRef]:
        """Every secret that is referred to here or below."""
        for name in type(self).model_fields:
            yield from _references(getattr(self, name))


def _references(content: Any) -> Iterator[SecretRef]:
    if isinstance(content, SecretRef):
        yield content
    elif isinstance(content, Section):
        yield from content.references
    elif isinstance(content, Mapping):
        for inner in content.values():
            yield from _references(inner)

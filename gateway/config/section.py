"""What every section of `douane.yaml` is made of."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gateway.config.values import SecretRef

Word = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Words = tuple[Word, ...]
T = TypeVar("T")


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
        return self.all_of(SecretRef)

    def all_of(self, kind: type[T]) -> Iterator[T]:
        """Yield each value of that kind that a key here or below has for its own."""
        for name in type(self).model_fields:
            yield from _every(kind, getattr(self, name))


def _every(kind: type[T], content: Any) -> Iterator[T]:
    if isinstance(content, kind):
        yield content
    elif isinstance(content, Section):
        yield from content.all_of(kind)
    elif isinstance(content, Mapping):
        for inner in content.values():
            yield from _every(kind, inner)

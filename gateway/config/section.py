"""What every section of `douane.yaml` is made of."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

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

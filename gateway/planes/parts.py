"""The parts of a plane's configuration, however deep they stand in it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Found: TypeAlias = Mapping[str, Any]


def type_of(found: Found) -> str:
    """Return which of protobuf's messages a part is; nothing, where it does not say."""
    return str(found.get("@type", "")).rpartition("/")[2]


def within(content: Any) -> Iterator[Found]:
    """Yield every mapping in `content`, itself included."""
    if isinstance(content, Mapping):
        yield content
        for inner in content.values():
            yield from within(inner)
    elif isinstance(content, Sequence) and not isinstance(content, str):
        for inner in content:
            yield from within(inner)


def is_for_one(found: Found) -> bool:
    """Whether `found` takes tokens of one audience alone."""
    audiences = found.get("audiences")
    return (
        isinstance(audiences, Sequence) and not isinstance(audiences, str) and len(audiences) == 1
    )

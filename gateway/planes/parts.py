"""The parts of a plane's configuration, however deep they stand in it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Found: TypeAlias = Mapping[str, Any]


def type_of(found: Found) -> str:
    """Return which of protobuf's messages a part is; nothing, where it does not say."""
    return str(found.get("@type", "")).rpartition("/")[2]


def part_of(found: Found, key: str) -> Found:
    """Return what stands at `key`; an empty part, where that is none."""
    part = found.get(key)
    return part if isinstance(part, Mapping) else {}


def listed_in(found: Found, key: str) -> Sequence[Any]:
    """Return what is listed at `key`; nothing, where there is no list."""
    listed = found.get(key)
    return listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ()


def parts_in(found: Found, key: str) -> Sequence[Found]:
    """Return the parts that are listed at `key`, without what is none."""
    return [one for one in listed_in(found, key) if isinstance(one, Mapping)]


def within(content: Any) -> Iterator[Found]:
    """Yield every mapping in `content`, itself included, in the order in which they stand there."""
    waiting = [content]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += reversed(node.values())
        elif isinstance(node, list | tuple):  # YAML's pairs are tuples
            waiting += reversed(node)


def is_for_one(found: Found) -> bool:
    """Whether `found` takes tokens of one audience alone."""
    return len(listed_in(found, "audiences")) == 1

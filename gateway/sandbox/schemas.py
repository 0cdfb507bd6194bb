"""JSON Schemas of strangers, read for their types: bounded in depth and in size (pure)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.domain.drafts import version_of

_DEPTH: Final = 8
_NODES: Final = 400
"""Of one tool, references followed each time: a few lines of them can stand for billions."""
_HOPS: Final = 16
_ENUM: Final = 64
_LITERAL_CHARS: Final = 200


class Reader:
    """Reads the parts of one schema, until it has read enough."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._knows_const = not isinstance(root, dict) or version_of(root) is not None
        self._left = _NODES

    def opened(self, schema: Any, depth: int) -> Mapping[str, Any] | None:
        """Return what `schema` says, its reference followed; `None` where anything goes."""
        self._left -= 1
        if self._left < 0 or depth > _DEPTH:
            return None
        found = self._followed(schema)
        if isinstance(found, dict) and not self._knows_const:
            found = {name: held for name, held in found.items() if name != "const"}
        return found if isinstance(found, dict) and found else None

    def _followed(self, schema: Any) -> Any:
        for _ in range(_HOPS):
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if reference is None:
                return schema
            if not isinstance(reference, str) or not reference.startswith("#"):
                return None
            schema = self._root
            for part in reference[1:].split("/")[1:]:
                name = part.replace("~1", "/").replace("~0", "~")
                schema = schema.get(name) if isinstance(schema, dict) else None
        return None


def literals(schema: Mapping[str, Any]) -> Sequence[Any] | None:
    """Return the values that `const` or `enum` leave, if each can be written in a type."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list) or not 0 < len(values) <= _ENUM:
        return None
    fits = all(
        value is None
        or isinstance(value, bool | int)
        or (isinstance(value, str) and len(value) <= _LITERAL_CHARS)
        for value in values
    )
    return values if fits else None


def kind(schema: Mapping[str, Any]) -> str:
    """Return the type that `schema` names; nothing where it names no single one."""
    named = schema.get("type")
    return named if isinstance(named, str) else ""


def choices(schema: Mapping[str, Any]) -> Sequence[Any] | None:
    """Return the schemas of which one holds: of `anyOf`, of `oneOf`, or of several types."""
    for name in ("anyOf", "oneOf"):
        found = schema.get(name)
        if isinstance(found, list) and found:
            return found[:_ENUM]
    kinds = schema.get("type")
    if isinstance(kinds, list) and kinds:
        return [{**schema, "type": kind} for kind in kinds[:_ENUM]]
    return None


def members(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the members of an object by name; `None` where it is no object."""
    properties = schema.get("properties")
    named = properties if isinstance(properties, dict) else {}
    return named if schema.get("type") == "object" or named else None


def required(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the members that must be there."""
    names = schema.get("required")
    listed = names if isinstance(names, list) else []
    return frozenset(name for name in listed if isinstance(name, str))


def is_open(schema: Mapping[str, Any]) -> bool:
    """Whether an object says itself that it may have members that it does not name."""
    more = schema.get("additionalProperties", False)
    return isinstance(more, dict) or more is True

"""How much work a JSON Schema can cause: a small one may take years to check a small value."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

_HERE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
"""Keywords whose subschemas look at the same value again (JSON Schema 2020-12, core 10.2)."""

_BELOW = frozenset(
    {
        "properties", "patternProperties", "additionalProperties", "propertyNames", "items",
        "prefixItems", "additionalItems", "contains", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
"""Keywords whose subschemas look at the value's members (10.3 and 11)."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
"""RFC 6901 section 4."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_MAPPINGS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})


class Effort:
    """Counts the schemas that one value meets in the worst case, with those of its members.

    A reference counts as often as it is followed. What a value of one depth costs is worked out
    once; each schema is looked at once a level, so counting is quick however large the count is.
    """

    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._known: dict[tuple[int, int], int] = {}
        self._open: set[tuple[int, int]] = set()
        self._anchors = dict(_anchors(schema))
        self.recursive = False
        """Whether deeper values meet more schemas: known once something was counted."""

    def of(self, depth: int) -> int:
        """Return the count for a value of `depth` levels of objects and arrays."""
        return self._count(self._root, depth)

    def _count(self, schema: Any, depth: int) -> int:
        if not isinstance(schema, dict) or depth < 0:
            return 1
        key = id(schema), depth
        if key in self._known:
            return self._known[key]
        if key in self._open:
            # It refers to itself for the same value: the validator notices that, too.
            return 1
        self._open.add(key)
        count = 1
        for inner, below in self._inner(schema):
            count += self._count(inner, depth - below)
        self._open.discard(key)
        self._known[key] = count
        return count

    def _inner(self, schema: Mapping[str, Any]) -> Iterator[tuple[Any, int]]:
        for word, content in schema.items():
            if word in _HERE or word in _BELOW:
                for inner in _subschemas(word, content):
                    yield inner, int(word in _BELOW)
            elif word in _REFERENCES and isinstance(content, str):
                self.recursive = True
                yield self._target(content), 0

    def _target(self, reference: str) -> Any:
        """Return the schema of a reference inside of the document (RFC 6901), else the root.

        The root is the most that an unknown one can stand for.
        """
        pointer = reference.removeprefix("#")
        if pointer and not pointer.startswith("/"):
            return self._anchors.get(pointer, self._root)
        found = self._root
        for step in pointer.split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and _INDEX.fullmatch(name) and int(name) < len(found):
                found = found[int(name)]
            else:
                return self._root
        return found


def _subschemas(word: str, content: Any) -> Iterator[Any]:
    if isinstance(content, list):
        yield from content
    elif word in _MAPPINGS and isinstance(content, dict):
        yield from content.values()
    else:
        yield content


def _anchors(schema: Any) -> Iterator[tuple[str, Any]]:
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            for word in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(word), str):
                    yield node[word], node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node

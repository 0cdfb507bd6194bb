"""How much work a JSON Schema can cause: a small one may take years to check a small value."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any, Final
from urllib.parse import unquote

from gateway.domain.nodes import amount, objects_in
from gateway.pins.patterns import matching, open_states, patterns

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

ENDLESS = 2**64
"""The count of what does not end."""

MOST_COUNTED = 5_000
"""Steps from schema to schema in one count: some milliseconds."""

_MOST_OBJECTS = 10_000

NARROWS_NOTHING: Final = frozenset(
    {
        "$comment", "$defs", "$id", "$schema", "default", "definitions", "description", "examples",
        "title",
    }
)  # fmt: skip
"""Keywords that no value fails to satisfy, whatever they say."""
_QUOTED = ("const", "enum", "not")
"""Keywords of which all that they say is told."""
_MISMATCH = 20
"""Nodes that telling one costs, whatever it is about."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_MAPPINGS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})


class Effort:
    """Counts the schemas that one value meets in the worst case, with those of its members.

    A reference counts as often as it is followed, and a pattern as what it costs for the texts that it
    is tried on. What a value of one depth costs is worked out once; each schema is looked at once a
    level. What would take long to count counts as endless.
    """

    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._known: dict[tuple[int, int], int] = {}
        self._open: set[tuple[int, int]] = set()
        self._open_states: dict[str, int] = {}
        self._left = 0
        self._lock = Lock()
        self._anchors = dict(_anchors(schema))

    def of(self, depth: int) -> int:
        """Return the count for a value of `depth` levels of objects and arrays."""
        with self._lock:  # threads may ask at once
            self._open.clear()  # a count before may have been broken off
            self._left = MOST_COUNTED
            found = self._count(self._root, depth)
            return found if self._left > 0 else ENDLESS

    def on(self, content: Any, most: int) -> int:
        """Count the schemas that all values in `content` meet, together; no further than past `most`.

        Values that meet the same schema at the same place are counted together. Of what holds for
        some members only, all are taken to meet it; what leads to ever more schemas is endless.
        """
        return self._sum(content, most, self._meeting)

    def told(self, content: Any, most: int) -> int:
        """Count what tells all that `content` can have wrong, in nodes of JSON; no further than past `most`.

        Each mismatch is told with all of the value that it is about, of a member's name with all of the
        object; with what that is compared with; and with the names on the way there. Of alternatives
        each one's are.
        """
        each = _MISMATCH + amount("".join([*_way(content), *_way(self._root)]), most)
        return self._sum(content, most, partial(_mismatches, each=each, most=most))

    def _sum(self, content: Any, most: int, weigh: Callable[[Any, list[Any]], int]) -> int:
        found, left, waiting = 0, MOST_COUNTED, [(self._root, [content])]
        while waiting and found <= most:
            schema, values = waiting.pop()
            left -= 1
            if left < 0:
                return ENDLESS
            found += weigh(schema, values)
            if isinstance(schema, dict):
                for word, inner in schema.items():
                    waiting += self._met(word, inner, values)
        return found

    def _meeting(self, schema: Any, values: list[Any]) -> int:
        if not isinstance(schema, dict):
            return len(values)
        return len(values) * (1 + _compared(schema)) + self._matched(schema, values)

    def _met(self, word: str, content: Any, values: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
        """Yield the schemas that `word` applies, each with the values that meet it."""
        if word in _REFERENCES and isinstance(content, str):
            yield self._target(content), values
        elif word in _HERE:
            for inner in _subschemas(word, content):
                yield inner, values
        elif word == "properties" and isinstance(content, dict):
            for name, members in _named(values, content).items():
                yield content[name], members
        elif word in _BELOW:
            below = list(_members(values, named=word == "propertyNames"))
            for inner in _subschemas(word, content) if below else ():
                yield inner, below

    def _matched(self, schema: Mapping[str, Any], values: list[Any]) -> int:
        """Return what it costs to try the patterns in `schema` on the texts and names of `values`."""
        if not (found := list(patterns(schema))):
            return 0
        told_of = (one[0] if type(one) is tuple else one for one in values)
        texts = sum(_octets(one) for one in told_of if type(one) is str)
        names = sum(_octets(name) for one in values if type(one) is dict for name in one)
        return sum(self._matching(pattern, texts + names) for pattern in found)

    def _matching(self, pattern: str, octets: int) -> int:
        if (found := self._open_states.get(pattern)) is None:
            found = self._open_states[pattern] = open_states(pattern)
        return matching(found, octets)

    def _count(self, schema: Any, depth: int) -> int:
        if not isinstance(schema, dict) or depth < 0:
            return 1
        key = id(schema), depth
        if key in self._known:
            return self._known[key]
        if key in self._open:
            # It refers to itself for the same value, which means nothing (JSON Schema 2020-12, core
            # 9.4.1). A validator that notices still goes round by every way there is.
            return ENDLESS
        self._open.add(key)
        count = 1 + _compared(schema) + sum(1 + self._matching(one, 1) for one in patterns(schema))
        for inner, below in self._inner(schema):
            self._left -= 1
            if self._left <= 0:
                return ENDLESS
            count += self._count(inner, depth - below)
        self._open.discard(key)
        if self._left > 0:
            self._known[key] = count
        return count

    def _inner(self, schema: Mapping[str, Any]) -> Iterator[tuple[Any, int]]:
        for word, content in schema.items():
            if word in _HERE or word in _BELOW:
                for inner in _subschemas(word, content):
                    yield inner, int(word in _BELOW)
            elif word in _REFERENCES and isinstance(content, str):
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


def _compared(schema: Mapping[str, Any]) -> int:
    """Return how much a value is compared with that is no schema: one by one, so it counts as much."""
    options, dependent = schema.get("enum"), schema.get("dependentRequired")
    compared = len(dependent) if isinstance(dependent, dict) else 0
    if isinstance(options, list):
        compared += sum(isinstance(option, dict | list) for option in options)
    return compared


def _mismatches(schema: Any, values: list[Any], *, each: int, most: int) -> int:
    """Return what tells all that `values` can have wrong by `schema` itself, or more than `most`.

    In nodes, of which each mismatch has so many whatever value it is about.
    """
    found, told, compared = 0, 1, 0
    if isinstance(schema, dict):
        told = len(schema.keys() - NARROWS_NOTHING - {"properties"}) + _wanted(schema)
        compared = sum(amount(schema[word], most) for word in _QUOTED if word in schema)
    for one in values if told else ():
        # To tell that is to be little work, and a whole object is there for each of its names.
        if found <= most:
            found += told * (each + amount(one, most)) + compared
    return found


def _wanted(schema: Mapping[str, Any]) -> int:
    """Return how many members `schema` says an object has to have: each is missed for itself."""
    dependent = [schema.get(word) for word in ("dependentRequired", "dependencies")]
    lists = [schema.get("required")]
    lists += [names for one in dependent if isinstance(one, dict) for names in one.values()]
    return sum(len(names) for names in lists if isinstance(names, list))


def _octets(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)


def _named(values: list[Any], names: Mapping[str, Any]) -> Mapping[str, list[Any]]:
    """Return the members of the objects among `values` that have one of `names`, by name."""
    found: dict[str, list[Any]] = {}
    for one in values:
        if type(one) is dict:
            for name, inner in one.items():
                if name in names:
                    found.setdefault(name, []).append(inner)
    return found


def _members(values: list[Any], *, named: bool) -> Iterator[Any]:
    """Yield what is in the objects and arrays among `values`; if `named`, names and what they are in."""
    for one in values:
        if type(one) is dict:
            yield from ((name, one) for name in one) if named else one.values()
        elif type(one) is list and not named:
            yield from one


def _way(content: Any) -> Iterator[str]:
    """Yield the longest name on each level of `content`: no way to a value has longer ones."""
    level = [content]
    while level:
        yield max((name for name, _ in _members(level, named=True)), key=_octets, default="")
        level = list(_members(level, named=False))


def is_large(schema: Any) -> bool:
    """Whether looking at each part of `schema` would take long."""
    return next(islice(objects_in(schema), _MOST_OBJECTS, None), None) is not None


def names_itself_inside(schema: Any) -> bool:
    """Whether a part of `schema` is a document of its own, within which references lead elsewhere."""
    # Until draft 4 its name is `id`, which elsewhere is any example's.
    drafts = (node.get("$schema") for node in objects_in(schema))
    old = any(isinstance(draft, str) and "draft-04" in draft for draft in drafts)
    words = ("$id", "id") if old else ("$id",)
    inner = (node for node in objects_in(schema) if node is not schema)
    return any(isinstance(node.get(word), str) for node in inner for word in words)


def _anchors(schema: Any) -> Iterator[tuple[str, Any]]:
    for node in objects_in(schema):
        for word in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(word), str):
                yield node[word], node

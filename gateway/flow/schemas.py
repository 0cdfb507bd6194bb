"""What JSON Schemas say of the values they describe. Bounded: they come from outside."""

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from gateway.domain._value import value
from gateway.domain.document import member_path
from gateway.domain.drafts import version_of
from gateway.domain.nodes import objects_in
from gateway.flow.words import ID_FIELDS, ID_FORMATS, singular, words_of

_DEEPEST = 8
_MOST_NODES = 2048
_MOST_FIELDS = 64
_MOST_ALTERNATIVES = 64
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_FURTHER = frozenset({*_ALTERNATIVES, "$ref", "items"})
"""What says of a value what else is to hold, and is looked at itself."""


@value
class Kinds:
    """What a value may be."""

    types: frozenset[str]
    """JSON Schema's words, without `null`; those of an array's items besides `array`."""
    formats: frozenset[str]
    fixed: bool
    """It is one of a few given values, whichever of the alternatives holds."""


def kinds_of(schema: Any, root: Mapping[str, Any]) -> Kinds:
    """Return what `schema`, a part of `root`, allows at the top and as items of an array."""
    types: set[str] = set()
    formats: set[str] = set()
    given = [*islice(_with_items(schema, root), _MOST_ALTERNATIVES + 1)]
    for node in given:
        types |= _types(node)
        if isinstance(node.get("format"), str):
            formats.add(node["format"])
    ends = [node for node in given if _FURTHER.isdisjoint(node) and not _is_null(node)]
    fixed = len(ends) > 0 and len(given) <= _MOST_ALTERNATIVES and all(map(_is_fixed, ends))
    if fixed and not all("enum" in node for node in ends):
        fixed = _knows_const(root)
    return Kinds(types=frozenset(types), formats=frozenset(formats), fixed=fixed)


def _is_fixed(node: Mapping[str, Any]) -> bool:
    return "enum" in node or "const" in node


def _knows_const(root: Mapping[str, Any]) -> bool:
    """Whether `const` counts in all of `root`: to draft 4, which any part may name, it means nothing.

    Of a schema too large to be looked through that is not known.
    """
    parts = [*islice(objects_in(root), _MOST_NODES + 1)]
    return len(parts) <= _MOST_NODES and all(
        not isinstance(part.get("$schema"), str) or version_of(part) for part in parts
    )


def _is_null(node: Mapping[str, Any]) -> bool:
    return node.get("type") == "null"


def _types(node: Mapping[str, Any]) -> set[str]:
    declared = node.get("type")
    types = declared if isinstance(declared, list) else [declared]
    return {each for each in types if isinstance(each, str) and each != "null"}


def _with_items(schema: Any, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for node in _alternatives(schema, root):
        yield node
        if "items" in node:
            yield from _with_items(node["items"], root)


def _alternatives(schema: Any, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas that hold for the same value: itself, what it refers to, alternatives.

    Where a schema refers to itself they have no end: whoever asks takes only so many.
    """
    if not isinstance(schema, dict):
        return
    yield schema
    if (target := _referred(schema.get("$ref"), root)) is not None:
        yield from _alternatives(target, root)
    for word in _ALTERNATIVES:
        options = schema.get(word)
        for option in options if isinstance(options, list) else ():
            yield from _alternatives(option, root)


def _referred(reference: Any, root: Mapping[str, Any]) -> Any:
    """Return what `#/$defs/Name` stands for; nothing for any other reference."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: Any = root
    for step in reference[2:].split("/")[:_DEEPEST]:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def names_within(schema: Any, argument: str) -> frozenset[str]:
    """Return the names that `schema`, of a tool's input, gives to members of what `argument` holds.

    Of a schema too large to be read not all of them are: what it names then counts as unnamed.
    """
    found: set[str] = set()
    whole = schema if isinstance(schema, dict) else {}
    properties = whole.get("properties")
    own = properties.get(argument) if isinstance(properties, dict) else None
    waiting, left = deque([own, whole.get("$defs"), whole.get("definitions")]), _MOST_NODES
    while waiting and left > 0:
        node = waiting.popleft()
        left -= 1
        if isinstance(node, dict):
            properties = node.get("properties")
            found.update(properties if isinstance(properties, dict) else ())
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return frozenset(found)


def identifier_fields(schema: Any) -> tuple[str, ...]:
    """Return the paths of the result fields that hold identifiers, by a tool's output schema.

    `$.items[*].sender`: what the configuration calls `typed`. Free text is never among them.
    """
    if not isinstance(schema, dict):
        return ()
    found: dict[str, None] = {}
    # Breadth first: in a schema that goes round, what stands on top is not missed.
    waiting = deque([(schema, "$", "", _DEEPEST)])
    left = _MOST_NODES
    while waiting and left > 0 and len(found) < _MOST_FIELDS:
        part, path, name, depth = waiting.popleft()
        for node in islice(_alternatives(part, schema), _MOST_ALTERNATIVES):
            left -= 1
            if path != "$" and _is_identifier(node, name):
                found[path] = None
            if depth > 0 and len(waiting) < _MOST_NODES:
                waiting.extend((*below, depth - 1) for below in _below(node, path, name))
    return tuple(found)


def _below(node: Mapping[str, Any], path: str, name: str) -> Iterator[tuple[Any, str, str]]:
    """Yield the schemas of what is inside of the value at `path`, with their paths and names."""
    if "items" in node:
        yield node["items"], f"{path}[*]", name
    members = node.get("properties")
    for member, inner in members.items() if isinstance(members, dict) else ():
        below = member_path(path, member)
        # A name that needs quotes is left to people: a path says it in another way.
        if below == f"{path}.{member}":
            yield inner, below, member
    if isinstance(node.get("additionalProperties"), dict):
        yield node["additionalProperties"], f"{path}[*]", ""


def _is_identifier(node: Mapping[str, Any], name: str) -> bool:
    types = _types(node)
    if not types or types - {"string", "integer", "number"}:
        return False
    if "string" in types and (
        node.get("format") in ID_FORMATS or isinstance(node.get("enum"), list)
    ):
        return True
    words = [word for word in words_of(name) if not word.isdigit()]
    return bool(words) and singular(words[-1]) in ID_FIELDS and types != {"number"}

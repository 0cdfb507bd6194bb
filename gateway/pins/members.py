"""Names of arguments and results that could be taken for those that an approved schema gives.

A schema that allows other members, as most do, says nothing against `IBAN` beside `iban`: whoever
reviews the call reads the one, and a server that matches names loosely takes the other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gateway.domain.alike import Known, Room, alike, twin
from gateway.domain.nodes import objects_in
from gateway.domain.paths import Path, selected

_MOST_NODES = 50_000
"""Parts of a schema that are looked at for one message; of more, names that are alike are refused."""
_SAME = ("allOf", "anyOf", "oneOf")
_BRANCHES = ("if", "then", "else", "not")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ITEMS = ("items", "additionalItems", "contains", "unevaluatedItems")
_MAPS = ("additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties")


class Members:
    """The names in one approved schema, by where they stand."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._all = Known.of(every_property(schema))
        self._are_distinct = twin(self._all.names) is None
        """Whether no reader takes two of its names for one, wherever they stand."""

    def confused(self, content: Any, labelled: Sequence[str] = ()) -> str | None:
        """Return a name in `content` that could be taken for another one, or nothing.

        That is one that is alike to a property that the schema has at that place, or to a
        `labelled` name at the top, and is none; or the second of two. At the top no two names are
        alike, unless the schema says that it is a map of names that it does not know.
        """
        is_object = isinstance(content, dict)
        # As nearly all are: names that it knows, and no two of them are alike.
        is_plain = self._are_distinct and all(
            each.keys() <= self._all.names for each in objects_in(content)
        )
        if is_plain and not (labelled and is_object):
            return None
        room = Room()
        if labelled and is_object and (name := Known.of(labelled).confused(content, room)):
            return name
        if is_plain:
            return None
        if (
            is_object
            and (name := twin(content, room)) is not None
            and not self._walk(room).is_map(content)
        ):
            return name
        if all(self._all.confused(members, room) is None for members in objects_in(content)):
            return None
        return self._walk(room).somewhere(content)

    def _walk(self, room: Room) -> "_Walk":
        # Its own for each message: several may be looked through at once, in threads.
        return _Walk(self._schema, self._all, room)


class _Place:
    """What a schema says of all values that stand where the same parts of it may hold."""

    def __init__(self, here: list[dict[str, Any]], known: Known, named: frozenset[str]) -> None:
        self.here = here
        self.known = known
        self.named = named
        """Members of which it says something of their own; of all others it says the same."""
        self.below: dict[str | None, _Place] = {}
        """Where their values stand; those of the others by `None`."""
        self.within: _Place | None = None
        """Where items stand."""


class _Walk:
    """One walk through a schema, which ends."""

    def __init__(self, schema: Any, every: Known, room: Room) -> None:
        self._schema = schema
        self._all = every
        self._room = room
        self._left = _MOST_NODES
        self._places: dict[tuple[int, ...], _Place] = {}

    def somewhere(self, content: Any) -> str | None:
        waiting = [(content, self._place([self._schema]))]
        while waiting:
            node, place = waiting.pop()
            if isinstance(node, dict):
                known = place.known if self._left else self._all
                if (name := known.confused(node, self._room)) is not None:
                    return name
                waiting += [
                    (inner, self._below(place, name))
                    for name, inner in node.items()
                    if isinstance(inner, dict | list)
                ]
            elif isinstance(node, list):
                waiting += [(inner, self._within(place)) for inner in node]
        return None

    def _place(self, schemas: Iterable[Any]) -> _Place:
        """Return where `schemas` hold: looked through once, however many values stand there."""
        parts = {id(one): one for one in schemas if isinstance(one, dict)}
        found = self._places.get(key := tuple(parts))
        if found is None:
            here = self._applied(parts.values())
            known = Known.of(name for one in here for name in _properties(one))
            named = frozenset(name for one in here for name in _mapping(one.get("properties")))
            self._spend(len(known.names))
            found = self._places[key] = _Place(here, known, named)
        return found

    def _below(self, place: _Place, name: str) -> _Place:
        if not self._left:
            return place  # nobody asks any more what is known there
        known = name if name in place.named else None
        found = place.below.get(known)
        if found is None:
            self._spend(len(place.here))
            found = place.below[known] = self._place(_below(place.here, name))
        return found

    def _within(self, place: _Place) -> _Place:
        if place.within is None:
            inner = [one[word] for one in place.here for word in _ITEMS if word in one]
            inner += [part for one in place.here for part in _list(one.get("prefixItems"))]
            inner += [part for part in inner if isinstance(part, list) for part in part]
            place.within = self._place(inner)
        return place.within

    def _spend(self, parts: int) -> None:
        self._left = max(0, self._left - parts)

    def is_map(self, content: dict[str, Any]) -> bool:
        here = self._applied([self._schema])
        known = {alike(name) for one in here for name in _properties(one)}
        open_ = any(isinstance(one.get(word), dict) for one in here for word in _MAPS)
        whatever = not known and any(one.get("additionalProperties") is True for one in here)
        return (open_ or whatever) and twin(
            (name for name in content if not self._room.has(name) or alike(name) in known),
            self._room,
        ) is None

    def _applied(self, schemas: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the schemas that may hold for one value: these, what they refer to, alternatives."""
        waiting, seen, found = list(schemas), set[int](), []
        while waiting and self._left:
            node = waiting.pop()
            if not isinstance(node, dict) or id(node) in seen:
                continue
            self._left -= 1
            seen.add(id(node))
            found.append(node)
            for word in _SAME:
                waiting += _list(node.get(word))
            waiting += [node.get(word) for word in _BRANCHES]
            waiting += _values(node.get("dependentSchemas"))
            waiting += [self._referred(node.get(word)) for word in _REFERENCES]
        return found

    def _referred(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found: Any = self._schema
        for step in filter(None, reference[1:].split("/")):
            plain = step.replace("~1", "/").replace("~0", "~")
            found = found.get(plain) if isinstance(found, dict) else None
        if found is None:
            self._left = 0  # an anchor: where it leads is not looked for
        return found


def astray(document: Any, path: Path) -> str | None:
    """Return a name in `document` that could be taken for a step of `path` and is none, or nothing."""
    room = Room()
    for at, step in enumerate(path):
        if not isinstance(step, str):
            continue
        holders = [document] if at == 0 else [n[k] for n, k in selected(document, path[:at])]
        known = Known.of((step,))
        for holder in holders:
            if isinstance(holder, dict) and (name := known.confused(holder, room)) is not None:
                return name
    return None


def _properties(schema: Mapping[str, Any]) -> Iterator[str]:
    properties = schema.get("properties")
    yield from properties if isinstance(properties, dict) else ()
    yield from (name for name in _list(schema.get("required")) if isinstance(name, str))


def _below(schemas: list[dict[str, Any]], name: str) -> list[Any]:
    """Return the schemas of member `name`; of patterns all, for which of them match is not asked."""
    found: list[Any] = []
    for one in schemas:
        properties = one.get("properties")
        if isinstance(properties, dict) and name in properties:
            found.append(properties[name])
        else:
            found += [one.get("additionalProperties"), one.get("unevaluatedProperties")]
            found += _values(one.get("patternProperties"))
    return found


def every_property(schema: Any) -> Iterator[str]:
    """Yield each name that `schema` gives to a member, wherever it stands."""
    for node in objects_in(schema):
        yield from _properties(node)


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _mapping(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _values(found: Any) -> list[Any]:
    return list(_mapping(found).values())

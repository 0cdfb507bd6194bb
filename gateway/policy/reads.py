"""Which parts of its input a policy reads: two questions that agree there have one answer."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Self

import orjson

from gateway.domain._value import value
from gateway.policy.builtins import VARYING
from gateway.policy.lint import Module

Path = tuple[str, ...]


class _Everything(Exception):
    """The policy uses its input in a way that cannot be followed."""


@value
class Reads:
    """The members of the input that a policy reads, each with all that is below it."""

    paths: tuple[Path, ...]

    def at(self, places: Collection[Path]) -> Self:
        """Return what is read of what stands at or below one of `places`."""
        return type(self)(
            paths=tuple(
                path
                for path in self.paths
                if any(path[: len(place)] == place[: len(path)] for place in places)
            )
        )

    def below(self, name: str) -> frozenset[str] | None:
        """Return which members of the member `name` are read; `None` if it is as a whole."""
        if (name,) in self.paths:
            return None
        return frozenset(path[1] for path in self.paths if path[0] == name)

    def found(self, question: Mapping[str, Any]) -> list[list[Any] | None]:
        """Return what of `question` is read, in a list each: null is not the same as nothing."""
        found: list[list[Any] | None] = []
        for path in self.paths:
            node: Any = question
            for name in path:
                if not isinstance(node, dict) or name not in node:
                    found.append(None)
                    break
                node = node[name]
            else:
                found.append([node])
        return found

    def key(self, question: Mapping[str, Any]) -> bytes:
        """Return the same bytes for questions that the policy cannot tell apart."""
        return orjson.dumps(self.found(question))


def reads_of(modules: Iterable[Module]) -> Reads | None:
    """Return what a policy reads, or `None` if its answer may depend on anything at all.

    That is so if it takes or replaces the input as a whole, reaches into it by a computed name, or
    calls a built-in that does not always answer alike.
    """
    found: set[Path] = set()
    try:
        for module in modules:
            found |= set(_paths(module.tree))
    except _Everything:
        return None
    least = (path for path in found if not any(path[:n] in found for n in range(1, len(path))))
    return Reads(paths=tuple(sorted(least)))


def _paths(node: Any) -> Iterator[Path]:
    if isinstance(node, list | tuple):
        for inner in node:
            yield from _paths(inner)
    elif isinstance(node, dict):
        if _is_input(node):
            raise _Everything
        if node.get("type") == "ref":
            yield from _of_reference(node["value"])
        else:
            for inner in node.values():
                yield from _paths(inner)


def _of_reference(parts: list[Mapping[str, Any]]) -> Iterator[Path]:
    names = [part["value"] for part in parts if part.get("type") in {"var", "string"}]
    if ".".join(map(str, names)) in VARYING:
        raise _Everything
    if _is_input(parts[0]):
        path = tuple(_static(parts[1:]))
        if not path:
            raise _Everything
        yield path
        parts = parts[1:]
    # What is called, made or taken apart at the head may read the input as well, and so may what stands in brackets.
    yield from _paths(parts)


def _is_input(part: Mapping[str, Any]) -> bool:
    return part.get("type") == "var" and part.get("value") == "input"


def _static(parts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for part in parts:
        if part.get("type") != "string":
            return
        yield part["value"]

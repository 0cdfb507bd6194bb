"""Arguments and results against the JSON Schemas that a person approved, in bounded time."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, NoReturn

import jsonschema_rs

from gateway.domain._value import value
from gateway.domain.document import member_path
from gateway.domain.nodes import objects_in
from gateway.pins.effort import ENDLESS, Effort, is_large, names_itself_inside
from gateway.pins.lookaheads import looked_ahead
from gateway.pins.members import every_property
from gateway.pins.patterns import takes_long_to_make
from gateway.pins.visible import visible

MOST_EFFORT = 20_000
"""Schemas that one value may meet. The largest known real tool stays below 1,000."""

MOST_WORK = 300_000
"""Schemas that all of a message's values may meet: some tens of milliseconds at the very worst. As
long as it checks, the library lets nobody else have the interpreter, in whatever thread."""

_QUICK_WORK = 50_000
"""So many are met in some milliseconds."""

_MOST_TOLD = 200_000
"""Nodes of JSON: the library finds all mismatches, and copies what each of them is about, before it
tells the first one. Some tens of milliseconds."""

_SHALLOW = 4
_DEEP = 128
"""Levels that no message has."""

_MOST_PROBLEMS = 5
_LONGEST_NAME = 128
_LINEAR = jsonschema_rs.RegexOptions(size_limit=8 * 1024**2, dfa_size_limit=128 * 1024)
"""Patterns take time linear in the text: no lookaround, no backreference, no backtracking. In bytes,
what one is compiled to, and what the engine remembers of it while it goes through a text."""


_UNTOLD = "too large to be told where: try it with less"
_UNCHECKED = {"regex": lambda _: True}
"""A format of the older drafts, for which each value would be compiled, however large that becomes."""


class UnusableSchema(ValueError):
    """A schema by which nothing can be checked; the text says why."""


@value
class Problem:
    """Where a value is not what the schema asks for.

    It quotes the names that the schema gives to members. Any other is data, as the value is: `[*]`.
    """

    path: str
    keyword: str
    """The schema's word that is not satisfied: `type`, `required`."""
    expected: str
    """What the schema says there, where that is short: `string`."""

    def __str__(self) -> str:
        told = f" ({self.expected})" if self.expected else ""
        return f"{self.path}: does not satisfy {self.keyword}{told}"


class SchemaCheck:
    """A schema, made ready. Without `$schema` it is of 2020-12 (MCP 2026-07-28, schemas)."""

    def __init__(self, schema: Any) -> None:
        """Make `schema` ready; nothing is fetched, whatever it refers to.

        Raises:
            UnusableSchema: It is no valid schema of a known draft, refers to something outside,
                has a pattern that may take unbounded time, or can cause too much work.

        """
        if not isinstance(schema, dict):
            raise UnusableSchema("it is no object")
        if is_large(schema):
            raise UnusableSchema("it is too large to be looked through")
        if names_itself_inside(schema):
            raise UnusableSchema("a part of it is a document of its own")
        if takes_long_to_make(schema):
            raise UnusableSchema("its patterns would take too long to be made ready")
        self._schema = schema = looked_ahead(schema)
        self._effort = Effort(schema)
        if _count(self._effort, _SHALLOW) > MOST_EFFORT:
            raise UnusableSchema("checking a value by it could take too long")
        try:
            self._validator = jsonschema_rs.validator_for(
                schema, retriever=_fetch_nothing, pattern_options=_LINEAR, formats=_UNCHECKED
            )
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise UnusableSchema(
                "it is no schema of a known draft, or a pattern in it is too large"
            ) from error

    def fits(self, content: Any, size: int) -> bool:
        """Whether `content` is as the schema says, and that is told in some milliseconds.

        `size` is as `problems` has it, which tells the rest, and may take longer: to count, too.
        """
        # Every value is at least two bytes of text.
        return self._most * size <= 2 * _QUICK_WORK and bool(self._validator.is_valid(content))

    def problems(self, content: Any, size: int) -> tuple[Problem, ...]:
        """Return at most five of the places where `content` is not as the schema says.

        `size` is the length in bytes of the JSON text that `content` came from.
        """
        # Every value is at least two bytes of text, so most messages need no counting.
        if self._most * size >= MOST_WORK and self._effort.on(content, MOST_WORK) > MOST_WORK:
            return (Problem(path="$", keyword="size", expected="too much to check"),)
        if self._validator.is_valid(content):
            return ()
        if self._effort.told(content, _MOST_TOLD) > _MOST_TOLD:
            return (self._first(content),)
        found = self._validator.iter_errors(content)
        return tuple(map(self._problem, islice(found, _MOST_PROBLEMS)))

    @cached_property
    def _named(self) -> frozenset[str]:
        return frozenset(every_property(self._schema))

    @cached_property
    def _most(self) -> int:
        # Not before it is asked for: of what nobody has approved, nothing is checked.
        return _count(self._effort, _DEEP)

    @cached_property
    def _has_alternatives(self) -> bool:
        return any("anyOf" in node or "oneOf" in node for node in objects_in(self._schema))

    def _first(self, content: Any) -> Problem:
        try:
            # Of alternatives none of which fits, all that is wrong by each is in the first mismatch.
            if not self._has_alternatives:
                self._validator.validate(content)
        except jsonschema_rs.ValidationError as error:
            return self._problem(error)
        return Problem(path="$", keyword="the schema", expected=_UNTOLD)

    def _problem(self, error: jsonschema_rs.ValidationError) -> Problem:
        path = "$"
        for step in error.instance_path:
            if isinstance(step, int):
                path = f"{path}[{step}]"
            elif step in self._named:
                path = member_path(path, visible(step[:_LONGEST_NAME]))
            else:
                # Whoever wrote the value chose it: the text may be told to those who may not see that.
                path += "[*]"
        keyword = next(_words(error), "the schema")
        return Problem(path=path, keyword=keyword, expected=_expected(error.kind.as_dict()))


def _count(effort: Effort, depth: int) -> int:
    try:
        return effort.of(depth)
    except RecursionError:
        # Hundreds of references that lead to one another: no tool has a reason for them.
        return ENDLESS


def _fetch_nothing(_: str) -> NoReturn:
    raise ValueError("nothing outside of the definition is fetched")


def _words(error: jsonschema_rs.ValidationError) -> Iterator[str]:
    for step in reversed(error.schema_path):
        if isinstance(step, str):
            yield visible(step[:_LONGEST_NAME])


def _expected(kind: Mapping[str, Any]) -> str:
    """Return the schema's own word of what is missing or wanted; nothing that the caller sent."""
    told = kind.get("property", kind.get("type", kind.get("types", "")))
    words = told if isinstance(told, list | tuple) else [told]
    return visible(", ".join(str(word) for word in words)[:_LONGEST_NAME])

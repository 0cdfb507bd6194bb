"""Patterns that look ahead first, said in JSON Schema's own words, for an engine that cannot (pure).

`^(?!A)(?=B)C` fits what `^C` fits, what `^(?:B)` fits and what `^(?:A)` does not (ECMA-262 section
22.2.2.4). So Zod says what a mail address is, and what a host is called.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.pins.nested import NAMED

_SIGN = re.compile(r"\\.?|\[(?:\\.?|[^\]\\])*+\]?|.", re.DOTALL)
"""Of a pattern, one at a time: an escape and a class are one."""
_EMPTY_CLASS = ("[]", "[^]")
"""Where one ends, engines do not agree."""
_CONTENT: Final = frozenset({"const", "enum", "default", "examples"})
"""Keywords that hold values and no schemas."""


def looked_ahead(schema: Any, *, is_named: bool = False) -> Any:
    """Return `schema` without patterns that look ahead first, where they can be said otherwise.

    It is the very same where there are none. If `is_named`, it is no schema, but holds some by
    names of their author's own, which are no keywords.
    """
    if isinstance(schema, list):
        items = [looked_ahead(item) for item in schema]
        return items if any(a is not b for a, b in zip(items, schema, strict=True)) else schema
    if not isinstance(schema, dict):
        return schema
    inner = {
        n: looked_ahead(held, is_named=n in NAMED and not is_named)
        for n, held in schema.items()
        if is_named or n not in _CONTENT
    }
    whole = {**schema, **inner} if any(inner[n] is not schema[n] for n in inner) else schema
    return whole if is_named else _said_otherwise(whole)


def _said_otherwise(node: Mapping[str, Any]) -> Mapping[str, Any]:
    pattern, every = node.get("pattern"), node.get("allOf", [])
    if not isinstance(pattern, str) or not isinstance(every, list):
        return node
    parts = [*_parts(pattern)]
    if len(parts) < 2:  # noqa: PLR2004 - what is left is one, and nothing was ahead of it
        return node
    *ahead, (_, rest) = parts
    return {**node, "pattern": f"^{rest}", "allOf": [*every, *(_schema(*one) for one in ahead)]}


def _schema(is_wanted: bool, body: str) -> Mapping[str, Any]:
    pattern = f"^(?:{body})"
    # What is no string fits every pattern, and must not fail for that.
    return {"pattern": pattern} if is_wanted else {"not": {"type": "string", "pattern": pattern}}


def _parts(pattern: str) -> Iterator[tuple[bool, str]]:
    """Yield what `pattern` looks ahead for, wanted or not, and what is left of it; else nothing."""
    if not pattern.startswith(("^(?!", "^(?=")) or any(one in pattern for one in _EMPTY_CLASS):
        return
    at, found = 1, []
    while pattern.startswith(("(?!", "(?="), at):
        end = next((end for _, end, depth in _signs(pattern, at) if depth == 0), None)
        if end is None or pattern[end : end + 1] in tuple("*+?{"):
            return
        found.append((pattern[at + 2] == "=", pattern[at + 3 : end - 1]))
        at = end
    rest = pattern[at:]
    # Of branches of its own only the first would stand behind the `^`.
    if not any(sign == "|" and depth == 0 for sign, _, depth in _signs(rest, 0)):
        yield from found
        yield True, rest


def _signs(pattern: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Yield each sign, where it ends, and in how many groups what follows it is."""
    depth = 0
    for sign in _SIGN.finditer(pattern, at):
        depth += (sign[0] == "(") - (sign[0] == ")")
        yield sign[0], sign.end(), depth

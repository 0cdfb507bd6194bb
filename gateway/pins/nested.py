"""The schemas inside of a schema, and what a rule about a keyword is about in one of them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.pins.hosts import Keyword

NAMED: Final = (
    "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties",
)  # fmt: skip
"""Keywords whose members have names of the author's own, each a schema."""
_CONTENT = ("const", "enum", "default", "examples", "required")
"""Keywords that hold values and no schema: what looks like a keyword in them is none."""
_INWARD = re.compile(r"#(?:/(?:\$defs|definitions|properties)/[^/%]*|/(?:items|anyOf/[0-9]+))*")


def schemas_in(schema: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every schema inside of one, with its path. No recursion: depth is its author's choice."""
    waiting = [(path, schema)]
    while waiting:
        path, schema = waiting.pop()
        if isinstance(schema, list | tuple):
            waiting += [(f"{path}[{number}]", inner) for number, inner in enumerate(schema)]
        elif isinstance(schema, Mapping):
            yield path, schema
            for name, inner in schema.items():
                if name in NAMED and isinstance(inner, Mapping):
                    waiting += [(f"{path}.{name}.{own}", each) for own, each in inner.items()]
                elif name not in _CONTENT:
                    waiting.append((f"{path}.{name}", inner))


def leads_astray(schema: Mapping[str, Any]) -> bool:
    """Whether its `$ref` may lead to what is no schema for `schemas_in`: a default, or a map of names."""
    return not _INWARD.fullmatch(str(schema.get("$ref", "#")))


def matters(rule: Keyword, content: Any) -> bool:
    """Whether `content`, under a keyword of `rule`, is what it is about."""
    match rule.only:
        case "array":
            return isinstance(content, list | tuple)
        case "integer":
            return isinstance(content, int) and not isinstance(content, bool)
        case "draft-07":
            return isinstance(content, str) and "draft-07" in content
        case _:
            return True

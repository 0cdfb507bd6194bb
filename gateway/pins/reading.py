"""A definition as somebody reads it who has never seen it, and is to approve it."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from gateway.domain._value import value
from gateway.domain.drafts import NEWEST, REFERRED_ALONE, version_of
from gateway.domain.tools import Kind, Manifest
from gateway.pins.effort import NARROWS_NOTHING
from gateway.pins.visible import visible

_MOST_PARTS = 200
"""More parameters a person does not read; how many there are beside them is told."""
_MOST_ALTERNATIVES = 8
_DEEPEST_TYPE = 3
_NEW_IN = (
    ("draft-06", frozenset({"const", "contains", "propertyNames"})),
    ("draft-07", frozenset({"if", "then", "else"})),
    (
        "2019-09",
        frozenset({"dependentRequired", "dependentSchemas", "maxContains", "minContains"})
        | frozenset({"unevaluatedItems", "unevaluatedProperties"}),
    ),
    ("2020-12", frozenset({"prefixItems"})),
)
"""Which version of JSON Schema was the first in which these keywords say anything, oldest first."""
_MEANS_NOTHING = "means nothing in its version of JSON Schema: "

_TOLD_FIRST = ("title", "description", "instructions")
_TOLD_OF_TOOL = frozenset({"name", "inputSchema", "outputSchema", "annotations"})


@value
class Part:
    """One thing that a definition says, safe to print on one line."""

    name: str
    """`description`, `parameter to`, `annotation readOnlyHint`: made visible."""
    text: str
    """Whole, and made visible; how much of it fits a screen is for whoever prints it."""
    said: str = ""
    """What the definition says of it in words, made visible."""


def parts_of(manifest: Manifest) -> tuple[Part, ...]:
    """Return what `manifest` says, in the order in which a reviewer wants to know it.

    Its texts come first, then its parameters with their types, what it returns and its
    annotations. Nothing is left out unsaid: a member without words of its own is at least named.
    """
    content = manifest.definition.content
    parts = [*_texts(content)]
    match manifest.target.kind:
        case Kind.TOOL:
            parts += [*_parameters(content.get("inputSchema")), *_returned(content)]
            parts += _annotations(content.get("annotations"))
            parts += _others(content, _TOLD_OF_TOOL)
        case Kind.PROMPT:
            parts += _arguments(content.get("arguments"))
            parts += _others(content, frozenset({"name", "arguments"}))
        case _:
            parts += _others(content, frozenset({"name"}))
    return tuple(parts)


def _texts(content: Mapping[str, Any]) -> Iterator[Part]:
    for name in _TOLD_FIRST:
        if isinstance(content.get(name), str):
            yield Part(name=name, text=visible(content[name]))


def _parameters(schema: Any) -> Iterator[Part]:
    if not isinstance(schema, dict):
        return
    version = version_of(schema)
    counting = _counting(schema, version)
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    for name in list(properties)[:_MOST_PARTS]:
        needed = ", required" if name in required else ""
        told = "" if "properties" in counting else _MEANS_NOTHING
        told += f"{_type(properties[name], version)}{needed}"
        yield _part(f"parameter {name}", told, properties[name])
    if (more := len(properties) - _MOST_PARTS) > 0:
        yield Part(name="parameters", text=f"and {more} more")
    if not properties:
        yield Part(name="parameters", text="none")
    beside = [name for name in schema if name not in {"type", "properties", "required", "$schema"}]
    if schema.get("additionalProperties") is False:
        beside.remove("additionalProperties")
    for name in beside:
        told = "" if name in counting or name in NARROWS_NOTHING else _MEANS_NOTHING
        yield Part(name=visible(f"parameters' {name}"), text=told + _short(schema[name]))


def _arguments(arguments: Any) -> Iterator[Part]:
    for each in arguments[:_MOST_PARTS] if isinstance(arguments, list) else ():
        if isinstance(each, dict):
            needed = "required" if each.get("required") is True else "optional"
            yield _part(f"argument {each.get('name')}", needed, each)


def _returned(content: Mapping[str, Any]) -> Iterator[Part]:
    if "outputSchema" in content:
        yield Part(name="returns", text=visible(_type(content["outputSchema"])))


def _annotations(annotations: Any) -> Iterator[Part]:
    if not isinstance(annotations, dict):
        return
    for name, content in annotations.items():
        yield Part(name=visible(f"annotation {name}"), text=_short(content))


def _others(content: Mapping[str, Any], told: frozenset[str]) -> Iterator[Part]:
    for name in content:
        if name in told or (name in _TOLD_FIRST and isinstance(content[name], str)):
            continue
        yield Part(name=visible(name), text=_short(content[name]))


def _part(name: str, told: str, schema: Any) -> Part:
    text = schema.get("description") if isinstance(schema, dict) else None
    said = visible(text) if isinstance(text, str) else ""
    return Part(name=visible(name), text=visible(told), said=said)


def _written(content: Any) -> str:
    return orjson.dumps(content).decode()


def _short(content: Any) -> str:
    return visible(content if isinstance(content, str) else _written(content))


def _counting(schema: Mapping[str, Any], version: str | None) -> Mapping[str, Any]:
    """Return `schema` without keywords that mean nothing in its `version`, or where they stand."""
    if (version is None or version in REFERRED_ALONE) and "$ref" in schema:
        return {"$ref": schema["$ref"]}
    known = [since for since, _ in _NEW_IN]
    later = known[known.index(version) + 1 if version else 0 :]
    unknown = frozenset[str]().union(*(words for since, words in _NEW_IN if since in later))
    return {name: held for name, held in schema.items() if name not in unknown}


def _type(schema: Any, version: str | None = NEWEST, depth: int = 0) -> str:
    """Return what a schema lets pass, as programmers say it: `array of string or null`.

    `version` is that of what is around it.
    """
    if not isinstance(schema, dict):
        return "anything" if schema is not False else "nothing"
    version = version_of(schema, version)
    schema = _counting(schema, version)
    if "const" in schema:
        return _written(schema["const"])
    if isinstance(schema.get("enum"), list):
        return _any_of(list(map(_written, schema["enum"])))
    if isinstance(schema.get("$ref"), str):
        return str(schema["$ref"].rsplit("/", 1)[-1])
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            return _any_of([_type(each, version, depth + 1) for each in schema[word]])
    named = schema.get("type")
    types = named if isinstance(named, list) else [named]
    return _any_of([_simple(each, schema, version, depth) for each in types])


def _any_of(alternatives: list[str]) -> str:
    told = list(dict.fromkeys(alternatives))
    more = len(told) - _MOST_ALTERNATIVES
    if more > 0:
        told[_MOST_ALTERNATIVES:] = [f"{more} more"]
    return " or ".join(told) or "nothing"


def _simple(name: Any, schema: Mapping[str, Any], version: str | None, depth: int) -> str:
    if name == "array" and depth < _DEEPEST_TYPE:
        return f"array of {_type(schema.get('items', True), version, depth + 1)}"
    properties = schema.get("properties")
    if name == "object" and isinstance(properties, dict) and properties and depth < _DEEPEST_TYPE:
        names = list(properties)[:_MOST_ALTERNATIVES]
        more = ", ..." if len(properties) > len(names) else ""
        return f"object {{{', '.join(names)}{more}}}"
    if not isinstance(name, str):
        return "anything"
    form = schema.get("format")
    return f"{name} ({form})" if name == "string" and isinstance(form, str) else name

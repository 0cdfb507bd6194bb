"""What a reviewer is told that a definition takes is what it takes, by its own version of JSON Schema."""

from typing import Any

import jsonschema_rs
import pytest

from gateway.pins.reading import parts_of
from tests.pins.pin_builders import definition, manifest

DRAFT = "http://json-schema.org/draft-0{}/schema#"
NOTHING = "means nothing in its version of JSON Schema: "
NEW = "https://json-schema.org/draft/2020-12/schema"


def told(schema: Any, **more: Any) -> dict[str, str]:
    read = parts_of(manifest(definition(inputSchema=schema, **more)))
    return {part.name: part.text for part in read}


@pytest.mark.parametrize(
    ("version", "schema", "text"),
    [
        (None, {"type": "string", "const": "x"}, '"x"'),
        (NEW, {"type": "string", "const": "x"}, '"x"'),
        (DRAFT.format(6), {"type": "string", "const": "x"}, '"x"'),
        (DRAFT.format(4), {"type": "string", "const": "x"}, "string"),
        (DRAFT.format(4), {"const": "x"}, "anything"),
        (DRAFT.format(4), {"enum": ["x"], "const": "y"}, '"x"'),
        (DRAFT.format(4), {"anyOf": [{"const": "x"}, {"type": "null"}]}, "anything or null"),
        (DRAFT.format(4), {"type": "array", "items": {"const": 1}}, "array of anything"),
        (NEW, {"$schema": DRAFT.format(4), "type": "string", "const": "x"}, "string"),
        (DRAFT.format(4), {"$schema": NEW, "type": "string", "const": "x"}, '"x"'),
        # Beside a reference nothing counted until 2019-09.
        (NEW, {"$ref": "#/$defs/any", "const": "x"}, '"x"'),
        (DRAFT.format(7), {"$ref": "#/$defs/any", "const": "x"}, "any"),
        (DRAFT.format(4), {"$ref": "#/$defs/any", "enum": ["x"]}, "any"),
    ],
)
def test_a_value_is_told_as_fixed_where_it_is(version: str | None, schema: Any, text: str) -> None:
    whole: dict[str, Any] = {"properties": {"a": schema}, "$defs": {"any": {}}}
    whole |= {} if version is None else {"$schema": version}
    assert told(whole)["parameter a"] == text
    takes = jsonschema_rs.validator_for(whole)
    other = ["another"] if text.startswith("array") else "another"
    assert takes.is_valid({"a": other}) is (not text.startswith('"'))
    if text.startswith('"'):
        assert takes.is_valid({"a": "x"})


def test_what_is_returned_is_told_alike() -> None:
    schema = {"$schema": DRAFT.format(4), "type": "string", "const": "x"}
    assert told({}, outputSchema=schema)["returns"] == "string"
    assert told({}, outputSchema={"const": "x"})["returns"] == '"x"'
    assert told({}, outputSchema=True)["returns"] == "anything"


@pytest.mark.parametrize(
    ("word", "until", "since"),
    [
        ("propertyNames", 4, 6),
        ("if", 6, 7),
        ("dependentRequired", 7, None),
        ("unevaluatedProperties", 7, None),
    ],
)
def test_a_keyword_that_its_version_does_not_have_is_told_to_mean_nothing(
    word: str, until: int, since: int | None
) -> None:
    schema = {word: {}, "title": "t", "definitions": {}}
    old = told({**schema, "$schema": DRAFT.format(until)})
    new = told(schema if since is None else {**schema, "$schema": DRAFT.format(since)})
    assert old[f"parameters' {word}"] == NOTHING + "{}"
    assert new[f"parameters' {word}"] == "{}"
    assert old["parameters' title"] == "t"


def test_what_stands_beside_a_reference_is_told_to_mean_nothing() -> None:
    beside = {"$ref": "#/definitions/a", "required": ["b"], "properties": {"b": {"type": "string"}}}
    schema = {**beside, "definitions": {"a": {}}}
    old = told({**schema, "$schema": DRAFT.format(7)})
    assert old["parameter b"] == f"{NOTHING}string, required"
    assert old["parameters' $ref"] == "#/definitions/a"
    assert old["parameters' definitions"] == '{"a":{}}'
    assert told(schema)["parameter b"] == "string, required"

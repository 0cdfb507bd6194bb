"""Values against approved schemas: what is told of a mismatch, and what is too much work."""

import json
from typing import Any

import pytest

from gateway.pins.effort import Effort
from gateway.pins.schemas import MOST_EFFORT, SchemaCheck, UnusableSchema

MAIL = {
    "type": "object",
    "properties": {
        "to": {"type": "array", "items": {"type": "string", "maxLength": 20}},
        "urgent": {"type": ["boolean", "null"]},
    },
    "required": ["to"],
    "additionalProperties": False,
}


def problems(schema: Any, content: Any) -> list[str]:
    size = len(json.dumps(content))
    return [str(problem) for problem in SchemaCheck(schema).problems(content, size)]


def test_what_fits_has_no_problems():
    assert problems(MAIL, {"to": ["emma@example.com"], "urgent": None}) == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({}, "$: does not satisfy required (to)"),
        ({"to": "emma"}, "$.to: does not satisfy type (array)"),
        ({"to": [], "urgent": 1}, "$.urgent: does not satisfy type (null, boolean)"),
        ({"to": ["a very secret text of many characters"]}, "$.to[0]: does not satisfy maxLength"),
        ({"to": [], "bcc": ["x"]}, "$: does not satisfy additionalProperties"),
    ],
)
def test_a_mismatch_is_told_by_place_and_word_and_quotes_no_value(content, told):
    assert problems(MAIL, content) == [told]


def test_at_most_five_mismatches_are_told():
    assert len(problems(MAIL, {"to": [1] * 50})) == 5


def test_a_whole_number_may_be_written_with_a_fraction():
    assert problems({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": 1.0}) == []


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"type": "text"},
        {"$schema": "https://example.com/my-own-draft", "type": "object"},
        {"properties": {"a": {"pattern": "(a+)\\1"}}},
        {"properties": {"a": {"pattern": "(?=x)"}}},
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$id": "https://example.com/", "properties": {"a": {"$ref": "other.json"}}},
    ],
)
def test_a_schema_that_is_invalid_unbounded_or_elsewhere_is_unusable(schema):
    with pytest.raises(UnusableSchema):
        SchemaCheck(schema)


def doubling(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {"a0": {"type": "object"}}
    for level in range(1, levels):
        reference = {"$ref": f"#/$defs/a{level - 1}"}
        definitions[f"a{level}"] = {"allOf": [reference, reference]}
    return {"$defs": definitions, "$ref": f"#/$defs/a{levels - 1}"}


def test_a_small_schema_that_would_take_years_is_unusable():
    assert Effort(doubling(60)).of(0) > 2**59
    with pytest.raises(UnusableSchema, match="too long"):
        SchemaCheck(doubling(60))


def test_a_chain_of_thousands_of_references_is_unusable():
    definitions: dict[str, Any] = {"a0": {"type": "object"}}
    for link in range(1, 5000):
        definitions[f"a{link}"] = {"$ref": f"#/$defs/a{link - 1}"}
    with pytest.raises(UnusableSchema, match="too long"):
        SchemaCheck({"$defs": definitions, "$ref": "#/$defs/a4999"})


@pytest.mark.parametrize("index", ["²", "9" * 5000, "-1", "01", "7"])
def test_a_pointer_to_no_item_of_a_list_is_unusable(index):
    with pytest.raises(UnusableSchema):
        SchemaCheck({"$defs": {"a": {"allOf": [{}]}}, "$ref": f"#/$defs/a/allOf/{index}"})


TREE = {
    "type": "object",
    "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "name": {"type": "string"}},
}


def test_a_recursive_schema_checks_what_is_not_too_deep():
    assert problems(TREE, {"left": {"right": {"name": "x"}}}) == []
    assert problems(TREE, {"left": {"right": {"name": 3}}}) == [
        "$.left.right.name: does not satisfy type (string)"
    ]


def test_a_value_that_would_take_too_long_is_refused_unchecked():
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"left": deep}
    assert problems(TREE, deep) == ["$: does not satisfy size (too much to check)"]


def test_a_long_value_is_counted_before_it_is_refused():
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(500)}}
    assert problems(wide, {"p1": "x" * 1_000_000}) == []
    items = {"type": "array", "items": {"allOf": [{"type": "integer"}] * 500}}
    assert problems(items, [1] * 100_000) == ["$: does not satisfy size (too much to check)"]


def test_anchors_pointers_and_drafts_are_followed_inside_of_the_definition():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"a/b": {"type": "string"}},
        "properties": {"x": {"$ref": "#/definitions/a~1b"}},
    }
    assert problems(schema, {"x": 1}) == ["$.x: does not satisfy type (string)"]
    anchored = {"$defs": {"t": {"$anchor": "t", "type": "string"}}, "items": {"$ref": "#t"}}
    assert Effort(anchored).of(1) == 3
    assert Effort({"$ref": "#"}).of(3) < MOST_EFFORT

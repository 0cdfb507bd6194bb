"""A pattern takes time for its states and the text: both together are bounded."""

import pytest

from gateway.pins.patterns import LIGHT, heavy_states, states
from gateway.pins.schemas import SchemaCheck


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("abc", 3),
        ("[01]*1[01]{1000}x", 1004),
        ("(ab){100}", 200),
        ("((a{10}){10}){10}", 1000),
        (r"\\{1000}", 1000),
        (r"\{1000\}", 6),
        ("[{(]{3}", 3),
        ("a{2,}", 2),
        ("a{2,300}", 300),
    ],
)
def test_repetitions_are_counted_as_often_as_they_stand(pattern, size):
    assert size <= states(pattern) <= size + 3


def test_ordinary_patterns_are_light():
    for pattern in (r"^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$", r"^\d{4}-\d{2}-\d{2}$"):
        assert states(pattern) < LIGHT


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "[01]*1[01]{1000}x"}}},
        {"type": "object", "patternProperties": {"[01]*1[01]{1000}x": {}}},
        {
            "$defs": {"b": {"pattern": "[01]*1([01]{40}){40}x"}},
            "properties": {"a": {"$ref": "#/$defs/b"}},
        },
    ],
)
def test_a_large_pattern_is_not_tried_on_a_long_text(schema):
    check = SchemaCheck(schema)
    assert heavy_states(schema) > LIGHT
    (problem,) = check.problems({"a": "01" * 50_000}, 100_010)
    assert (problem.keyword, problem.expected) == ("size", "too much to check")
    assert [problem.keyword for problem in check.problems({"a": "01"}, 12)] in (["pattern"], [])

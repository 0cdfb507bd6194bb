"""A pattern takes time for its states and the text: both together are bounded."""

from functools import cache, partial

import pytest

from gateway.pins import patterns
from gateway.pins.patterns import matching, open_states, states
from gateway.pins.schemas import SchemaCheck, UnusableSchema
from tests.took import took_s

_UNIT = 12
"""States that one octet passes in the time that a schema takes."""


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


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$",
        r"^\d{4}-\d{2}-\d{2}$",
        r"^.{1,4096}$",
        r"^[A-Za-z0-9+/=]*$",
        r"^[a-z][a-z0-9-]{0,62}[a-z0-9]$",
        r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$",
        r"^data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*$",
        r"^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$",
        r"^([0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|0{8}-0{27}|f{36})$",
        r"^[\w-]+\.[\w-]+\.[\w-]*$",
        r"^https?://[^\s]+$",
        "^[01]?1[01]{200}x",
        "^([01]{200}x)*$",
        "^([01]{100}x){2,3}$",
        "[01]*x",
    ],
)
def test_where_few_states_are_open_at_once_the_engine_remembers_them(pattern):
    assert matching(open_states(pattern), 1_000_000) < 20_000


@pytest.mark.parametrize(
    "pattern",
    [
        "1[01]{200}x",
        "^[01]*1[01]{200}x",
        "^[01]+1[01]{200}x",
        "^[01]{3,}1[01]{200}x",
        "^([01]{3})*1[01]{200}x",
        "^([01]{200}x?)*$",
        "^[01]{0,200}([01]{20}x){10}$",
        "^(a|[01]{200}|b)1[01]{200}x",
        "^a|1[01]{200}x",
        "(^a)?1[01]{200}x",
        "^*1[01]{200}x",
        "^(a*b){200}",
        f"^({'|'.join(['[01]{3}x'] * 200)})",
    ],
)
def test_what_may_begin_at_many_places_costs_its_states(pattern):
    assert matching(open_states(pattern), 1_000_000) >= 200 * 1_000_000 // _UNIT


_BLOWS_UP = "[01]*1[01]{1000}x"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string", "pattern": _BLOWS_UP}}},
        {"type": "object", "patternProperties": {_BLOWS_UP: {}}},
        {"type": "object", "propertyNames": {"pattern": _BLOWS_UP}},
        {
            "$defs": {"b": {"pattern": "[01]*1([01]{40}){40}x"}},
            "properties": {"a": {"$ref": "#/$defs/b"}},
        },
    ],
)
def test_a_large_pattern_is_not_tried_on_a_long_text(schema):
    check, text = SchemaCheck(schema), "01" * 50_000
    content = {text: 1} if "properties" not in schema and "$defs" not in schema else {"a": text}
    (problem,) = check.problems(content, 100_010)
    assert (problem.keyword, problem.expected) == ("size", "too much to check")
    told = [problem.keyword for problem in check.problems({"a": "01"}, 12)]
    assert told in (["pattern"], ["propertyNames"], [])


def test_a_pattern_counts_as_often_as_it_is_tried():
    parts = [{"not": {"pattern": f"1[01]{{12}}x{number}"}} for number in range(1_000)]
    (problem,) = SchemaCheck({"allOf": parts}).problems("01" * 500, 1_002)
    assert problem.expected == "too much to check"
    once = {"$defs": {"a": {"pattern": "1[01]{200}x"}}, "allOf": [{"$ref": "#/$defs/a"}] * 50}
    (problem,) = SchemaCheck(once).problems("01" * 500, 1_002)
    assert problem.expected == "too much to check"


def test_a_sign_that_is_long_in_octets_counts_as_long():
    check = SchemaCheck({"pattern": "[é1][é1]{200}x"})
    (problem,) = check.problems("é" * 10_000, 20_002)
    assert problem.expected == "too much to check"


def test_a_long_text_beside_a_large_pattern_is_none_of_its_matter():
    schema = {"properties": {"a": {"pattern": "^([0-9]{1,9}x){20}$"}, "b": {"type": "string"}}}
    assert not SchemaCheck(schema).problems({"a": "1x" * 20, "b": "01" * 2_000_000}, 4_000_060)


@pytest.mark.parametrize("sign", ["[", "(?<", "(?", "{1", "[^\\]"])
def test_signs_that_begin_what_never_ends_are_gone_through_once(sign):
    assert states(sign * 50_000) >= 0
    with pytest.raises(UnusableSchema):
        SchemaCheck({"pattern": sign * 50_000})


_BEGUN = (
    *("[", "[^", "[]", "[a", "[\\[", "[[:", "(", "(?", "(?a", "(?-", "(?<a", "(?P<"),
    *("{", "{1", "{1,", "{9", "\\", "\\p{", "\\x{", "|", "^", "*"),
)


@pytest.mark.parametrize("end", ["", "\\"])
@pytest.mark.parametrize("begun", _BEGUN)
def test_signs_that_begin_what_never_ends_are_read_as_fast_as_others(begun, end):
    hostile = begun * (_LONG // len(begun)) + end
    assert took_s(partial(states, hostile)) < 20 * plain_took_s()


_LONG = 16_000


@cache
def plain_took_s() -> float:
    return took_s(partial(states, "a" * _LONG))


def test_patterns_that_are_long_together_are_not_read(monkeypatch):
    monkeypatch.setattr(patterns, "_TOKEN", None)
    parts = [{"pattern": "|" * 10_000}, {"patternProperties": {"|" * 60_000: {}}}]
    for schema in ({"pattern": "[" * 250_000 + "\\"}, {"allOf": parts}):
        with pytest.raises(UnusableSchema, match="too long to be made ready"):
            SchemaCheck(schema)


@pytest.mark.parametrize(
    ("pattern", "times"),
    [
        (r"^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}|0{8}-0{4})$", 100),
        ("|".join(f"Continent/Town_of_{number:04}" for number in range(1_200)), 1),
    ],
)  # fmt: skip
def test_a_schema_with_as_many_or_as_long_patterns_as_any_has_can_be_used(pattern, times):
    SchemaCheck({"properties": {f"p{number}": {"pattern": pattern} for number in range(times)}})


def test_a_pattern_with_comments_in_it_is_no_pattern():
    for pattern in ("(?x)a", "^(?ix)#[\n(0|1)*1(0|1){200}x#]", "(?x:a)"):
        with pytest.raises(UnusableSchema, match="too long to be made ready"):
            SchemaCheck({"pattern": pattern})


def test_a_value_of_the_older_drafts_is_not_compiled():
    draft = "http://json-schema.org/draft-07/schema#"
    check = SchemaCheck({"$schema": draft, "items": {"format": "regex"}})
    assert not check.problems([r"\p{L}{9000000}", "("], 30)

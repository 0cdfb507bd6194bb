"""A pattern that looks ahead first is checked as it was meant, by an engine that cannot look ahead."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pins.lookaheads import looked_ahead
from gateway.pins.schemas import SchemaCheck, UnusableSchema

EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
"""Of Zod 4, as `z.email()` has it; and so a host's name."""
HOST = (
    r"^(?=.{1,253}\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
    r"(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*\.?$"
)
PASSWORD = r"^(?=.*[a-z])(?=.*[0-9|)])(?!.*\))[a-z0-9.]{2,6}$"
KINDS = {EMAIL: "ab.@'-+", HOST: "ab.-1", PASSWORD: "ab1.)|"}


def fits(pattern: str, content: Any) -> bool:
    return not SchemaCheck({"pattern": pattern}).problems(content, 100)


@pytest.mark.parametrize(
    ("pattern", "text", "fit"),
    [
        (EMAIL, "ann.lee@mail.example", True),
        (EMAIL, ".ann@mail.example", False),
        (EMAIL, "ann..lee@mail.example", False),
        (HOST, "mail.example", True),
        (HOST, "a." * 127 + "b", False),
        (PASSWORD, "a1", True),
        (PASSWORD, "a)", False),
    ],
)
def test_what_zod_writes_is_checked(pattern: str, text: str, fit: bool) -> None:
    assert fits(pattern, text) is fit


@given(st.sampled_from(sorted(KINDS)), st.data())
def test_it_fits_what_it_fits_where_engines_look_ahead(pattern: str, data: st.DataObject) -> None:
    end = data.draw(st.sampled_from(["", "@b.ab", "@b-.ab", ".b"]))
    text = data.draw(st.text(KINDS[pattern], max_size=6)) + end
    assert fits(pattern, text) is (re.search(pattern, text) is not None)


@pytest.mark.parametrize("content", [1, None, ["."], {"a": 1}])
def test_what_is_no_string_fits(content: Any) -> None:
    assert fits(EMAIL, content)


@pytest.mark.parametrize(
    "pattern",
    [
        "^(?!a)b|c",  # `c` may stand anywhere
        "^(?!a)*b",
        "^(?!a",
        "^b(?!a)",
        "(?!a)b",
        "^(?<!a)b",
        "^(?![])b",
    ],
)
def test_any_other_is_no_pattern_to_check_by(pattern: str) -> None:
    assert looked_ahead({"pattern": pattern}) == {"pattern": pattern}
    with pytest.raises(UnusableSchema):
        SchemaCheck({"pattern": pattern})


def test_branches_within_are_no_branches_of_the_whole() -> None:
    assert fits(r"^(?!x|y)(?:a|b)[|]\|$", "a||")
    assert not fits(r"^(?!x|y)(?:x|b)$", "x")


def test_all_that_held_beside_it_holds() -> None:
    schema = {"allOf": [{"minLength": 20}], "maxLength": 30, "pattern": EMAIL}
    check = SchemaCheck({"properties": {"pattern": schema}, "type": "object"})
    for text, fit in (("a@b.example", False), ("a" * 25 + "@b.example", False)):
        assert (not check.problems({"pattern": text}, 100)) is fit
    assert not check.problems({"pattern": "ann.lee.b.c@b.example"}, 100)


def test_what_has_none_is_the_very_same() -> None:
    schema = {"properties": {"a": {"pattern": "^a(?:b)"}}, "enum": [{"pattern": "^(?!a)b"}]}
    assert looked_ahead(schema) is schema


@pytest.mark.parametrize("name", ["const", "default", "enum", "examples", "pattern", "properties"])
@pytest.mark.parametrize("word", ["$defs", "properties"])
def test_a_property_may_be_called_as_a_keyword_is(word: str, name: str) -> None:
    held = {"properties": {name: {"$ref": f"#/$defs/{name}"}}, "$defs": {name: {"pattern": EMAIL}}}
    by_name = {"properties": {name: {"pattern": EMAIL}}}
    check = SchemaCheck(held if word == "$defs" else by_name)
    assert not check.problems({name: "ann.lee@mail.example"}, 100)
    assert check.problems({name: ".ann@mail.example"}, 100)


@pytest.mark.parametrize("word", ["const", "default", "enum", "examples"])
def test_a_value_within_a_property_of_that_name_is_no_schema(word: str) -> None:
    schema = {"properties": {"properties": {word: [{"pattern": "^(?!a)b"}]}}}
    assert looked_ahead(schema) is schema

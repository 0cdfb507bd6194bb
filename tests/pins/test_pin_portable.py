"""What hosts are shown of schemas: they can take it, and it takes whatever was approved."""

from typing import Any, get_args

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.values import Host as Named
from gateway.domain.document import Document
from gateway.pins.hosts import HOSTS, Host, Keyword, Source
from gateway.pins.portability import troubles
from gateway.pins.portable import shown_to

NAMED = get_args(Named)
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def shown(schema: Any, *hosts: str, member: str = "inputSchema") -> Any:
    definition = Document.of({"name": "send", member: schema})
    return shown_to(definition, hosts)[member]


def test_every_host_that_can_be_named_is_known_and_refuses_something() -> None:
    for host in NAMED:
        assert any(rule.level == "error" for rule in HOSTS[host].keywords)


def test_without_a_host_a_definition_is_the_approved_one() -> None:
    definition = Document.of({"name": "send", "inputSchema": {"anyOf": [{}], "const": 1}})
    assert shown_to(definition, ()) is definition.content


@pytest.mark.parametrize(
    ("host", "schema", "left"),
    [
        (
            "claude",
            {
                "type": "object",
                "anyOf": [{"required": ["a"]}],
                "properties": {"a": {"anyOf": [{}]}},
            },
            {"type": "object", "properties": {"a": {"anyOf": [{}]}}},
        ),
        (
            "claude",
            {"if": {"not": {}}, "then": {}, "else": {}, "properties": {"a": {"not": {}}}},
            {"properties": {"a": {"not": {}}}},
        ),
        (
            "gemini",
            {
                "$schema": DRAFT_7,
                "additionalProperties": False,
                "properties": {"a": {"const": "x"}},
            },
            {"properties": {"a": {"enum": ["x"]}}},
        ),
        ("gemini", {"items": {"const": 1, "uniqueItems": True}}, {"items": {}}),
        ("gemini", {"enum": ["a", "b"], "const": "a"}, {"enum": ["a", "b"]}),
        (
            "gemini",
            {"properties": {"const": {"multipleOf": 2}, "$schema": {"type": "string"}}},
            {"properties": {"const": {}, "$schema": {"type": "string"}}},
        ),
        ("gemini", {"default": {"const": 1}}, {"default": {"const": 1}}),
        (
            "copilot-studio",
            {"exclusiveMinimum": 1, "items": {"exclusiveMinimum": 0.5}},
            {"items": {"exclusiveMinimum": 0.5}},
        ),
    ],
)
def test_what_a_host_refuses_and_only_narrows_is_left_out(
    host: str, schema: Any, left: Any
) -> None:
    assert shown(schema, host) == left


@pytest.mark.parametrize(
    ("host", "schema"),
    [
        # What it is about.
        ("copilot-studio", {"properties": {"a": {"$ref": "#/$defs/b", "type": ["null"]}}}),
        # Its version does not know what would become an `enum`.
        (
            "gemini",
            {
                "$schema": "http://json-schema.org/draft-04/schema#",
                "properties": {"a": {"const": "x"}},
            },
        ),
        # Takes less where something inside takes more, or something beside is gone.
        ("gemini", {"not": {"const": "x"}}),
        ("gemini", {"properties": {"a": {"oneOf": [{"const": "x"}, {"type": "string"}]}}}),
        ("gemini", {"not": {"$ref": "#"}, "multipleOf": 2}),
        (
            "gemini",
            {"items": {"patternProperties": {"^a": {}}, "unevaluatedProperties": False}},
        ),
        ("claude", {"anyOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}),
        (
            "gemini",
            {"items": {"$ref": "#/default"}, "default": {"not": {"$ref": "#/$defs/a"}}}
            | {"$defs": {"a": {"const": "x"}}},
        ),
    ],
)
def test_what_would_take_less_or_nothing_of_use_is_as_it_was_approved(
    host: str, schema: Any
) -> None:
    assert shown(schema, host) == schema


@pytest.mark.parametrize(
    ("schema", "stays"),
    [
        ({"$schema": DRAFT_7}, False),
        (
            {"$schema": "https://json-schema.org/draft/2020-12/schema", "items": {"$ref": "#"}},
            False,
        ),
        ({"$schema": DRAFT_7, "items": [{"type": "string"}]}, True),
        ({"$schema": DRAFT_7, "properties": {"a": {"$ref": "#/b", "maxLength": 1}}}, True),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, True),
    ],
)
def test_a_version_is_left_out_where_the_newest_reads_the_same(schema: Any, stays: bool) -> None:
    assert ("$schema" in shown(schema, "gemini")) is stays
    assert ("$schema" in shown(schema, "claude", member="outputSchema")) is (
        stays or "draft-07" not in schema["$schema"]
    )


def test_what_goes_together_goes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Keyword(names=("patternProperties",), becomes="", source=Source(where="", date=""))
    monkeypatch.setitem(HOSTS, "one", Host(keywords=(rule,)))
    schema = {"patternProperties": {"^a": {}}, "additionalProperties": False}
    assert shown(schema, "one") == {}


def test_each_host_is_shown_what_it_can_take() -> None:
    schema = {"anyOf": [{}], "multipleOf": 2}
    found = {host: set(shown(schema, host)) for host in ("claude", "gemini")}
    assert found == {"claude": {"multipleOf"}, "gemini": {"anyOf"}}
    assert shown(schema, "claude", "gemini") == {}


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "a", "bb"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=5,
)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    several = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "integer", "string"]),
            "const": st.sampled_from(["a", 1]),
            "enum": st.just(["a", 1, {}]),
            "multipleOf": st.just(2),
            "exclusiveMinimum": st.just(0),
            "uniqueItems": st.just(True),
            "properties": named,
            "patternProperties": st.fixed_dictionaries({"^[ab]": inner}),
            "additionalProperties": inner,
            "propertyNames": inner,
            "unevaluatedProperties": st.just(False),
            "items": inner,
            "prefixItems": several,
            "contains": inner,
            "not": inner,
            "anyOf": several,
            "oneOf": several,
            "allOf": several,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    )


@given(
    st.recursive(st.booleans(), _schemas, max_leaves=6).filter(lambda one: isinstance(one, dict)),
    st.lists(_VALUES, min_size=4, max_size=8),
)
def test_whatever_is_approved_fits_what_is_shown(schema: Any, values: list[Any]) -> None:
    approved = jsonschema_rs.validator_for(schema)
    for hosts in ((NAMED[0],), (NAMED[1],), (NAMED[2],), NAMED):
        told = jsonschema_rs.validator_for(shown(schema, *hosts))
        for one in values:
            assert not approved.is_valid(one) or told.is_valid(one)


def test_a_host_that_was_in_trouble_is_in_none() -> None:
    schema = {
        "$schema": DRAFT_7,
        "type": "object",
        "anyOf": [{"required": ["a"]}],
        "properties": {"a": {"const": "x"}, "b": {"type": "integer", "exclusiveMinimum": 0}},
    }
    for host in NAMED:
        tools = {"send": shown_to(Document.of({"name": "send", "inputSchema": schema}), (host,))}
        assert not [one for one in troubles(HOSTS[host], "mail", tools) if one.level == "error"]

"""Names of arguments and results that could be taken for those of an approved schema."""

from typing import Any

import pytest

from gateway.domain.alike import LONGEST, ROOMY
from gateway.domain.tools import Kind, Profile, UpstreamId
from gateway.pins import members
from gateway.pins.catalog import read_list
from gateway.pins.members import Members

OBJECT: dict[str, Any] = {"type": "object"}
TEXT = {"type": "string"}
MAIL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "iban": TEXT,
        "to": {"type": "array", "items": {"properties": {"email": TEXT}}},
        "headers": {"type": "object", "additionalProperties": TEXT},
        "either": {"anyOf": [{"properties": {"a": TEXT}}, {"$ref": "#/$defs/node"}]},
    },
    "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}, "path": TEXT}}},
}


@pytest.mark.parametrize(
    "content",
    [
        {"iban": "ours", "IBAN": "theirs"},
        {"IBAN": "theirs"},
        {"iban ": "theirs"},
        {"\uff49ban": "theirs"},
        {"x": 1, "X": 2},
        {"to": [{"email": "a", "Email": "b"}]},
        {"to": [{"EMAIL": "b"}]},
        {"either": {"A": "b"}},
        {"either": {"next": {"next": {"Path": "b"}}}},
    ],
)
def test_what_could_be_taken_for_a_property_is_found(content: Any) -> None:
    assert Members(MAIL).confused(content) is not None


@pytest.mark.parametrize(
    "content",
    [
        {"iban": "ours", "note": "theirs"},
        {"headers": {"Accept": "a", "accept": "b", "IBAN": "x", "Path": "y"}},
        {"either": {"path": "a"}, "free": {"PATH": "/bin", "path": "/bin", "Email": "x"}},
        {"to": [{"email": "a"}, {"email": "b"}]},
        [],
        None,
        "IBAN",
    ],
)
def test_names_that_nobody_gave_are_their_senders_own(content: Any) -> None:
    assert Members(MAIL).confused(content) is None


@pytest.mark.parametrize("schema", [None, {}, OBJECT, {"properties": {"x": TEXT}}])
def test_at_the_top_no_two_names_are_alike(schema: Any) -> None:
    assert Members(schema).confused({"iban": 1, "IBAN": 2}) == "IBAN"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "additionalProperties": True},
        {"patternProperties": {"^[a-z]+$": TEXT}},
    ],
)
def test_in_a_map_they_may_be(schema: Any) -> None:
    assert Members(schema).confused({"The": 1, "the": 2}) is None
    assert Members(schema).confused({"The": 1, "the": 2}, ["the"]) == "The"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note what is looked for in each part of a schema."""
    noted: list[str] = []

    def noting(name: str) -> None:
        work = getattr(members, name)

        def noted_first(*args: Any) -> Any:
            noted.append(name)
            return work(*args)

        monkeypatch.setattr(members, name, noted_first)

    noting("_properties")
    noting("_below")
    return noted


def test_of_many_values_at_one_place_the_schema_is_looked_through_once(looks: list[str]) -> None:
    row = {"properties": {f"prop_{i}": TEXT for i in range(10)}, "patternProperties": {"^x": MAIL}}
    found = Members({"properties": {"rows": {"items": row}, "free": {"type": "object"}}})
    looks.clear()
    rows: list[Any] = [{"a": 1, f"x{i}": {"to": [{"email": "a"}]}} for i in range(1_000)]
    assert found.confused({"rows": rows, "free": {"Prop_1": 1}}) is None
    assert len(looks) < 30
    assert found.confused({"rows": [*rows, {"Prop_1": 1}]}) == "Prop_1"
    assert found.confused({"rows": [{"x": {"TO": 1}}, *rows]}) == "TO"


def test_what_holds_within_itself_is_looked_through_once(looks: list[str]) -> None:
    found = Members(MAIL)
    looks.clear()
    deep: dict[str, Any] = {"path": "a"}
    for _ in range(60):
        deep = {"next": deep}
    assert found.confused({"either": deep, "free": {"PATH": 1}}) is None
    assert len(looks) < 30


def test_an_anchor_is_not_followed_and_nothing_that_is_alike_passes() -> None:
    schema = {
        "properties": {"a": {"$ref": "#there"}},
        "$defs": {"b": {"properties": {"iban": TEXT}}},
    }
    assert Members(schema).confused({"a": {"IBAN": 1}}) == "IBAN"


@pytest.mark.parametrize("member", ["inputSchema", "outputSchema"])
@pytest.mark.parametrize("twin", ["IBAN", "iban ", "\u0131ban"])
def test_a_schema_with_two_names_that_are_alike_is_not_pinned(member: str, twin: str) -> None:
    schema = {"type": "object", "properties": {"iban": TEXT, twin: TEXT}}
    nested = {"type": "object", "properties": {"payee": schema}}
    for bad in (schema, nested):
        tool = {"name": "pay", "inputSchema": OBJECT, member: bad}
        reading = read_list(UpstreamId("bank"), Profile.MODERN, Kind.TOOL, [tool], "1")
        assert reading.manifests == ()
        assert "easily confused" in reading.rejected[0].reason


def test_of_very_many_names_not_all_are_compared() -> None:
    names = [chr(0x4E00 + at) * LONGEST for at in range(ROOMY // LONGEST + 1)]
    few = [{name: 1} for name in names[:-1]]
    assert Members(MAIL).confused({"x": few * 2}) is None
    assert Members(MAIL).confused({"x": [{name: 1} for name in names]}) is not None
    assert Members(MAIL).confused(dict.fromkeys(names)) is not None
    assert Members({"type": "object", "additionalProperties": TEXT}).confused(dict.fromkeys(names))

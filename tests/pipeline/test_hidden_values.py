"""Values that a `redact` duty names by path, wherever else they stand: found however many they are."""

import json
from typing import Any

import pytest

from gateway.domain.decisions import Duty, Obligation
from gateway.errors import Denied
from gateway.pipeline import literals
from gateway.pipeline.filter import meet
from gateway.pipeline.literals import Literals

HIDE = Obligation(duty=Duty.REDACT, detail={"paths": ["$.structuredContent.rows[*].email"]})


def hidden(emails: list[str], **more: Any) -> dict[str, Any]:
    rows = [{"email": email, "note": f"of {email} alone"} for email in emails]
    met: dict[str, Any] = dict(meet([HIDE], {"structuredContent": {"rows": rows, **more}}))
    found: dict[str, Any] = met["structuredContent"]
    return found


@pytest.mark.parametrize("many", [3, 600])
def test_many_values_are_looked_for_at_once(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "_MOST_LOOKS", 10_000)
    found = hidden([f"user{i}@mail.example" for i in range(many)], x=["user1@mail.example, user2"])
    assert {(row["email"], row["note"]) for row in found["rows"]} == {
        ("[redacted]", "of [redacted] alone")
    }
    assert found["x"] == ["[redacted], user2"]


def test_what_would_take_too_long_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "_MOST_LOOKS", 10_000)
    with pytest.raises(Denied, match="too long"):
        hidden(["a" * i for i in range(4, 100)], x="a" * 10_000)


@pytest.mark.parametrize("others", [0, 100])
def test_values_that_overlap_are_hidden_together(others: int) -> None:
    found = Literals(["abcdef", "cdefgh", "defg", *(f"{i:05}" for i in range(others))])
    assert found.blotted("xabcdefghx abcdefabcdef", "*") == "x*x **"
    assert found.stand_in("..abcdef")
    assert not found.stand_in("abcde")
    assert Literals(["abc"]).blotted("abc", "*") == "abc"


@pytest.mark.parametrize("value", ["wqDCoMKg", "4465275426002687"])
def test_a_value_is_hidden_where_base64_is_expected_though_it_decodes_to_something(
    value: str,
) -> None:
    found = hidden([value], parts=[{"blob": value}, {"mimeType": "text/plain", "data": value}])
    assert value not in json.dumps(found)
    by_pattern = Obligation(duty=Duty.REDACT, detail={"patterns": [value]})
    met = meet([by_pattern], {"contents": [{"uri": "a", "blob": value}]})
    assert value not in json.dumps(met)

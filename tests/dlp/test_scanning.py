"""The quick no before a scan: whatever the walk finds, the scan finds."""

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.dlp.detector import Detector
from gateway.dlp.scanning import Finding, _Findings, scan, told
from tests.dlp.texts import CARD, KEY, THERE

DETECTOR = Detector()
NOTHING_SAID: list[Any] = [True, False, None, {}, [], {"a": 1}, [True], [[]], {"a": {"b": []}}]
TEXTS = st.sampled_from([*(text for _, text in THERE.values()), KEY, "a", "text", "data", ""])


def walked(content: Any) -> tuple[Finding, ...]:
    """Return what is found where nobody says quickly that there is nothing."""
    found = _Findings(DETECTOR, math.inf)
    found.walk(content, "$", "", frozenset())
    return found.all()


@pytest.mark.parametrize("held", NOTHING_SAID, ids=repr)
def test_a_name_is_looked_at_whatever_it_names(held: Any) -> None:
    for name, of in ((KEY, "api_key"), (f"card {CARD}", "card")):
        assert {one.of for one in scan(DETECTOR, {"rows": [{name: held}]})} == {of}


@st.composite
def in_blocks(draw: st.DrawFn) -> list[dict[str, Any]]:
    text = draw(TEXTS)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=5)))
    edges = zip([0, *cuts], [*cuts, len(text)], strict=True)
    return [{"type": "text", "text": text[start:end]} for start, end in edges]


NUMBERS = st.sampled_from([4111111111111111, 4111111111111111.0, 4000600000000000000.0])
SAID = st.recursive(
    st.sampled_from([True, None]) | NUMBERS | TEXTS | in_blocks(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(SAID)
@example({"content": [{"type": "text", "text": part} for part in ("AK", "IA", KEY[4:])]})
@example({"content": [{"text": "x" * 3000 + KEY[:9]}, {"text": KEY[9:12]}, {"text": KEY[12:]}]})
def test_what_the_walk_finds_the_scan_finds(content: Any) -> None:
    assert scan(DETECTOR, content) == walked(content)


def test_of_very_many_values_most_are_counted_and_not_kept() -> None:
    """Whoever gives them was not looked up: policy is told that nobody is known to have."""
    many = " ".join(f"{at:05x}@b.example" for at in range(3_000))
    found = scan(DETECTOR, {"a": many, "b": "anna@b.example"})
    assert [(one.path, one.count) for one in found] == [("$.a", 3_000), ("$.b", 1)]
    assert sum(len(one.values) for one in found) == 1024
    rows = told(found, dict.fromkeys(found[0].values, "server"))
    assert [(row["given"], row["count"]) for row in rows] == [
        ("", 3_000 - 1024),
        ("server", 1024),
        ("", 1),
    ]

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.flow import Match, Payload
from gateway.domain.labels import ToolRule
from gateway.flow.fragments import SHORTEST_FRAGMENT, Fragments
from gateway.flow.provenance import Provenance
from tests.flow.flow_builders import TRUSTED, UNTRUSTED, remember, reviewed, source, structured

SECRET = "The launch code of the eastern silo is 7391-4482, do not share it."


class Untouchable(Mapping[str, Any]):
    """A result that must not be looked at."""

    def __getitem__(self, key: str) -> Any:
        raise AssertionError(key)

    def __iter__(self) -> Iterator[str]:
        raise AssertionError

    def __len__(self) -> int:
        raise AssertionError


def known(text: str, record: int = 7) -> Provenance:
    provenance = Provenance()
    remember(provenance, source(TRUSTED, record), {"content": [{"type": "text", "text": text}]})
    return provenance


def test_results_are_not_looked_at_until_somebody_asks() -> None:
    provenance = Provenance()
    for _ in range(200):
        remember(provenance, source(TRUSTED), Untouchable(), arguments=Untouchable())
    assert reviewed(Untouchable(), rule=ToolRule(), provenance=provenance).destinations == ()


def test_the_oldest_results_are_forgotten_beyond_a_number() -> None:
    provenance = Provenance(results=2)
    for i in range(3):
        remember(provenance, source(TRUSTED, i), structured([f"value {i}"]))
    assert [provenance.proof_of(f"value {i}") is None for i in range(3)] == [True, False, False]
    remember(provenance, source(TRUSTED, 3), structured(["value 3"]))
    assert [provenance.proof_of(f"value {i}") is None for i in range(4)] == [
        True,
        True,
        False,
        False,
    ]


def test_the_oldest_results_are_forgotten_beyond_a_size() -> None:
    provenance = Provenance(octets=100)
    remember(provenance, source(TRUSTED, 1), structured(["value 1"]), octets=60)
    assert provenance.proof_of("value 1") is not None
    remember(provenance, source(TRUSTED, 2), structured(["value 2"]), octets=40)
    assert provenance.proof_of("value 1") is not None
    remember(provenance, source(TRUSTED, 3), structured(["value 3"]), octets=1)
    assert [provenance.proof_of(f"value {i}") is None for i in (1, 2, 3)] == [True, False, False]
    remember(provenance, source(TRUSTED, 4), structured(["value 4"]), octets=101)
    assert [provenance.proof_of(f"value {i}") is None for i in (2, 3, 4)] == [False, False, True]


def test_what_is_forgotten_is_no_longer_recognised() -> None:
    provenance = Provenance(results=1)
    remember(provenance, source(TRUSTED), structured([SECRET]))
    assert provenance.matches(SECRET) != ()
    remember(provenance, source(TRUSTED), structured(["x"]))
    assert provenance.matches(SECRET) == ()
    assert provenance._fragments.within(SECRET) == {}


@pytest.mark.parametrize("value", [True, None, {"a": {}}, []])
def test_what_is_neither_text_nor_number_proves_nothing(value: Any) -> None:
    provenance = Provenance()
    remember(provenance, source(TRUSTED), structured({"x": value}), typed=("$.x",))
    assert provenance.proof_of("True") is provenance.proof_of("None") is None


def test_a_pattern_reaches_structured_content_and_json_in_text() -> None:
    provenance = Provenance()
    text = '[{"id": 1, "name": "2"}, {"id": 3}]'
    content = {"content": [{"type": "text", "text": text}], "structuredContent": {"id": 4}}
    remember(provenance, source(UNTRUSTED), content, typed=("$[*].id", "$.id"))
    assert [provenance.proof_of(i) is not None for i in "1234"] == [True, False, True, True]


def test_a_whole_value_in_a_payload_is_an_exact_match() -> None:
    assert known(SECRET).matches(SECRET) == (Match(record=7, kind="exact", bytes=len(SECRET)),)
    assert known("abcd").matches("abcd") == (Match(record=7, kind="exact", bytes=4),)
    assert known("abc").matches("abc") == ()


def test_a_piece_in_a_payload_is_told_with_its_size_in_bytes() -> None:
    piece = "silo is 7391-4482"
    assert known(SECRET).matches(f"fyi:{piece}...!") == (
        Match(record=7, kind="fragment", bytes=len(piece)),
    )
    german = "Schl\u00fcssel\u00fcbergabe"
    assert known(f"Zur {german} um 9").matches(f"!{german}!") == (
        Match(record=7, kind="fragment", bytes=len(german.encode())),
    )


def test_links_are_told_beside() -> None:
    page = "Visit https://evil.example/claim?id=1 or www.evl.io today."
    found = known(page).matches("See https://evil.example/claim?id=1.")
    assert found == (
        Match(record=7, kind="fragment", bytes=32),
        Match(record=7, kind="link", bytes=31),
    )
    assert known(page).matches("(www.evl.io)") == (Match(record=7, kind="link", bytes=10),)
    assert known(page).matches("https://evil.example/other")[-1].kind == "fragment"


def test_every_result_that_has_it_is_told() -> None:
    provenance = known(SECRET, 1)
    remember(provenance, source(TRUSTED, 2), structured({"a": f"Again: {SECRET}"}))
    assert provenance.matches(SECRET) == (
        Match(record=1, kind="exact", bytes=len(SECRET)),
        Match(record=2, kind="fragment", bytes=len(SECRET)),
    )


@given(st.text("abc "), st.text("abc "))
def test_a_common_piece_is_found_if_and_only_if_there_is_one(text: str, payload: str) -> None:
    fragments = Fragments()
    fragments.add(1, text)
    windows = {
        payload[i : i + SHORTEST_FRAGMENT] for i in range(len(payload) - SHORTEST_FRAGMENT + 1)
    }
    assert (1 in fragments.within(payload)) is any(window in text for window in windows)


@given(st.text(max_size=50), st.text(min_size=12, max_size=80), st.text(max_size=50))
def test_a_copied_piece_is_found_anywhere(before: str, piece: str, after: str) -> None:
    fragments = Fragments()
    fragments.add(1, f"{before}{piece}{after}")
    size = fragments.within(f"x{piece}")[1]
    assert size >= len(piece.encode("utf-8", "surrogatepass"))


@given(st.lists(st.text("ab", max_size=40), max_size=6), st.integers(0, 6))
def test_a_dropped_text_leaves_no_trace(texts: list[str], dropped: int) -> None:
    every, kept = Fragments(), Fragments()
    for serial, text in enumerate(texts):
        every.add(serial, text)
        if serial >= dropped:
            kept.add(serial, text)
    for serial in range(dropped):
        every.drop(serial)
    for text in texts:
        assert every.within(text) == kept.within(text)


def test_a_gram_is_compared_in_its_newest_places_only() -> None:
    gram = "a.b.c.d.e"
    fragments = Fragments()
    for serial in range(9):
        fragments.add(serial, f"{gram}--{serial}")
    assert [fragments.within(f"{gram}--{serial}") for serial in (0, 1, 8)] == [
        {},
        {1: 12},
        {8: 12},
    ]


def test_only_payload_arguments_that_hold_something_known_are_told() -> None:
    arguments = {"subject": "Hi", "body": {"parts": ["new", SECRET]}, "recipients": [SECRET]}
    assert reviewed(arguments, provenance=known(SECRET)).payload == (
        Payload(
            path="$.body.parts[1]",
            matches=(Match(record=7, kind="exact", bytes=len(SECRET)),),
        ),
    )


def test_a_call_is_compared_up_to_a_size() -> None:
    far = {"subject": "x" * 70_000, "body": SECRET}
    assert reviewed(far, provenance=known(SECRET)).payload == ()
    many = {"body": ["x"] * 200 + [SECRET]}
    assert reviewed(many, provenance=known(SECRET)).payload == ()

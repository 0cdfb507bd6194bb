"""What is remembered of what others choose has a bound in entries and in bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.bounded import ENTRY, Bounded, ByIdentity, Shared, digest_of

PARTS = st.lists(st.one_of(st.text(), st.binary(), st.integers(), st.none()))


def test_what_was_used_longest_ago_is_forgotten_first():
    kept: Bounded[str, int] = Bounded(most=2, octets=1_000_000)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1
    kept.put("c", 3)
    assert list(kept) == ["a", "c"]


def test_bytes_are_bounded_as_entries_are():
    kept: Bounded[str, str] = Bounded(most=100, octets=3 * ENTRY)
    kept.put("a", "x", ENTRY)
    kept.put("b", "x")
    assert (list(kept), kept.octets) == (["a", "b"], 3 * ENTRY)
    kept.put("c", "x")
    assert (list(kept), kept.octets) == (["b", "c"], 2 * ENTRY)


def test_what_is_too_large_alone_is_not_kept_and_neither_is_what_it_would_replace():
    kept: Bounded[str, str] = Bounded(most=2, octets=2 * ENTRY)
    kept.put("a", "x")
    kept.put("a", "y", 2 * ENTRY)
    assert ("a" in kept, len(kept), kept.octets) == (False, 0, 0)


def test_what_is_replaced_or_forgotten_weighs_nothing():
    kept: Bounded[str, str] = Bounded(most=2, octets=10 * ENTRY)
    kept.put("a", "x", ENTRY)
    kept.put("a", "y")
    assert kept.octets == ENTRY
    assert (kept.pop("a"), kept.pop("a"), kept.octets) == ("y", None, 0)
    kept.put("b", "z")
    kept.clear()
    assert (len(kept), kept.octets, kept.get("b")) == (0, 0, None)


def test_whoever_fills_what_many_share_forgets_their_own():
    shared: Shared[str, int, int] = Shared(octets=100 * ENTRY)
    for n in range(20):
        shared.put("little", n, n)
    for n in range(1_000):
        shared.put("much", n, n)
        shared.put("more", n, n, ENTRY)
        assert shared.octets <= 100 * ENTRY
    assert [shared.get("little", n) for n in range(20)] == [*range(20)]
    assert shared.get("much", 0) is None
    assert [shared.get(owner, 999) for owner in ("much", "more")] == [999, 999]


def test_of_very_many_who_share_whoever_has_put_nothing_for_longest_is_forgotten():
    shared: Shared[int, str, int] = Shared(octets=1_000 * ENTRY)
    shared.put(0, "first", 0)
    for owner in range(1_000):
        shared.put(owner, "a", owner)
        shared.put(0, "a", owner)
        assert shared.octets <= 1_000 * ENTRY
    kept = [owner for owner in range(1_000) if shared.get(owner, "a") is not None]
    assert kept == [0, *range(kept[1], 1_000)]
    assert shared.get(0, "first") == 0
    assert 150 <= len(kept) <= 200


def test_what_is_shared_and_replaced_weighs_once():
    shared: Shared[str, str, int] = Shared(octets=100 * ENTRY)
    shared.put("a", "x", 1)
    held = shared.octets
    shared.put("a", "x", 2)
    assert (shared.octets, shared.get("a", "x"), shared.get("b", "x")) == (held, 2, None)
    shared.put("a", "x", 3, 100 * ENTRY)  # more than there is room for
    assert (shared.octets, shared.get("a", "x")) == (held - ENTRY, None)


def test_what_is_shared_and_taken_out_weighs_nothing():
    shared: Shared[str, str, int] = Shared(octets=100 * ENTRY)
    shared.put("a", "x", 1)
    held = shared.octets
    shared.put("a", "y", 2, ENTRY)
    assert (shared.pop("a", "y"), shared.pop("a", "y"), shared.pop("b", "y")) == (2, None, None)
    assert (shared.octets, shared.get("a", "x")) == (held, 1)


@given(PARTS, PARTS)
def test_no_two_sequences_of_parts_share_a_digest(one: list[object], other: list[object]):
    same = [(type(part), part) for part in one] == [(type(part), part) for part in other]
    assert (digest_of(*one) == digest_of(*other)) is same  # type: ignore[arg-type]


@pytest.mark.parametrize("parts", [("a", "b"), ("ab",), ("a\0b",), (b"ab",), ("\ud800",)])
def test_a_digest_is_as_long_whatever_it_is_of(parts: tuple[str | bytes, ...]):
    assert len(digest_of(*parts)) == 32


def test_what_is_known_of_a_value_is_known_of_that_one_alone():
    known: ByIdentity[str] = ByIdentity(most=2, octets=1_000_000)
    one, alike = [1], [1]
    known.put("one", one, octets=0)
    assert (known.get(one), known.get(alike)) == ("one", None)
    assert known.get(one, one) is None
    del one
    # It is still referred to: no other value can have its place.
    assert all(known.get([n]) is None for n in range(100))

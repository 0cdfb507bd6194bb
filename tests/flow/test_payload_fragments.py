import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gateway.flow.fragments import SHORTEST_FRAGMENT, Fragments, Grams, Places, _grams_of

LETTERS = st.text("abcdefgh", max_size=80).map(str.encode)


def every(grams: Grams) -> Places:
    """Return all places at which a piece may begin."""
    return np.arange(max(0, len(grams) - 9))


def found(fragments: Fragments, payload: bytes) -> dict[bytes, frozenset[int]]:
    return {payload[p.begin : p.end]: p.serials for p in fragments.within(payload)}


@given(LETTERS, LETTERS)
def test_what_is_found_is_really_in_both(text: bytes, payload: bytes) -> None:
    fragments = Fragments()
    fragments.add(1, text)
    pieces = found(fragments, payload)
    assert all(piece in text and len(piece) >= SHORTEST_FRAGMENT for piece in pieces)


@given(LETTERS, st.integers(0, 30), LETTERS, st.randoms())
def test_a_copied_piece_is_found_anywhere(before, begin, after, dice) -> None:
    piece = bytes(dice.choices(range(97, 123), k=SHORTEST_FRAGMENT))
    fragments = Fragments()
    fragments.add(1, before + piece + after)
    payload = b"!" * begin + piece + b"?"
    assert [p.serials for p in fragments.within(payload)] == [frozenset({1})]


def test_the_shortest_piece_is_found_wherever_its_one_common_gram_stands() -> None:
    piece = b"thelaunchcodeoftheeastern"
    assert len(piece) == SHORTEST_FRAGMENT
    for before in range(12):
        fragments = Fragments()
        fragments.add(1, b"abcdefghijk"[:before] + piece + b"klmnopqrs")
        for begin in range(10, 14):
            payload = b"!" * begin + piece + b"?" * 9
            assert found(fragments, payload) == {piece: frozenset({1})}, (before, begin)


def test_the_shortest_piece_is_found_in_all_texts_wherever_its_gram_stands_in_each() -> None:
    piece = b"thelaunchcodeoftheeastern"
    for before in range(12):
        fragments = Fragments()
        for serial in range(1, 13):
            fragments.add(serial, b"abcdefghijkl"[: (before + serial) % 12] + piece + b"xyz")
            told = frozenset(range(1, serial + 1))
            assert found(fragments, b"!" + piece + b"?") == {piece: told}, before


def test_the_shortest_piece_is_found_at_both_ends_of_a_payload() -> None:
    piece = b"thelaunchcodeoftheeastern"
    for before in (b"abcdefghi", b"abcdefghij", b"abcdefghijk"):
        fragments = Fragments()
        fragments.add(1, before + piece)
        for begin in range(12):
            payload = piece[begin - 25 :] if begin else piece
            other = b"!" * begin + piece
            assert found(fragments, other) == {piece: frozenset({1})}, (before, begin)
            assert found(fragments, payload) == ({} if begin else {piece: frozenset({1})})


def test_what_is_found_is_what_a_search_at_every_place_finds() -> None:
    dice = random.Random(1)
    words = [bytes(dice.choices(b"etaoinshr", k=dice.randrange(2, 12))) for _ in range(60)]
    fragments = Fragments()
    for serial in range(1, 7):
        fragments.add(serial, b"".join(dice.choices(words, k=60)))
    texts = list(fragments._texts.values())
    payloads = []
    for _ in range(150):
        begins = [dice.randrange(len(min(texts, key=len))) for _ in range(5)]
        quoted = [dice.choice(texts)[b : b + dice.randrange(15, 60)] for b in begins]
        payloads.append(b"".join([*quoted, *dice.choices(words, k=20)]))
    told = [list(fragments.within(payload)) for payload in payloads]
    assert sum(map(len, told)) > 150
    fragments._marks.rows = every  # type: ignore[method-assign]
    assert told == [list(fragments.within(payload)) for payload in payloads]


def test_a_longer_piece_further_on_takes_no_place_of_one_that_is_near() -> None:
    """What stands before the first is known from elsewhere, and goes on nowhere."""
    payload = b"hdfffafeadbdcfgbcheagdbgadbdabhegaedhcdhcfdgddahaahfchdceceagbhaehghddebegdhfeef"
    fragments = Fragments()
    fragments.add(1, b"e" + payload[26:54] + b"bfd")
    fragments.add(2, b"fgfhf" + payload[32:70] + b"dhh")
    fragments.add(3, b"ddb" + payload[24:38] + b"dae")
    assert found(fragments, payload) == {payload[26:54]: frozenset({1})}


def test_a_piece_is_told_in_its_whole_length_and_in_all_the_texts_that_have_it() -> None:
    piece = b"thelaunchcodeoftheeasternsilo"
    fragments = Fragments()
    fragments.add(1, b"first" + piece + b"one")
    fragments.add(2, b"nothingofthekindstandsinthisone")
    fragments.add(3, b"andagain" + piece + b"two")
    assert found(fragments, b"xx" + piece + b"yy") == {piece: frozenset({1, 3})}
    assert found(fragments, b"xx" + piece + b"twoyy") == {piece + b"two": frozenset({3})}
    fragments.drop(1)
    assert found(fragments, b"xx" + piece + b"yy") == {piece: frozenset({3})}
    fragments.add(4, b"oragain" + piece + b"two")
    fragments.add(5, b"oragain" + piece + b"ten")
    fragments.drop(4)
    assert found(fragments, b"xx" + piece + b"yy") == {piece: frozenset({3, 5})}


@given(st.lists(LETTERS, max_size=6), st.integers(0, 6))
def test_a_dropped_text_leaves_no_trace(texts: list[bytes], dropped: int) -> None:
    every, kept = Fragments(), Fragments()
    for serial, text in enumerate(texts, start=1):
        every.add(serial, text)
        if serial > dropped:
            kept.add(serial, text)
    for serial in range(1, dropped + 1):
        every.drop(serial)
    assert every._texts == kept._texts
    assert {g: s for g, s in every._grams.items() if g not in kept._grams} == {}
    for text in texts:
        assert found(every, text) == found(kept, text)


def test_of_texts_that_share_all_they_have_the_newest_are_told() -> None:
    text = b"thelaunchcodeoftheeasternsilo"
    fragments = Fragments()
    for serial in range(1, 12):
        fragments.add(serial, text)
    assert found(fragments, text) == {text: frozenset(range(4, 12))}
    assert max(len(s) for s in fragments._grams.values() if isinstance(s, tuple)) == 8


def test_pieces_are_found_however_many_texts_there_are_and_were_forgotten() -> None:
    dice = random.Random(2)
    fragments = Fragments()
    texts = {n: bytes(dice.choices(b"etaoinshrdlu", k=dice.randrange(3000))) for n in range(1, 90)}
    for serial, text in texts.items():
        fragments.add(serial, text)
        if serial > 40:
            fragments.drop(serial - 40)
    for serial, text in texts.items():
        pieces = [text[at : at + 40] for at in range(0, len(text) - 40, 200)]
        told = [found(fragments, b"!!" + piece + b"??") for piece in pieces]
        assert told == [{piece: frozenset({serial})} if serial > 49 else {} for piece in pieces]


def test_the_first_text_is_found_however_many_come() -> None:
    dice = random.Random(4)
    fragments = Fragments()
    first = b"thelaunchcodeoftheeasternsilo"
    fragments.add(1, first)
    for serial in range(2, 40):
        fragments.add(serial, bytes(dice.choices(range(97, 123), k=1000)))
        assert found(fragments, first) == {first: frozenset({1})}


def test_what_is_forgotten_leaves_no_mark() -> None:
    fragments = Fragments()
    for serial in range(1, 20):
        fragments.add(serial, b"thelaunchcodeoftheeasternsilo%d" % serial * serial)
    for serial in range(1, 20):
        fragments.drop(serial)
        fragments.drop(serial)
    assert not fragments._grams
    assert not fragments._marks._counts.any()
    assert fragments._many == 0


def test_few_of_what_no_text_has_is_looked_at() -> None:
    """Whether the marks are enough for the texts: else it is found all the same, and late."""
    dice = random.Random(3)
    fragments = Fragments()
    for serial in range(1, 80):
        fragments.add(serial, bytes(dice.choices(range(97, 123), k=3000)))
        payload = bytes(dice.choices(range(97, 123), k=3000))
        assert len(fragments._marks.rows(_grams_of(payload))) < 15


def test_work_is_bounded_whatever_repeats() -> None:
    fragments = Fragments()
    fragments.add(1, b"a" * 500_000 + b"b")
    compared = 0
    longest = fragments._longest

    def counted(*given: object) -> tuple[int, int, int]:
        nonlocal compared
        compared += 1
        return longest(*given)  # type: ignore[arg-type]

    fragments._longest = counted  # type: ignore[method-assign,assignment]
    list(fragments.within((b"a" * 30 + b"c") * 2000))
    assert compared < 300


def test_a_mark_that_was_counted_to_the_end_stays() -> None:
    """Else a text that is forgotten would take another's mark with it."""
    piece = b"thelaunchcodeoftheeasternsilo"
    fragments = Fragments()
    for serial in range(1, 301):
        fragments.add(serial, piece)
    for serial in range(1, 300):
        fragments.drop(serial)
    assert found(fragments, piece) == {piece: frozenset({300})}


def test_what_only_seems_to_be_known_is_looked_at_so_often() -> None:
    fragments = Fragments()
    fragments.add(1, b"!" * 30)
    looks = 0

    def nowhere(grams: object, at: int) -> dict[int, int]:
        nonlocal looks
        looks += 1
        return {}

    fragments._marks.rows = every  # type: ignore[method-assign]
    fragments._near = nowhere  # type: ignore[method-assign]
    assert list(fragments.within(b"!" * 20_000)) == []
    assert 1000 < looks < 10_000

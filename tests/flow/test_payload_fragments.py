import random
import sys

from hypothesis import given
from hypothesis import strategies as st

from gateway.flow.fragments import ALL, SHORTEST_FRAGMENT, SOME, Fragments, mixed

LETTERS = st.text("abcdefgh", max_size=80).map(str.encode)


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
    for before in (b"abcdefghi", b"abcdefghij", b"abcdefghijk"):
        fragments = Fragments()
        fragments.add(1, before + piece + b"klmnopqrs")
        for begin in range(10, 14):
            payload = b"!" * begin + piece + b"?" * 9
            assert found(fragments, payload) == {piece: frozenset({1})}, (before, begin)


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


def test_what_goes_on_nowhere_hides_no_piece() -> None:
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
    fragments._may_begin = lambda *_: True  # type: ignore[method-assign]
    assert told == [list(fragments.within(payload)) for payload in payloads]


def test_a_longer_piece_further_on_takes_no_place_of_one_that_is_near() -> None:
    """What stands before the first is known from elsewhere, and goes on nowhere."""
    payload = b"hdfffafeadbdcfgbcheagdbgadbdabhegaedhcdhcfdgddahaahfchdceceagbhaehghddebegdhfeef"
    fragments = Fragments()
    fragments.add(1, b"e" + payload[26:54] + b"bfd")
    fragments.add(2, b"fgfhf" + payload[32:70] + b"dhh")
    fragments.add(3, b"ddb" + payload[24:38] + b"dae")
    assert found(fragments, payload) == {payload[26:54]: frozenset({1})}


def test_whether_a_payload_is_turned_round_is_told_from_how_it_stands() -> None:
    text = bytes(97 + (i * i + i // 7) % 26 for i in range(300))
    fragments = Fragments()
    fragments.add(1, text)
    for begin in range(60):
        payload = b"!" * (begin % 9) + text[begin : begin + 37 + begin % 5]
        assert fragments.may_be_turned(mixed(payload[::-1])), begin
        assert not fragments.may_be_turned(mixed(payload)), begin
    assert not fragments.may_be_turned(b"")


@given(LETTERS, LETTERS)
def test_what_is_not_known_turned_round_has_no_piece_there(text: bytes, payload: bytes) -> None:
    fragments = Fragments()
    fragments.add(1, text + text[::-1])
    may_be = fragments.may_be_turned(mixed(payload))
    assert may_be == bool(fragments._hits(mixed(payload[::-1]), SOME))


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


@given(LETTERS, st.lists(LETTERS, max_size=6), st.sampled_from([ALL, SOME]))
def test_every_place_where_a_known_gram_begins_is_a_hit(
    text: bytes, other: list[bytes], step: int
) -> None:
    fragments = Fragments()
    fragments.add(1, text + b"thelaunchcodeoftheeasternsilo")
    payload = b"".join([*other, text, b"thelaunchcodeofthe", *other, b"thelaunchcodeofthe"])
    blend = mixed(payload)
    found = fragments._hits(blend, step)
    places = range(0, len(blend) // 4 * 4, 4 * step)
    grams = {at: int.from_bytes(blend[at : at + 4], sys.byteorder) for at in places}
    known = [at for at in places if grams[at] in fragments._grams]
    assert list(found.items()) == [(at, fragments._grams[grams[at]]) for at in known]


def test_with_some_places_longer_pieces_are_found_at_any_offset() -> None:
    text = bytes(97 + (i * i + i // 7) % 26 for i in range(300))
    fragments = Fragments()
    fragments.add(1, text)
    for begin in range(60):
        payload = b"!" * (begin % 9) + text[begin : begin + 55]
        assert list(fragments.within(payload, SOME)), begin


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

"""Which pieces of earlier texts a text contains, in time linear in both.

This explains, it does not protect: text that was reworded is not found, which is why labels, and
not matches, decide what may go where.
"""

from array import array
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import chain, compress, repeat
from struct import Struct
from typing import TypeAlias

from gateway.domain._value import value

SHORTEST_FRAGMENT = 25
"""Letters and digits in a row that are a piece of a text."""

LONGEST_SCANNED = 64 * 1024
"""Characters of a payload that are looked at."""

_GRAM = 14
"""Bytes of text that one gram stands for."""

_MIXED, _UNIT = 4, "I"
"""Bytes of a gram: what C reads as one integer, so that no loop of ours does."""

_gram_at = Struct(f"={_UNIT}").unpack_from

ALL, SOME = 1, 2
"""Of a payload's grams, which stand side by side, each one or every other. With the latter it takes
half the time, and finds pieces of 37 and more."""

_STRIDE = 3
"""Between the grams of a text. It has no divisor in common with the four between a payload's, so one
place in twelve is both, and any 25 bytes that are common contain a gram that begins at one."""

_IN_A_PIECE = (SHORTEST_FRAGMENT - _GRAM + 1) // _STRIDE
"""Grams of a text that stand in each of its pieces, one after another."""

_REACH = 10
_EVEN = bytes(blake2b(bytes([c]), digest_size=1).digest()[0] for c in range(256))
"""Letters are unevenly frequent, and their neighbours more so. Three of them at a distance, mixed,
make a byte of which each value is about as frequent as any other: else a table of grams is slow. A
text that is turned round has the same bytes, turned round."""

_MOST_TEXTS = 8
"""Of those that share a gram, the newest."""

_MOST_PLACES = 4
"""Of one gram in one text, the first."""

_MOST_COMPARED = 2 * 1024 * 1024
"""Bytes of texts that are looked through for one payload; whatever it repeats, it costs no more."""

_LONGEST_BACK = 64

_SIDE_BY_SIDE = 32
"""Grams of a payload that are looked up at once: where the known ones stand is searched among so many."""

Serials: TypeAlias = int | tuple[int, ...]


@value
class Piece:
    """Where a piece stands in a payload, and in which texts."""

    begin: int
    end: int
    serials: frozenset[int]


class Fragments:
    """Folded texts by serial number, searchable for pieces."""

    def __init__(self) -> None:
        self._texts: dict[int, bytes] = {}
        self._grams: dict[int, Serials] = {}
        """Gram -> the texts that have it, oldest first. Most have one, and share its number."""

    def add(self, serial: int, text: bytes) -> None:
        """Remember `text`; `serial` is positive, and greater than every one before."""
        self._texts[serial] = text
        grams: dict[int, Serials] = dict.fromkeys(_grams_of(text), serial)
        for gram in self._grams.keys() & grams.keys():
            known = _several(self._grams[gram])
            grams[gram] = (*known[1 - _MOST_TEXTS :], serial)
        self._grams.update(grams)

    def drop(self, serial: int) -> None:
        """Forget the text `serial`, if it is there."""
        grams = list(_grams_of(self._texts.pop(serial, b"")))
        # Most have no other text: all are taken out, and the few others put back.
        taken_out = map(self._grams.pop, grams, repeat(None))
        for gram, known in zip(grams, taken_out, strict=True):
            if known is not None and known != serial:
                left = tuple(one for one in _several(known) if one != serial)
                self._grams[gram] = left if len(left) > 1 else left[0]

    def has(self, serial: int, piece: bytes) -> bool:
        return piece in self._texts[serial]

    def may_be_turned(self, blend: bytes) -> bool:
        """Tell whether `within` may find longer pieces in a payload that is turned round.

        `blend` is what `mixed` makes of the payload as it stands.
        """
        grams = _grams_from(blend, len(blend) % _MIXED)[::-SOME]
        grams.byteswap()
        return not self._grams.keys().isdisjoint(grams.tolist())

    def within(
        self, payload: bytes, step: int = ALL, *, blend: bytes | None = None
    ) -> Iterator[Piece]:
        """Yield the pieces of texts that `payload` contains, from left to right, none overlapping.

        Of pieces around one place the longest counts, in all the texts that have it. `blend` is what
        `mixed` makes of the payload, if that is known.
        """
        blend = mixed(payload) if blend is None else blend
        hits = self._hits(blend, step)
        left = _MOST_COMPARED
        floor = 0
        for at, serials in hits.items():
            if at < floor or left < 0 or (step == ALL and not self._may_begin(blend, at, hits)):
                continue
            begin = end = at
            near = _near(hits, at, serials)
            for serial, place in near.items():
                start, reached, looked = self._longest(payload, place, floor, serial)
                left -= looked
                if reached - start > end - begin:
                    begin, end = start, reached
            if end - begin >= SHORTEST_FRAGMENT:
                left -= sum(len(self._texts[serial]) for serial in near)
                piece = payload[begin:end]
                sharing = frozenset(serial for serial in near if piece in self._texts[serial])
                yield Piece(begin=begin, end=end, serials=sharing)
                floor = end

    def _hits(self, blend: bytes, step: int) -> Mapping[int, Serials]:
        """Return where grams begin that some text has, from left to right, and which ones do."""
        grams = _grams_from(blend, 0)[::step].tolist()
        hits: dict[int, Serials] = {}
        for begin in range(0, len(grams), _SIDE_BY_SIDE):
            beside = grams[begin : begin + _SIDE_BY_SIDE]
            if found := self._grams.keys() & beside:
                places = compress(range(len(beside)), map(found.__contains__, beside))
                hits.update(
                    (_MIXED * step * (begin + at), self._grams[beside[at]]) for at in places
                )
        return hits

    def _may_begin(self, blend: bytes, at: int, hits: Mapping[int, Serials]) -> bool:
        """Tell whether a piece may stand around the hit `at`, or around one that is near."""
        near = [at + place for place in _FURTHER_ON if at + place in hits]
        return self._goes_on(blend, at) or any(self._goes_on(blend, place) for place in near)

    def _goes_on(self, blend: bytes, at: int) -> bool:
        """Tell whether so many known grams stand around the hit `at` as in any piece.

        Most hits are a word or two that are everywhere, and are told from a piece without a text.
        """
        grams, left, last = self._grams, _IN_A_PIECE - 1, len(blend) - _MIXED
        for step in (_STRIDE, -_STRIDE):
            place = at + step
            while left and 0 <= place <= last and _gram_at(blend, place)[0] in grams:
                left -= 1
                place += step
        return not left

    def _longest(self, payload: bytes, at: int, floor: int, serial: int) -> tuple[int, int, int]:
        """Return the longest piece around the gram at `at`, and how much was looked at."""
        text = self._texts[serial]
        beyond = at + _GRAM
        gram, after = payload[at:beyond], payload[beyond : beyond + _AFTER]
        before = payload[max(0, at - _BEFORE) : at]
        begin = end = at
        there = -1
        looked = 0
        for _ in range(_MOST_PLACES):
            there = text.find(gram, there + 1)
            if there < 0:
                return begin, end, looked + len(text)
            # Most is a word or two, and is known to be no piece by what stands beside it.
            if not (
                text.startswith(after, there + _GRAM) or text.startswith(before, there - _BEFORE)
            ):
                continue
            start = at - _common_length_before(payload, at, text, there, at - floor)
            reached = at + _common_length(payload, at, text, there)
            looked += reached - start
            if reached - start > end - begin:
                begin, end = start, reached
        return begin, end, looked + there


def _near(hits: Mapping[int, Serials], at: int, serials: Serials) -> dict[int, int]:
    """Return the texts that have a gram at `at`, which are `serials`, or a little further on, and where.

    Texts that have the same piece have their grams at different places of it.
    """
    found: dict[int, int] = {}
    for place in _FURTHER_ON:
        if more := hits.get(at + place):
            found.update(dict.fromkeys(_several(more), at + place))
    found.update(dict.fromkeys(_several(serials), at))
    return found


_FURTHER_ON = range(_MIXED * (_STRIDE - 1), 0, -_MIXED)


def _several(serials: Serials) -> tuple[int, ...]:
    return serials if isinstance(serials, tuple) else (serials,)


def mixed(text: bytes) -> bytes:
    """Return a byte for each place of `text`, made of what stands there and a little further on."""
    if len(text) <= _REACH:
        return b""
    even = int.from_bytes(text.translate(_EVEN), "big")
    blend = even ^ (even >> 8 * _REACH // 2) ^ (even >> 8 * _REACH)
    return blend.to_bytes(len(text), "big")[_REACH:]


def _grams_from(blend: bytes, begin: int) -> "array[int]":
    """Return the grams of `blend` that stand side by side from `begin` on."""
    whole = max(len(blend) - begin, 0) // _MIXED * _MIXED
    return array(_UNIT, blend[begin : begin + whole])


def _grams_of(text: bytes) -> Iterator[int]:
    """Return the grams that begin at multiples of `_STRIDE`."""
    blend = mixed(text)
    begins = range(0, _MIXED * _STRIDE, _STRIDE)
    return chain.from_iterable(_grams_from(blend, begin)[::_STRIDE] for begin in begins)


_AFTER = 5
_BEFORE = SHORTEST_FRAGMENT - _GRAM - _AFTER + 1
"""Bytes that a piece has at least of one side of a gram, if it has fewer on the other."""


def _common_length_before(one: bytes, at: int, other: bytes, there: int, most: int) -> int:
    """Return how many bytes, at most `most`, are the same before `at` and before `there`."""
    most = min(most, there, _LONGEST_BACK)
    return _common_length(one[at - most : at][::-1], 0, other[there - most : there][::-1], 0)


def _common_length(one: bytes, at: int, other: bytes, there: int) -> int:
    """Return how many bytes are the same from `at` in `one` and `there` in `other`."""
    most = min(len(one) - at, len(other) - there)
    low = 0
    step = SHORTEST_FRAGMENT
    # Doubling steps while they match, then halving: slices compare at C speed.
    while low < most and step:
        high = min(low + step, most)
        if one[at + low : at + high] == other[there + low : there + high]:
            low, step = high, step * 2
        else:
            step //= 2
    return low

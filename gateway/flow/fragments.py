"""Which pieces of earlier texts a text contains, in time linear in both.

This explains, it does not protect: text that was reworded is not found, which is why labels, and
not matches, decide what may go where.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from struct import Struct, unpack_from
from typing import TypeAlias

from gateway.domain._value import value

SHORTEST_FRAGMENT = 25
"""Letters and digits in a row that are a piece of a text."""

LONGEST_SCANNED = 64 * 1024
"""Characters of a payload that are looked at."""

ALL, SOME = (0, 2, 4, 6), (0,)
"""Places of eight at which grams of a payload are looked for. With one of them it takes a quarter of
the time, and finds pieces of 55 and more."""

_GRAM = 16
"""Bytes of text that one gram stands for."""

_MIXED = 8
"""Bytes of a gram: what C reads as one integer, so that no loop of ours does."""

_STRIDE = 5
"""Between the grams of a text. It has no divisor in common with the two between a payload's, so one
place in ten is both, and any 25 bytes that are common contain a gram that begins at one."""

_SHIFTS = (0, 4, 8)
_TABLES = [
    bytes(blake2b(bytes([shift, c]), digest_size=1).digest()[0] for c in range(256))
    for shift in _SHIFTS
]
"""Letters are unevenly frequent, and their neighbours more so. Three of them at a distance, mixed,
make a byte of which each value is about as frequent as any other: else a table of grams is slow."""

_MOST_TEXTS = 8
"""Of those that share a gram, the newest."""

_MOST_PLACES = 4
"""Of one gram in one text, the first."""

_MOST_COMPARED = 2 * 1024 * 1024
"""Bytes of texts that are looked through for one payload; whatever it repeats, it costs no more."""

_LONGEST_BACK = 64

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
        grams = _grams_of(text)
        shared = self._grams.keys() & grams
        for gram in shared:
            known = _several(self._grams[gram])
            self._grams[gram] = (*known[1 - _MOST_TEXTS :], serial)
        self._grams.update(dict.fromkeys(grams - shared, serial))

    def drop(self, serial: int) -> None:
        """Forget the text `serial`, if it is there."""
        for gram in _grams_of(self._texts.pop(serial, b"")):
            left = tuple(one for one in _several(self._grams.get(gram, ())) if one != serial)
            if left:
                self._grams[gram] = left if len(left) > 1 else left[0]
            else:
                self._grams.pop(gram, None)

    def has(self, serial: int, piece: bytes) -> bool:
        return piece in self._texts[serial]

    def within(self, payload: bytes, starts: Sequence[int] = ALL) -> Iterator[Piece]:
        """Yield the pieces of texts that `payload` contains, from left to right, none overlapping.

        Of pieces around one place the longest counts, in all the texts that have it.
        """
        hits = self._hits(payload, starts)
        left = _MOST_COMPARED
        floor = 0
        for at in sorted(hits):
            if at < floor or left < 0:
                continue
            begin = end = at
            near = _near(hits, at)
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

    def _hits(self, payload: bytes, starts: Sequence[int]) -> dict[int, Serials]:
        """Return where grams begin that some text has, and which ones do."""
        hits: dict[int, Serials] = {}
        mixed = _mixed(payload)
        for start in starts:
            count = (len(mixed) - start) // _MIXED
            if count <= 0:
                continue
            grams = unpack_from(f"={count}Q", mixed, start)
            if self._grams.keys().isdisjoint(grams):
                continue  # nearly always, and the quickest to find out
            places = range(start, len(payload), _MIXED)
            hits.update(
                (at, self._grams[gram])
                for at, gram in zip(places, grams, strict=False)
                if gram in self._grams
            )
        return hits

    def _longest(self, payload: bytes, at: int, floor: int, serial: int) -> tuple[int, int, int]:
        """Return the longest piece around the gram at `at`, and how much was looked at."""
        text = self._texts[serial]
        gram = payload[at : at + _GRAM]
        begin = end = at
        there = -1
        looked = 0
        for _ in range(_MOST_PLACES):
            there = text.find(gram, there + 1)
            if there < 0:
                return begin, end, looked + len(text)
            start = at - _common_length_before(payload, at, text, there, at - floor)
            reached = at + _common_length(payload, at, text, there)
            looked += reached - start
            if reached - start > end - begin:
                begin, end = start, reached
        return begin, end, looked + there


def _near(hits: Mapping[int, Serials], at: int) -> dict[int, int]:
    """Return the texts that have a gram at `at` or a little further on, and where.

    Texts that have the same piece have their grams at different places of it.
    """
    places = range(at + 2 * _STRIDE - 1, at - 1, -1)
    return {serial: place for place in places for serial in _several(hits.get(place, ()))}


def _several(serials: Serials) -> tuple[int, ...]:
    return serials if isinstance(serials, tuple) else (serials,)


def _mixed(text: bytes) -> bytes:
    """Return a byte for each place of `text`, made of what stands there and a little further on."""
    size = max(len(text) - _SHIFTS[-1], 0)
    found = 0
    for shift, table in zip(_SHIFTS, _TABLES, strict=True):
        found ^= int.from_bytes(text[shift : shift + size].translate(table), "big")
    return found.to_bytes(size, "big")


_AT_INTERVALS = Struct(f"=Q{_MIXED * _STRIDE - _MIXED}x")
"""A gram, and as much as brings the next one to a place of the same kind."""


def _grams_of(text: bytes) -> set[int]:
    """Return the grams that begin at multiples of `_STRIDE`."""
    grams: set[int] = set()
    mixed = _mixed(text)
    places = len(mixed) - _MIXED + 1
    row = _AT_INTERVALS.size
    for begin in range(0, min(row, places), _STRIDE):
        size = -(-(places - begin) // row) * row
        padded = mixed[begin : begin + size].ljust(size, b"\0")
        grams.update(chain.from_iterable(_AT_INTERVALS.iter_unpack(padded)))
    return grams


def _common_length_before(one: bytes, at: int, other: bytes, there: int, most: int) -> int:
    """Return how many bytes, at most `most`, are the same before `at` and before `there`."""
    most = min(most, there, _LONGEST_BACK)
    same = 0
    while same < most and one[at - same - 1] == other[there - same - 1]:
        same += 1
    return same


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

"""Which pieces of earlier texts a text contains, in time linear in both.

This explains, it does not protect: text that was reworded is not found, which is why labels, and
not matches, decide what may go where.
"""

import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import repeat
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gateway.domain._value import value
from gateway.flow.folding import IS_KEPT, folded

SHORTEST_FRAGMENT = 25
"""Letters and digits in a row that are a piece of a text."""

LONGEST_SCANNED = 64 * 1024
"""Characters of a payload that are looked at."""

_GRAM = 14
"""Bytes of text that one gram stands for."""

_MIXED = 4
"""Bytes of a gram: what is read as one integer, so that no loop of ours does."""

_BEGINS = SHORTEST_FRAGMENT - _GRAM + 1
"""Grams that begin in each piece, at one place after another."""

_STRIDE = 3
"""Between the grams of a text whose marks are kept: four in a row stand in each of its pieces."""

_KEPT = _BEGINS
"""Between those that are kept themselves: one stands in each of its pieces."""

_ROW = np.arange(0, _BEGINS, _STRIDE)
"""As many that are marked as each piece has, one of which is kept."""

_MANY_ROWS = 64
"""From which on it is quicker to look through all the payload than at each row by itself."""

_SPREAD = np.uint32(0x9E3779B1)
"""Odd, so that what differs still does; it carries all of a gram into the bits that are its mark."""

_HALFWAY, _REACH = 5, 10
_EVEN = bytes(blake2b(bytes([c]), digest_size=1).digest()[0] for c in range(256))
"""Letters are unevenly frequent, and their neighbours more so. Three of them at a distance, mixed,
make a byte of which each value is about as frequent as any other: else marks meet."""

_MARKS_A_GRAM = 5
"""Marks there are for each gram: of grams that no text has about one in six is marked, and of four in a
row one in a thousand."""
_FEWEST_MARKS, _MOST_MARKS = 10, 19
"""Bits of a gram that are its mark."""
_MOST_COUNTED = 255

_MOST_TEXTS = 8
"""Of those that share a gram, the newest."""

_MOST_PLACES = 4
"""Of one gram in one text, the first."""

_MOST_COMPARED = 2 * 1024 * 1024
"""Bytes of texts that are looked through for one payload; whatever it repeats, it costs no more."""

_A_LOOK = 256
"""Bytes that the search for texts around one place is reckoned as."""

_LONGEST_BACK = 64

Grams: TypeAlias = npt.NDArray[np.uint32]
Places: TypeAlias = npt.NDArray[np.intp]
Serials: TypeAlias = int | tuple[int, ...]


@value
class Piece:
    """Where a piece stands in a payload, and in which texts."""

    begin: int
    end: int
    serials: frozenset[int]


class Marks:
    """Which grams some text may have: a few bits of each, and how many texts have these.

    They are few enough to stay near the processor, and are asked about all places of a payload at once.
    A gram and the one that has its bytes backwards share a mark: one look tells of both ways to read.
    """

    def __init__(self, bits: int = _FEWEST_MARKS) -> None:
        self._counts = np.zeros(1 << bits, np.uint8)
        """How many texts have each; one that ever had the most that can be counted stays marked."""
        self._shift = np.uint32(8 * _MIXED - bits)
        self.most = (1 << bits) // _MARKS_A_GRAM if bits < _MOST_MARKS else sys.maxsize
        """Grams, from which on there are too few marks."""

    @classmethod
    def for_twice(cls, many: int) -> "Marks":
        """Return marks that are enough until there are twice as `many` grams, if there may be so many."""
        return cls(min((2 * many * _MARKS_A_GRAM).bit_length(), _MOST_MARKS))

    def add(self, grams: Grams) -> None:
        """Mark the `grams` of one text, each mark once."""
        marks = self._of(grams)
        counts = self._counts[marks]
        self._counts[marks] = counts + (counts < _MOST_COUNTED)

    def drop(self, grams: Grams) -> None:
        """Take back what `add` did with the same `grams`."""
        marks = self._of(grams)
        counts = self._counts[marks]
        self._counts[marks] = counts - (counts < _MOST_COUNTED)

    def rows(self, grams: Grams) -> Places:
        """Return where as many marked ones as a piece has stand in a row of the `grams` of a payload.

        Most that are marked are a word or two that are everywhere, and are told from a piece without a text.
        """
        marked = self._counts.take(self._of(grams)).astype(np.bool_)
        for step in (_STRIDE, 2 * _STRIDE):
            marked = marked[:-step] & marked[step:]
        return marked.nonzero()[0]

    def _of(self, grams: Grams) -> Grams:
        marks: Grams = (np.minimum(grams, grams.byteswap()) * _SPREAD) >> self._shift
        return marks


class Fragments:
    """Folded texts by serial number, searchable for pieces."""

    def __init__(self) -> None:
        self._texts: dict[int, bytes] = {}
        self._grams: dict[int, Serials] = {}
        """Gram that is kept -> the texts that have it, oldest first. Most have one, and share its number."""
        self._marks = Marks()
        self._many = 0
        """Grams that were marked."""

    def add(self, serial: int, text: bytes) -> None:
        """Remember `text`; `serial` is positive, and greater than every one before."""
        self._texts[serial] = text
        found = _grams_of(text)
        grams: dict[int, Serials] = dict.fromkeys(found[::_KEPT].tolist(), serial)
        for gram in self._grams.keys() & grams.keys():
            known = _several(self._grams[gram])
            grams[gram] = (*known[1 - _MOST_TEXTS :], serial)
        self._grams.update(grams)
        self._mark(found[::_STRIDE])

    def _mark(self, grams: Grams) -> None:
        self._many += len(grams)
        if self._many <= self._marks.most:
            self._marks.add(grams)
            return
        self._marks = Marks.for_twice(self._many)
        for text in self._texts.values():
            self._marks.add(_grams_of(text)[::_STRIDE])

    def drop(self, serial: int) -> None:
        """Forget the text `serial`, if it is there."""
        found = _grams_of(self._texts.pop(serial, b""))
        self._many -= len(found[::_STRIDE])
        self._marks.drop(found[::_STRIDE])
        grams = found[::_KEPT].tolist()
        # Most have no other text: all are taken out, and the few others put back.
        taken_out = map(self._grams.pop, grams, repeat(None))
        for gram, known in zip(grams, taken_out, strict=True):
            if known is not None and known != serial:
                left = tuple(one for one in _several(known) if one != serial)
                self._grams[gram] = left if len(left) > 1 else left[0]

    def has(self, serial: int, piece: bytes) -> bool:
        return piece in self._texts[serial]

    def within(self, payload: bytes) -> list[Piece]:
        """Return the pieces of texts that `payload` contains, from left to right, none overlapping.

        Of pieces around one place the longest counts, in all the texts that have it.
        """
        grams = _grams_of(payload)
        rows = self._marks.rows(grams)
        return self._pieces(payload, grams, rows) if self._has_any(_in(rows, grams)) else []

    def both_ways(self, payload: bytes) -> tuple[list[Piece], list[Piece]]:
        """Return the pieces `within` a payload, and those within the same bytes backwards."""
        grams = _grams_of(payload)
        rows = self._marks.rows(grams)
        inner = _in(rows, grams)
        forwards = self._pieces(payload, grams, rows) if self._has_any(inner) else []
        if not self._has_any(inner.byteswap()):
            return forwards, []
        turned = (len(grams) - 1 - _ROW[-1] - rows)[::-1]
        return forwards, self._pieces(payload[::-1], grams.byteswap()[::-1], turned)

    def _has_any(self, grams: Grams) -> bool:
        """Tell whether one of `grams` is kept: few payloads have one, and most are left at that."""
        return not self._grams.keys().isdisjoint(grams.tolist())

    def _pieces(self, payload: bytes, grams: Grams, rows: Places) -> list[Piece]:
        return list(self._longest_of(payload, grams, rows.tolist()))

    def _longest_of(self, payload: bytes, grams: Grams, rows: list[int]) -> Iterator[Piece]:
        left = _MOST_COMPARED
        number = floor = 0
        while number < len(rows) and left >= 0:
            at = begin = end = rows[number]
            number += 1
            left -= _A_LOOK
            if not self._has_any(grams[at : at + _BEGINS : _STRIDE]):
                continue
            near = self._near(grams, at)
            for serial, place in near.items():
                start, reached, looked = self._longest(payload, place, floor, serial)
                left -= looked
                # One that begins further on is found there, and takes no place of one that is near.
                if reached - start > end - begin and start < at + _STRIDE:
                    begin, end = start, reached
            if end - begin >= SHORTEST_FRAGMENT:
                left -= sum(len(self._texts[serial]) for serial in near)
                piece = payload[begin:end]
                sharing = frozenset(serial for serial in near if piece in self._texts[serial])
                yield Piece(begin=begin, end=end, serials=sharing)
                floor = end
                number = bisect_left(rows, floor, number)

    def _near(self, grams: Grams, at: int) -> dict[int, int]:
        """Return the texts that have one of the `grams` of a piece that begins at `at`, and where the first is.

        Texts that have the same piece have kept grams at different places of it.
        """
        beside = grams[at : at + _BEGINS].tolist()
        found: dict[int, int] = {}
        for place, gram in enumerate(beside, at):
            if gram in self._grams:
                for serial in _several(self._grams[gram]):
                    found.setdefault(serial, place)
        return found

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


def _in(rows: Places, grams: Grams) -> Grams:
    """Return those of `grams` that stand in `rows`, each once where there are many."""
    places = rows[:, None] + _ROW
    inner = places.ravel()
    if len(rows) >= _MANY_ROWS:
        inner = np.zeros(len(grams), np.bool_)
        inner[places] = True
    found: Grams = grams[inner]
    return found


def _several(serials: Serials) -> tuple[int, ...]:
    return serials if isinstance(serials, tuple) else (serials,)


def _grams_of(text: bytes) -> Grams:
    """Return the gram that begins at each place of `text`.

    For each place a byte is made of what stands there and a little further on, and of four the gram: of the
    same letters backwards it has the same bytes backwards.
    """
    if len(text) < _GRAM:
        return np.empty(0, np.uint32)
    even = np.frombuffer(text.translate(_EVEN), np.uint8)
    blend = even[:-_REACH] ^ even[_HALFWAY:-_HALFWAY] ^ even[_REACH:]
    grams: Grams = np.ndarray(len(blend) - _MIXED + 1, "<u4", buffer=blend, strides=(1,))
    return grams.copy()


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


def unfolded(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[str]:
    """Yield what stands in `text` for each of `spans` of `folded(text)`: none is empty."""
    places = _places_of(text)
    for begin, end in spans:
        yield text[places[begin] : places[end - 1] + 1]


def _places_of(text: str) -> Sequence[int] | Places:
    """Return where in `text` each byte of its letters stands."""
    if text.isascii():
        return np.frombuffer(text.encode().translate(IS_KEPT), np.bool_).nonzero()[0]
    return [at for at, c in enumerate(text) for _ in folded(c)]

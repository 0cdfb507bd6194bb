"""Which earlier results of a run are found again in what a call carries."""

import re
from collections.abc import Collection, Iterator
from itertools import islice

from gateway.domain._value import value
from gateway.domain.flow import Match
from gateway.domain.labels import Confidentiality
from gateway.flow.decoding import Decoded, decoded_forms
from gateway.flow.folding import BOUNDARY, folded, is_disguised, revealed
from gateway.flow.fragments import (
    LONGEST_SCANNED,
    SHORTEST_FRAGMENT,
    Fragments,
    Piece,
    unfolded,
)
from gateway.flow.index import Index
from gateway.flow.telling import IN_A_PIECE, IN_A_VALUE, codes_in, tells

SHORTEST_VALUE = 4
"""Characters. Shorter ones are equal by chance; only a field declared to hold ids proves them."""

MOST_SEARCHABLE = 384 * 1024
"""Bytes of a run's folded results, decoded forms included; the oldest are forgotten beyond it."""

_LINK = re.compile(r"(?:https?://|www\.)[^\s<>\"'\\]{2,2048}", re.IGNORECASE)
_WWW = b"www"
"""What the letters of a link have that begins with no scheme."""
_AFTER_LINK = ".,;:!?)]}*"
_MOST_LINKS = 16
_END = BOUNDARY.encode()

_KINDS = ("exact", "fragment", "link")
_REVERSED = "reversed"
_SPREAD = 1.75
"""How many times as long as its letters a text is in which something stands between all of them."""


@value
class _Text:
    """A result's text, or one that was encoded in it."""

    record: str
    level: Confidentiality
    how: str
    text: bytes
    values: frozenset[bytes]
    codes: frozenset[bytes]
    asked: bytes


class Payloads:
    """The texts of a run's results by serial number, searchable for what a payload has of them."""

    def __init__(self, *, octets: int = MOST_SEARCHABLE) -> None:
        self._most_octets = octets
        self._octets = 0
        self._texts: dict[int, _Text] = {}
        """By a number of their own: a result has one, and one more for each encoded text."""
        self._number = 0
        self._numbers: dict[int, range] = {}
        """Of each result's texts, those that are forgotten included."""
        self._fragments = Fragments()
        self._values: Index[bytes, int] = Index()
        self._codes: Index[bytes, int] = Index()

    def add(
        self,
        serial: int,
        record: str,
        texts: Collection[str],
        asked: Collection[str],
        level: Confidentiality,
    ) -> None:
        """Remember the `texts` of a result; `serial` is greater than every one before.

        `asked` is what the call itself had carried, which is no evidence when it comes back. `level`
        is how confidential the result is.
        """
        carried = folded(_joined(asked))
        plain = _joined(dict.fromkeys(texts))[: self._most_octets]
        first = self._number + 1
        for form in (Decoded(text=plain, how=""), *decoded_forms(plain)):
            self._add(_text(record, level, form, carried))
        self._numbers[serial] = range(first, self._number + 1)
        while self._octets > self._most_octets:
            self._forget(next(iter(self._texts)))

    def _add(self, text: _Text) -> None:
        self._number += 1
        self._texts[self._number] = text
        self._octets += len(text.text)
        self._fragments.add(self._number, text.text)
        self._values.add(self._number, text.values)
        self._codes.add(self._number, text.codes)

    def drop(self, serial: int) -> None:
        """Forget the result `serial`, if it is there."""
        for number in self._numbers.pop(serial, ()):
            if number in self._texts:
                self._forget(number)

    def _forget(self, number: int) -> None:
        text = self._texts.pop(number)
        self._octets -= len(text.text)
        self._fragments.drop(number)
        self._values.drop(number, text.values)
        self._codes.drop(number, text.codes)

    def matches(self, text: str, known: str = "") -> tuple[Match, ...]:
        """Return what of earlier results is in `text`: the whole of it, pieces of it, links.

        `known` is the user's own prompt: what stands wholly there too is no evidence, and neither
        is what says too little to be more than chance. What is found of an encoded text counts in
        the bytes of its decoded form.
        """
        if len(text) < SHORTEST_VALUE or not self._texts:
            return ()
        text = text[:LONGEST_SCANNED].replace(BOUNDARY, " ")
        search = _Search(self._texts, self._fragments, (self._values, self._codes), known)
        search.look(text, "")
        for form in decoded_forms(text):
            search.look(form.text.replace(BOUNDARY, " "), form.how)
        return tuple(search.found())


class _Search:
    """What is found in the forms of one payload."""

    def __init__(
        self,
        texts: dict[int, _Text],
        fragments: Fragments,
        words: tuple[Index[bytes, int], Index[bytes, int]],
        known: str,
    ) -> None:
        self._texts = texts
        self._fragments = fragments
        self._values, self._codes = words
        self._known = known
        self._prompt: bytes | None = None
        self._sizes: dict[tuple[str, str, str], int] = {}
        """Bytes by record, kind and how they were encoded."""
        self._levels: dict[str, Confidentiality] = {}

    def look(self, text: str, how: str) -> None:
        """Look for what is of results in `text`, which was decoded by `how`, or stands there itself."""
        plain = folded(text)
        pieces: list[Piece] = []
        if len(plain) < SHORTEST_FRAGMENT:
            self._look_for_value(text, plain, how)
            if not how:
                self._look_for_value(text[::-1], folded(text[::-1]), _REVERSED)
        else:
            pieces, backwards = self._pieces(text, plain, both_ways=not how)
            if backwards:
                turned = text[::-1]
                self._weigh(turned, folded(turned), _REVERSED, backwards)
        if pieces:
            self._weigh(text, plain, how, pieces)
        self._look_for_codes(text, how, pieces, plain)
        if ("/" in text and "://" in text) or _WWW in plain:
            self._look_for_links(text, how, {n for piece in pieces for n in piece.serials})

    def _pieces(
        self, text: str, plain: bytes, *, both_ways: bool
    ) -> tuple[list[Piece], list[Piece]]:
        """Return the pieces in `text`, and in what it is to whoever turns it round."""
        if both_ways and text.isascii():
            return self._fragments.both_ways(plain)
        turned = folded(text[::-1]) if both_ways else b""
        return self._fragments.within(plain), self._fragments.within(turned)

    def _look_for_value(self, text: str, plain: bytes, how: str) -> None:
        numbers = self._values.having(plain)
        if numbers and tells(revealed(text), IN_A_VALUE) and not self._is_known(plain):
            for number in numbers:
                hidden = how or _hidden(text, plain)
                self._count(number, plain, "exact", hidden, len(_octets(text)))

    def _weigh(self, text: str, plain: bytes, how: str, pieces: list[Piece]) -> None:
        spans = ((piece.begin, piece.end) for piece in pieces)
        for piece, words in zip(pieces, unfolded(text, spans), strict=True):
            letters = plain[piece.begin : piece.end]
            if not tells(revealed(words), IN_A_PIECE) or self._is_known(letters):
                continue
            hidden = how or _hidden(words, letters)
            for number in piece.serials:
                whole = len(letters) == len(plain)
                if whole and self._fragments.has(number, _END + letters + _END):
                    self._count(number, letters, "exact", hidden, len(_octets(text)))
                else:
                    self._count(number, letters, "fragment", hidden, len(_octets(words)))

    def _look_for_codes(self, text: str, how: str, pieces: list[Piece], plain: bytes) -> None:
        for code in codes_in(text):
            letters = folded(code)
            if len(letters) == len(plain) or self._is_known(letters):
                continue  # a whole value is told as one
            for number in self._codes.having(letters):
                if not any(
                    number in p.serials and letters in plain[p.begin : p.end] for p in pieces
                ):
                    self._count(number, letters, "fragment", how, len(code))

    def _look_for_links(self, text: str, how: str, numbers: set[int]) -> None:
        for link in _links(text):
            letters = folded(link)
            if self._is_known(letters):
                continue
            likely = numbers if len(letters) >= SHORTEST_FRAGMENT else self._texts
            for number in likely:
                if self._fragments.has(number, letters):
                    self._count(number, letters, "link", how, len(_octets(link)))

    def _count(self, number: int, letters: bytes, kind: str, how: str, octets: int) -> None:
        text = self._texts[number]
        if letters not in text.asked:
            key = text.record, kind, how or text.how
            self._sizes[key] = self._sizes.get(key, 0) + octets
            self._levels[text.record] = max(text.level, self._levels.get(text.record, text.level))

    def _is_known(self, letters: bytes) -> bool:
        if self._prompt is None:
            self._prompt = folded(self._known)
        return letters in self._prompt

    def found(self) -> Iterator[Match]:
        """Yield the matches by record, and what is found as it is before what was decoded."""
        for record, kind, how in sorted(self._sizes, key=_rank):
            size = self._sizes[record, kind, how]
            # What stands beside an encoded piece is found once more in its decoded form.
            if not how or size > self._plain(record, kind):
                level = self._levels[record]
                yield Match(
                    record=record, kind=kind, bytes=size, decoded=how, confidentiality=level
                )

    def _plain(self, record: str, kind: str) -> int:
        kinds = ("link",) if kind == "link" else ("exact", "fragment")
        return max(self._sizes.get((record, one, ""), 0) for one in kinds)


def _rank(found: tuple[str, str, str]) -> tuple[str, str, int]:
    record, kind, how = found
    return record, how, _KINDS.index(kind)


def _hidden(words: str, letters: bytes) -> str:
    """Return how `words` hide their letters, if they do."""
    if is_disguised(words):
        return "unicode"
    return "spaced" if len(words) >= _SPREAD * len(letters) else ""


def _text(record: str, level: Confidentiality, form: Decoded, asked: bytes) -> _Text:
    text = _END + folded(form.text) + _END
    values = {v for v in text.split(_END) if SHORTEST_VALUE <= len(v) < SHORTEST_FRAGMENT}
    codes = {folded(code) for code in codes_in(form.text)}
    return _Text(
        record=record,
        level=level,
        how=form.how,
        text=text,
        # An id that every call of a run repeats would be found in all its results, and never count.
        values=frozenset(v for v in values if v not in asked),
        codes=frozenset(code for code in codes if code not in asked),
        asked=asked,
    )


def _joined(texts: Collection[str]) -> str:
    return BOUNDARY.join(text.replace(BOUNDARY, " ") for text in texts)


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _links(text: str) -> set[str]:
    found = islice(_LINK.finditer(text[:LONGEST_SCANNED]), _MOST_LINKS)
    return {link[0].rstrip(_AFTER_LINK) for link in found}

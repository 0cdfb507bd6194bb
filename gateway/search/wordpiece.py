"""Text as the numbers of word pieces, as uncased BERT models were trained on (pure)."""

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain

from gateway.domain.normal import normal_pieces

LONGEST = 128
"""Pieces of one text that are looked at."""
_LONGEST_WORD = 100
_HAN = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2CEAF), (0xF900, 0xFAFF))
_ASCII_PUNCTUATION = ((33, 47), (58, 64), (91, 96), (123, 126))


class WordPieces:
    """A vocabulary: one piece a line, `##` before those that continue a word."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary) if piece}
        self._unknown = self._numbers["[UNK]"]
        self._first = self._numbers["[CLS]"]
        self._last = self._numbers["[SEP]"]

    def numbers(self, text: str) -> list[int]:
        """Return the pieces of `text` between the marks of beginning and end, at most 128."""
        found = [self._first]
        for word in _words(text):
            found += self._pieces(word)
            if len(found) >= LONGEST - 1:
                break
        return [*found[: LONGEST - 1], self._last]

    def _pieces(self, word: str) -> list[int]:
        """Return the longest piece first, then the longest that continues; else one unknown."""
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            end = next(
                (e for e in range(len(word), start, -1) if mark + word[start:e] in self._numbers),
                None,
            )
            if end is None:
                return [self._unknown]
            found.append(self._numbers[mark + word[start:end]])
            start = end
        return found


def _words(text: str) -> Iterator[str]:
    """Return words without case and accents; punctuation and Han characters stand alone."""
    word: list[str] = []
    for character in chain.from_iterable(normal_pieces("NFD", text.lower())):
        if _is_dropped(character):
            continue
        if character.isspace() or _stands_alone(character):
            if word:
                yield "".join(word)
                word = []
            if not character.isspace():
                yield character
        else:
            word.append(character)
    if word:
        yield "".join(word)


def _is_dropped(character: str) -> bool:
    category = unicodedata.category(character)
    return category == "Mn" or (category.startswith("C") and character not in "\t\n\r")


def _stands_alone(character: str) -> bool:
    point = ord(character)
    ranges = (*_ASCII_PUNCTUATION, *_HAN)
    return any(low <= point <= high for low, high in ranges) or unicodedata.category(
        character
    ).startswith("P")

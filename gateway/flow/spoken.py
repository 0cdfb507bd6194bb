"""What an outsider's words name: values that stand in running text, where somebody can ask for them.

A list shows values; a sentence asks for one. This is evidence against a value whose own proof is weak,
and never for one: not to be found proves nothing. So what was not heard to its end, or not at all, may have
named any value, and what is forgotten any whose words stood in it.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gateway.flow.decoding import MOST_DECODED, all_forms
from gateway.flow.folding import is_suspicious, revealed
from gateway.flow.index import Index
from gateway.flow.steps import STEP, pieces_of, steps_of

_TOKEN = re.compile(r"[^\W_]+")
_BETWEEN = re.compile(r"[\W_]")
_WORDS_IN_ASCII = bytes(c if chr(c).isalnum() else 32 for c in range(128)).lower().ljust(256)
"""What makes the same words of most texts in less time."""
_MEMBER = re.compile(r"(?:[-*] {1,8})?['\"]?\w[\w-]{0,39}['\"]?[:=] {1,8}")
"""How a line of a record begins, which is no sentence."""
_WORDY = re.compile(r"[^\W\d_]\S*")
"""What has a letter, from there on."""
_URL = re.compile(r"https?://[\w.:-]+(?:/[\w.~/-]*)?")
"""One that carries nothing else; a query may."""
_FEWEST_WORDS = 3
"""Beside the value: fewer are a title, or a name."""
_SHORT = 4
_UNDONE = 8
"""How many times its own length of a text is decoded, in every way and one within the other."""
_LOST_BITS = 20
"""Two to this are the bits that there are for words that are forgotten: 128 KiB."""
_REST, _LAST = np.uint64(64 - _LOST_BITS), np.uint64((1 << _LOST_BITS) - 1)
_OCTET, _IN_IT, _MASKS = np.uint64(3), np.uint64(7), 1 << np.arange(8, dtype=np.uint8)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""Odd: what differs still does."""
_SHORTLY = 64 * 1024
"""Characters whose places are found in a few milliseconds."""
_NUMBERING = frozenset({"id", "no", "nr", "number", "numbers", "ids", "and"})

_Places: TypeAlias = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]


class Spoken:
    """The running text of one result, decoded forms included."""

    def __init__(self, texts: Iterable[str]) -> None:
        said = "\n".join(line for text in texts for line in _sentences(text))
        forms, self.is_whole = all_forms(said, max(MOST_DECODED, _UNDONE * len(said)))
        tokens = [token for text in (said, *forms) for token in (*_tokens(text), "")]
        self._text = f" {' '.join(tokens)} "
        self._long: tuple[frozenset[str], list[_Places]] | None = None
        if len(self._text) > _SHORTLY:
            # Now, for it is forgotten where nothing may take long.
            self._long = self.words, self.places

    @property
    def words(self) -> frozenset[str]:
        return frozenset(_split(self._text)) if self._long is None else self._long[0]

    @property
    def places(self) -> list[_Places]:
        """Where its words are noted once it is forgotten, and each two that stand together."""
        if self._long is not None:
            return self._long[1]
        words = _split(self._text)
        return [_places(words[max(0, at - 1) : at + STEP]) for at in range(0, len(words), STEP)]

    def names(self, wanted: Sequence[str], nouns: Collection[str] = ()) -> bool:
        """Tell whether the words `wanted` stand there together, if few announced by one of `nouns`."""
        phrase = f" {' '.join(wanted)} "
        if sum(map(len, wanted)) >= _SHORT:
            return phrase in self._text
        return any(
            before.rpartition(" ")[2] in _NUMBERING or before.rpartition(" ")[2] in nouns
            for before in self._text.split(phrase)[:-1]
        )


class Voices:
    """What outsiders can have written in several results, found by its words."""

    def __init__(self, *, complete: bool = True) -> None:
        self._texts: dict[int, Spoken] = {}
        self._words: Index[str, int] = Index()
        self._lost: npt.NDArray[np.uint8] | None = None
        """Where the parts of what is forgotten are; what is there may be another's, and what is not was in none."""
        self._misses = not complete
        self.octets = 0
        """Bytes that what is left of the forgotten takes."""

    def add(self, serial: int, spoken: Spoken) -> None:
        self._texts[serial] = spoken
        self._words.add(serial, spoken.words)
        self._misses |= not spoken.is_whole

    def drop(self, serial: int) -> None:
        """Forget what was said under `serial`, but for which words it may have had together."""
        spoken = self._texts.pop(serial, None)
        if spoken is not None:
            self._words.drop(serial, spoken.words)
            self.lose(spoken)

    def lose(self, spoken: Spoken) -> None:
        """Know of `spoken` no more than which words it may have had together."""
        self._misses |= not spoken.is_whole
        for octets, bits in spoken.places:
            if self._lost is None:
                self._lost = np.zeros(1 << _LOST_BITS >> 3, np.uint8)
                self.octets = self._lost.nbytes
            np.bitwise_or.at(self._lost, octets, bits)

    def miss(self) -> None:
        """Know that something was said, and nothing of it: it may have named anything."""
        self._misses = True

    def may_have_named(self, text: str) -> bool:
        """Tell whether `text` may be named in what is forgotten, or was never heard."""
        if self._misses or self._lost is None:
            return self._misses
        octets, bits = _places(_tokens(text))
        return bool(len(octets)) and bool((self._lost[octets] & bits).all())

    def naming(self, text: str, nouns: Collection[str] = ()) -> frozenset[int]:
        """Return under which serials `text` is named."""
        wanted = _tokens(text) if self._texts else []
        having = []
        for word in wanted:
            having.append(self._words.having(word))
            if not having[-1]:
                return _NOBODY
        rarest = min(having, key=len, default=())
        return frozenset(serial for serial in rarest if self._texts[serial].names(wanted, nouns))


_NOBODY: frozenset[int] = frozenset()


def _places(words: Sequence[str]) -> _Places:
    """Return two bits for each word and each two in a row, of which others may have both: bytes, and masks."""
    one = np.fromiter(map(hash, words), np.int64, len(words)).view(np.uint64)
    parts = np.concatenate((one, one[:-1] * _SPREAD + one[1:]))
    bits = np.concatenate((parts >> _REST, parts & _LAST))
    found: npt.NDArray[np.uint64] = bits >> _OCTET
    return found, _MASKS[bits & _IN_IT]


def _sentences(text: str) -> Iterator[str]:
    for line in text.splitlines():
        said = line.strip()
        member = _MEMBER.match(said)
        said = said if member is None else said[member.end() :]
        # Digits in groups are one number, and no words.
        words = islice(_WORDY.finditer(said), _FEWEST_WORDS, None)
        if next(words, None) or (len(said) > _LONG_WORD and not _URL.fullmatch(said)):
            yield said


_LONG_WORD = 40
"""Characters of one that may hide a sentence."""


def _tokens(text: str) -> list[str]:
    if text.isascii():
        return _split(text.encode().translate(_WORDS_IN_ASCII).decode())
    shown = revealed(text) if is_suspicious(text) else text
    plain = "".join(map(str.casefold, steps_of(shown)))
    return [*chain.from_iterable(map(_TOKEN.findall, pieces_of(plain, _BETWEEN)))]


def _split(text: str) -> list[str]:
    if len(text) <= STEP:
        return text.split()
    return [*chain.from_iterable(map(str.split, pieces_of(text, _BETWEEN)))]

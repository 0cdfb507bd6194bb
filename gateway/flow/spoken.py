"""What an outsider's words name: values that stand in running text, where somebody can ask for them.

A list shows values; a sentence asks for one. This is evidence against a value whose own proof is weak,
and never for one: not to be found proves nothing.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

from gateway.flow.decoding import decoded_forms
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
_LONGEST = 64 * 1024
"""Characters of one result that are looked at."""
_NUMBERING = frozenset({"id", "no", "nr", "number", "numbers", "ids", "and"})


class Spoken:
    """The running text of one result, decoded forms included."""

    def __init__(self, texts: Iterable[str]) -> None:
        lines = [line for text in texts for line in _sentences(text)]
        whole = "\n".join(lines)[:_LONGEST]
        shown = [whole, *(form.text for form in decoded_forms(whole))] if whole else []
        tokens = [token for text in shown for token in (*_tokens(text), "")]
        self._text = f" {' '.join(tokens)} "

    @property
    def words(self) -> frozenset[str]:
        return frozenset(self._text.split())

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

    def __init__(self) -> None:
        self._texts: dict[int, Spoken] = {}
        self._words: Index[str, int] = Index()

    def add(self, serial: int, spoken: Spoken) -> None:
        self._texts[serial] = spoken
        self._words.add(serial, spoken.words)

    def drop(self, serial: int) -> None:
        spoken = self._texts.pop(serial, None)
        if spoken is not None:
            self._words.drop(serial, spoken.words)

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


def _sentences(text: str) -> Iterator[str]:
    for line in text[:_LONGEST].splitlines():
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
    split: Callable[[str], list[str]] = str.split
    if text.isascii():
        plain = text.encode().translate(_WORDS_IN_ASCII).decode()
    else:
        shown = revealed(text) if is_suspicious(text) else text
        plain, split = "".join(map(str.casefold, steps_of(shown))), _TOKEN.findall
    if len(plain) <= STEP:
        return split(plain)
    return [*chain.from_iterable(map(split, pieces_of(plain, _BETWEEN)))]

"""What stands word for word: an operator's own values, and passages of their documents, kept as hashes."""

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final

from gateway.domain._value import value
from gateway.flow.folding import words
from gateway.flow.steps import pieces_of

_HEAD: Final = "douane-list 1"
_WORD: Final = re.compile(r"[^\W_]+")
_BETWEEN: Final = re.compile(r"[\W_]")
_MOST_WORDS: Final = 12
"""Of one value; a longer one is a passage."""
SHINGLE: Final = 8
"""Words of a document that are as good as it."""
_DIGEST: Final = 12
"""Bytes of a hash: of a million entries one text in 10^22 is taken for another."""


@value
class Listed:
    """A list: class `of` whatever has a value of it, or eight words on end of a document."""

    of: str
    group: str = "own"
    is_slow: bool = False
    key: bytes = field(repr=False)
    lengths: tuple[int, ...]
    """In words."""
    firsts: frozenset[bytes]
    """Of the first words, so that most of a text is looked at once."""
    whole: frozenset[bytes]

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where something of the list stands in `text`, in bytes of UTF-8."""
        found, begin = [], 0
        for piece in pieces_of(text, _BETWEEN):
            words_in = _WORD.finditer(piece)
            found += [(begin + w.start(), begin + w.end(), _folded(w[0])) for w in words_in]
            begin += len(piece)
        firsts: dict[bytes, bool] = {}
        for at, (start, _, word) in enumerate(found):
            known = firsts.get(word)
            if known is None:
                known = firsts[word] = _hash(self.key, word) in self.firsts
            if not known:
                continue
            for length in self.lengths:
                part = found[at : at + length]
                if len(part) == length and _hash(self.key, *(w for *_, w in part)) in self.whole:
                    before = len(text[:start].encode("utf-8", "surrogatepass"))
                    inside = text[start : part[-1][1]].encode("utf-8", "surrogatepass")
                    yield before, before + len(inside)
                    break


def made_list(lines: Iterable[str], *, documents: bool, key: bytes) -> str:
    """Return the file of a list: of a value a line, or of the words of a document.

    It says nothing of what is on it but to whoever guesses a value whole; `key` (16 random bytes)
    keeps one guess from doing for two lists.

    Raises:
        ValueError: A line is no value, or there is no document.

    """
    firsts: set[bytes] = set()
    whole: set[bytes] = set()
    lengths: set[int] = set()
    for part in _passages(lines) if documents else _values(lines):
        firsts.add(_hash(key, part[0]))
        whole.add(_hash(key, *part))
        lengths.add(len(part))
    sizes = ",".join(map(str, sorted(lengths, reverse=True)))
    rows = [f"w {one.hex()}" for one in sorted(firsts)] + [
        f"v {one.hex()}" for one in sorted(whole)
    ]
    return "\n".join([f"{_HEAD} {key.hex()} {sizes or 0}", *rows, ""])


def read_list(of: str, text: str) -> Listed:
    """Return the list that `text`, a file of `made_list`, holds.

    Raises:
        ValueError: It is none.

    """
    head, *rows = text.splitlines() or [""]
    told = re.fullmatch(rf"{_HEAD} ([0-9a-f]{{32}}) ([0-9,]+)", head)
    if told is None:
        raise ValueError("this is no list: make one with `douane dlp list`")
    firsts: set[bytes] = set()
    whole: set[bytes] = set()
    for row in rows:
        kind, _, digits = row.partition(" ")
        if kind not in ("w", "v") or len(digits) != 2 * _DIGEST:
            raise ValueError(f"this is no line of a list: {row[:40]}")
        (firsts if kind == "w" else whole).add(bytes.fromhex(digits))
    lengths = tuple(sorted({int(size) for size in told[2].split(",") if size}, reverse=True))
    return Listed(
        of=of,
        key=bytes.fromhex(told[1]),
        lengths=lengths,
        firsts=frozenset(firsts),
        whole=frozenset(whole),
    )


def _values(lines: Iterable[str]) -> Iterator[Sequence[bytes]]:
    for number, line in enumerate(lines, 1):
        found = [_folded(word) for word in _WORD.findall(line)]
        if len(found) > _MOST_WORDS:
            raise ValueError(f"line {number} has more than {_MOST_WORDS} words: is it a document?")
        if found:
            yield found


def _passages(lines: Iterable[str]) -> Iterator[Sequence[bytes]]:
    found = [_folded(word) for line in lines for word in _WORD.findall(line)]
    if len(found) < SHINGLE:
        raise ValueError(f"a document has {SHINGLE} words at least; list what is shorter as values")
    for at in range(len(found) - SHINGLE + 1):
        yield found[at : at + SHINGLE]


def _folded(word: str) -> bytes:
    return words(word)


def _hash(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"\0".join(parts), hashlib.sha256)[:_DIGEST]

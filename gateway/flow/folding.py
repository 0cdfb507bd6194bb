"""The letters and digits of a text, as they are compared: whatever else hides them left out."""

import re
import unicodedata
from collections.abc import Mapping

from gateway.domain.alike import LOOKALIKES
from gateway.flow.steps import steps_of

BOUNDARY = "\0"
"""Stands between texts that are no continuation of each other; it survives folding."""

_PLAIN = bytes(range(256)).lower()
_LEFT_OUT = bytes(c for c in range(1, 128) if not chr(c).isalnum())
IS_KEPT = bytes(c not in _LEFT_OUT for c in range(256))
"""Whether a byte of ASCII is one of the letters."""

_TAG_BASE = 0xE0000
_TAGS = range(_TAG_BASE + 0x20, _TAG_BASE + 0x7F)
"""Tag characters: ASCII that no screen shows."""

_ALIKE = "".join({c for letter in LOOKALIKES for c in (letter, letter.upper()) if not c.isascii()})
_MIXED = re.compile(f"[A-Za-z][{_ALIKE}]|[{_ALIKE}][A-Za-z]")
"""A lookalike beside a letter that it looks like one of: in its own script it is itself."""


_NOBODYS = ("Co", "Cn")
"""Private or not assigned: a million of them, each of which reads as nothing."""
_LONGEST = 6
"""Letters that one character is read as: two are whole phrases, of eight and of eighteen."""


class _Folds(dict[int, str]):
    """How each character is folded, as `str.translate` asks for it."""

    def __missing__(self, code: int) -> str:
        if unicodedata.category(chr(code)) in _NOBODYS:
            return ""
        self[code] = found = _fold(chr(code))
        return found


def _fold(character: str) -> str:
    if character == BOUNDARY:
        return character
    if ord(character) in _TAGS:
        character = chr(ord(character) - _TAG_BASE)
    # Character by character: marks in any order and number fall away, and it stays linear.
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    letters = (_digit(c) or LOOKALIKES.get(c, c) for c in plain)
    return "".join(c for c in letters if unicodedata.category(c)[0] in "LN")[:_LONGEST]


def _digit(character: str) -> str:
    """Return the digit that a character of any script is: programs read all of them alike."""
    found = unicodedata.digit(character, None)
    return "" if found is None else str(found)


_FOLDS = _Folds()
"""At most one entry for each of Unicode's assigned characters that was ever met."""


def _read_as(table: Mapping[int, str], text: str) -> str:
    return "".join(step.translate(table) for step in steps_of(text))


def folded(text: str) -> bytes:
    """Return the letters and digits of `text`, in UTF-8, case and look ignored.

    Spaces, separators, marks and everything that no screen shows are left out; compatibility forms
    and the commonest lookalikes are made plain.
    """
    if not text.isascii():
        text = _read_as(_FOLDS, text)
    return text.encode("utf-8", "surrogatepass").translate(_PLAIN, _LEFT_OUT)


_SPLIT = bytes(0 if c in _LEFT_OUT else c for c in _PLAIN)


class _WordFolds(dict[int, str]):
    """As `_Folds`, with a boundary in place of what stands between words."""

    def __missing__(self, code: int) -> str:
        if unicodedata.category(chr(code)) in _NOBODYS:
            return ""
        found = _FOLDS[code]
        # Marks and what no screen shows stand within words.
        between = not found and unicodedata.category(chr(code))[0] not in "MC"
        self[code] = found = BOUNDARY if between else found
        return found


_WORD_FOLDS = _WordFolds()


def words(text: str) -> bytes:
    """Return the words of `text`, each as `folded` has it, with boundaries between them."""
    if not text.isascii():
        text = _read_as(_WORD_FOLDS, text)
    return text.encode("utf-8", "surrogatepass").translate(_SPLIT)


def is_disguised(text: str) -> bool:
    """Tell whether `text` has characters that are made to be taken for others, or for nothing."""
    if text.isascii():
        return False
    return _MIXED.search(text) is not None or any(map(_is_shape, set(text)))


def _is_shape(character: str) -> bool:
    """Tell whether a character is unseen, or another one's other look."""
    if character.isascii():
        return False
    if unicodedata.category(character) in ("Cf", "Co", "Cn"):
        return True
    plain, exact = (unicodedata.normalize(form, character) for form in ("NFKD", "NFD"))
    return plain != exact and _FOLDS[ord(character)] != ""


_ASCII = bytes(range(128))
_HIDDEN_RUN = re.compile(
    "[\U000e0020-\U000e007e]{8,}|[\u200b-\u200d\u2060-\u2064\ufeff\U000e0100-\U000e01ef]{8,}"
    "|[\u202d\u202e]"
)
"""Tags that spell more than a flag, runs of what has no width, and turned text."""


class _Reveals(dict[int, str]):
    """How each character reads to whoever is not fooled, as `str.translate` asks for it."""

    def __missing__(self, code: int) -> str:
        if unicodedata.category(chr(code)) in _NOBODYS:
            return ""
        self[code] = found = _reveal(chr(code))
        return found


def _reveal(character: str) -> str:
    if character.isascii():
        return character
    if ord(character) in _TAGS:
        return chr(ord(character) - _TAG_BASE)
    if unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return ""
    plain = unicodedata.normalize("NFKD", character)[:_LONGEST]
    return "".join(
        _digit(c) or LOOKALIKES.get(c, LOOKALIKES.get(c.lower(), c).upper() if c.isupper() else c)
        for c in plain
        if not unicodedata.combining(c)
    )


_REVEALS = _Reveals()


def is_suspicious(text: str) -> bool:
    """Tell whether `text` has characters that read as others, or as nothing."""
    if text.isascii():
        return False
    beyond = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    steps = steps_of(beyond.decode("utf-8", "surrogatepass"))
    return any(_REVEALS[ord(c)] != c for step in steps for c in set(step))


def revealed(text: str) -> str:
    """Return `text` as whoever is not fooled reads it, in its own length or less a few times over."""
    return text if text.isascii() else _read_as(_REVEALS, text)


def hides_text(text: str) -> bool:
    """Tell whether `text` has words that no screen shows, or shows in another order."""
    return _HIDDEN_RUN.search(text) is not None

"""Names of members that a careless reader takes for one: `result`, `Result`, `RESULT `."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Self

from gateway.domain._value import value
from gateway.domain.normal import normal

LONGEST: Final = 128
"""Signs of a name that are compared in every spelling: three times those of the longest name of the protocol."""
ROOM: Final = 64 * LONGEST
"""Signs of all names together that are not ASCII and stand beside known ones in one object."""
ROOMY: Final = 8 * ROOM
"""As many where names are somebody's own, of all that one message says: in schemas, arguments, results."""
_REMEMBERED = 4096
"""Names and signs beyond ASCII: what is written in another script says the same ones again and again."""
_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})
_SELECTORS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
"""Marks and letters that no screen shows (Unicode, Default_Ignorable_Code_Point)."""
_JOINTS = {"_", "-"}

LOOKALIKES = dict(
    zip(
        # Cyrillic, then Greek, then Latin beyond ASCII that no decomposition leads back.
        "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0456\u0458\u0455"
        "\u04bb\u0501\u051b\u051d\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u0131\u0251\u0261",
        "abekmhopctyxijshdqwaikvoptuxiag",
        strict=True,
    )
)
"""The letters that stand in for ASCII ones most often: Unicode has no table of them in its core."""


def alike(name: str) -> str:
    """Return `name` as the most careless reader compares it.

    Case, width and compatibility forms are ignored, and so is all that no screen shows, blanks with
    it. Some readers compare upper case, some lower case, some fold: names that any of them takes for
    one are alike. Of a name with other letters than ASCII's, what follows on the first `LONGEST` signs
    that a screen shows is compared without its case only, and so many are compared of what these are
    taken apart into: no name of the protocol is as long.
    """
    if name.isascii():
        return name.lower() if name.isalnum() else _shown(name.lower())
    if len(name) > LONGEST:
        # One letter may stand for eighteen, so only so many are taken apart: what hides one goes first.
        name = _shown(_SELECTORS.sub("", name))
    return _folded(name[:LONGEST]) + name[LONGEST:].upper().casefold()


@lru_cache(maxsize=_REMEMBERED)
def _folded(name: str) -> str:
    # What is longer taken apart is no name in any language, and is alike to what begins as it does.
    raised = normal("NFKC", name)[:LONGEST].upper()
    # Capital I with a dot is an i to whoever compares lower case, and so is the one without.
    lowered = normal("NFKC", raised.casefold()).casefold().replace("i\u0307", "i")
    return _shown(_SELECTORS.sub("", lowered))


def begins(name: str, word: str) -> bool:
    """Whether `alike(name)` begins with `word`, which is ASCII: of any name no more is taken apart."""
    if name.isascii():
        return alike(name).startswith(word)
    return len(_as_far_as(name, word)) >= len(word)


def reads_as(name: str, word: str) -> bool:
    """Whether `alike(name)` is `word`, which is ASCII: of any name no more is taken apart."""
    if name.isascii():
        return alike(name) == word
    return _as_far_as(name, word) == word


def _as_far_as(name: str, word: str) -> str:
    """Return how `name` reads if it is `word` or begins with it: with one more part at most; else nothing."""
    # Each sign by itself: none that is put together of several reads as ASCII.
    read = ""
    for sign in name:
        read += _folded(sign)
        if not (word.startswith(read) or read.startswith(word)):
            return ""
        if len(read) > len(word):
            break
    return read


def nearly(name: str) -> str:
    """Return `name` as readers compare it who take `is_error` for `isError`.

    That is what is alike, without what joins its words, without marks, and with the commonest
    lookalikes made plain. What a name begins with it keeps: `_id` is another one than `id`.
    """
    plain = alike(name)
    if not plain.isascii():
        plain = normal("NFKD", plain)
        signs = set(plain)
        for sign in signs & LOOKALIKES.keys():
            plain = plain.replace(sign, LOOKALIKES[sign])
        plain = _without(plain, {c for c in signs if unicodedata.category(c)[0] == "M"})
    first = plain[: len(plain) - len(plain.lstrip("_"))]
    return first + _without(plain, _JOINTS)


def _shown(text: str) -> str:
    if text.isascii() and text.isprintable() and " " not in text:
        return text
    return _without(text, {c for c in set(text) if unicodedata.category(c) in _UNSEEN})


def _without(text: str, signs: set[str]) -> str:
    # They are few, and `str.translate` asks Python for each letter of a text that is not ASCII.
    for sign in signs:
        text = text.replace(sign, "")
    return text


@value
class Known:
    """The names that somebody reads, so that no other name may be taken for one of them."""

    names: frozenset[str]
    nearly: frozenset[str]

    @classmethod
    def of(cls, names: Iterable[str], *, read_as: Iterable[str] = ()) -> Self:
        """Know `names`; `read_as` is what some readers call one of them, and nobody else may be."""
        found = frozenset(names)
        return cls(names=found, nearly=frozenset(map(nearly, (*found, *read_as))))

    def confused(self, members: Iterable[str], room: "Room | None" = None) -> str | None:
        """Return one of an object's `members` that may be taken for a known one, or nothing.

        That is one that is nearly a known name and is none, or the second one that is alike to
        the same. One that is longer than `LONGEST` and not ASCII may be any: it is not taken apart,
        for marks and joints can make it as long as somebody likes; nor is what follows on `ROOM` signs,
        or what the message's `room` has no place for.
        """
        if not self.nearly:
            return None
        seen: set[str] = set()
        left = ROOM
        for name in members:
            if name not in self.names:
                left -= 0 if name.isascii() else len(name)
                full = left < 0 or (room is not None and not room.has(name))
                if full or self._has_nearly(name):
                    return name
                continue
            plain = alike(name)
            if plain in seen:
                return name
            seen.add(plain)
        return None

    def _has_nearly(self, name: str) -> bool:
        if len(name) > LONGEST and not name.isascii():
            return True
        return nearly(name) in self.nearly


class Room:
    """For names of one message that are compared in every spelling: each counts once, ASCII not at all."""

    def __init__(self, signs: int = ROOMY) -> None:
        self._left = signs
        self._counted: set[str] = set()

    def has(self, name: str) -> bool:
        """Take room for `name`, and say whether there was any."""
        if not name.isascii() and name not in self._counted:
            self._counted.add(name)
            self._left -= len(name)
        return self._left >= 0


def twin(members: Iterable[str], room: Room | None = None) -> str | None:
    """Return one of an object's `members` that is alike to an earlier one, or nothing.

    So may be whatever `room` has no place for.
    """
    seen: set[str] = set()
    for name in members:
        if room is not None and not room.has(name):
            return name
        plain = alike(name)
        if plain in seen:
            return name
        seen.add(plain)
    return None

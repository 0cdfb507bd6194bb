"""Names of members that a careless reader takes for one: `result`, `Result`, `RESULT `."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Self

from gateway.domain._value import value
from gateway.domain.normal import normal

_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})
_SELECTORS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
"""Marks and letters that no screen shows (Unicode, Default_Ignorable_Code_Point)."""
_JOINTS = str.maketrans("", "", "_-")

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
    one are alike.
    """
    if name.isascii():
        return name.lower() if name.isalnum() else _shown(name.lower())
    raised = "".join(character.upper() for character in normal("NFKC", name))
    # Capital I with a dot is an i to whoever compares lower case, and so is the one without.
    lowered = normal("NFKC", raised.casefold()).casefold().replace("i\u0307", "i")
    return _shown(_SELECTORS.sub("", lowered))


def nearly(name: str) -> str:
    """Return `name` as readers compare it who take `is_error` for `isError`.

    That is what is alike, without what joins its words, without marks, and with the commonest
    lookalikes made plain. What a name begins with it keeps: `_id` is another one than `id`.
    """
    plain = alike(name)
    if not plain.isascii():
        letters = (LOOKALIKES.get(c, c) for c in normal("NFKD", plain))
        plain = "".join(c for c in letters if unicodedata.category(c)[0] != "M")
    first = plain[: len(plain) - len(plain.lstrip("_"))]
    return first + plain.translate(_JOINTS)


def _shown(text: str) -> str:
    if text.isascii() and text.isprintable() and " " not in text:
        return text
    return "".join(c for c in text if unicodedata.category(c) not in _UNSEEN)


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

    def confused(self, members: Iterable[str]) -> str | None:
        """Return one of an object's `members` that may be taken for a known one, or nothing.

        That is one that is nearly a known name and is none, or the second one that is alike to
        the same.
        """
        seen: set[str] = set()
        for name in members:
            if name not in self.names:
                if nearly(name) in self.nearly:
                    return name
                continue
            plain = alike(name)
            if plain in seen:
                return name
            seen.add(plain)
        return None


def twin(members: Iterable[str]) -> str | None:
    """Return one of an object's `members` that is alike to an earlier one, or nothing."""
    seen: set[str] = set()
    for name in members:
        plain = alike(name)
        if plain in seen:
            return name
        seen.add(plain)
    return None

"""What a program said, made fit for a reader: nothing unseen, nothing secret, not too long (pure)."""

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.domain.programs import Redact

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters; a line's end and a tab stay
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # what no screen shows
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"  # spaces of no width, directions, lines
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"  # variations, order marks, halves
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"  # tags, more variations
)
"""Characters that carry text past a reader, or turn the text around them. The joiners U+200C and
U+200D stay: words of several scripts are not the same without them."""

_GAP: Final = "\n[... {} characters left out ...]\n"
_HEAD_SHARE: Final = 0.75
_LONGEST_SECRET: Final = 4096
"""Characters; of a private key, about."""


def visible(text: str) -> str:
    """Return `text` without the characters that are not seen."""
    return _UNSEEN.sub("", text)


def one_line(text: str, most: int) -> str:
    """Return `text` as one line of at most `most` characters; an ellipsis stands for the rest."""
    line = " ".join(visible(text).split())
    return line if len(line) <= most else line[: most - 1] + "\u2026"


def screened(text: str, redact: Redact, most: int) -> str:
    """Return `text` as its reader may see it, of about `most` bytes of UTF-8 at most.

    Secrets are looked for before anything is cut, and after what is unseen is gone: neither half of
    one nor one with a gap in it is passed over.
    """
    shown = redact(visible(text))
    return shown if _octets(shown) <= most else _joined(shown, shown, most, len(shown))


def _joined(head: str, tail: str, most: int, whole: int) -> str:
    """Return how `head` begins and `tail` ends, with how many of `whole` characters are missing."""
    first = int(most * _HEAD_SHARE)
    begin = head.encode(errors="replace")[:first].decode(errors="ignore")
    end = tail.encode(errors="replace")[-(most - first) :].decode(errors="ignore")
    return begin + _GAP.format(whole - len(begin) - len(end)) + end


def _octets(text: str) -> int:
    return len(text.encode(errors="replace"))


def screened_value(value: Any, redact: Redact) -> Any:
    """Return a JSON value with each text in it as its reader may see it, names of members too."""
    if isinstance(value, str):
        return redact(visible(value))
    if isinstance(value, Mapping):
        return {
            redact(visible(name)): screened_value(member, redact) for name, member in value.items()
        }
    if isinstance(value, list):
        return [screened_value(item, redact) for item in value]
    return value


class Console:
    """What a program prints: all of a little, the head and the tail of much."""

    def __init__(self, most: int, *, before: tuple[str, str, int] = ("", "", 0)) -> None:
        """Show at most `most` bytes. `before` is what was `kept` by the one that this goes on for."""
        self._most = most
        self._kept = most + _LONGEST_SECRET
        self._head, self._tail, self._missing = before
        self.printed = 0
        """Characters so far."""

    def write(self, text: str) -> None:
        """Take more of it."""
        self.printed += len(text)
        room = 0 if self._tail else self._kept - len(self._head)
        self._head += text[:room]
        self._tail += text[room:]
        surplus = len(self._tail) - self._kept
        if surplus > 0:
            self._missing += surplus
            self._tail = self._tail[surplus:]

    @property
    def kept(self) -> tuple[str, str, int]:
        """The head, the tail, and how many characters between them are gone."""
        return self._head, self._tail, self._missing

    def shown(self, redact: Redact) -> str:
        """Return it as its reader may see it."""
        if not self._missing:
            return screened(self._head + self._tail, redact, self._most)
        # Where it was cut half a secret may stand, which nothing would know for one.
        head = redact(visible(self._head))[:-_LONGEST_SECRET]
        tail = redact(visible(self._tail))[_LONGEST_SECRET:]
        whole = len(head) + len(tail) + self._missing + 2 * _LONGEST_SECRET
        return _joined(head, tail, self._most, whole)

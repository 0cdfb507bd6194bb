"""In how many ways the same is written: what a text says once its escapes are undone.

These are what whoever handles URLs, HTML, JSON and domains undoes in passing. Encodings beyond them never end,
and are not looked for (`gateway.flow.capacity`). What would take long to be undone is not: it may say anything.
"""

import re
import sys
from collections.abc import Iterator
from typing import Final

from gateway.flow.entities import from_html

_DEEPEST: Final = 4
"""Encodings in one another: percent thrice in base64."""
ROOM: Final = 48 * 1024
"""Characters that are undone together, those of what came of it too: some milliseconds' work."""
_EACH: Final = 24
"""Characters that take as long as beginning with a text."""
_LABEL: Final = 1024
"""Characters that take as long as a label in Punycode."""
_SHORTEST_RUN: Final = 6

_PERCENT: Final = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_ESCAPE: Final = re.compile(
    r"%[uU]([0-9a-fA-F]{4})"
    r"|\\(?:u\{([0-9a-fA-F]{1,6})\}|U([0-9a-fA-F]{8})|[uU]([0-9a-fA-F]{4})|[xX]([0-9a-fA-F]{2})|([0-7]{3}))"
)
_PUNYCODE: Final = re.compile(r"xn--([a-z0-9-]{1,59})", re.IGNORECASE)


class TooMuch(ValueError):
    """Undoing what may be encoded would take too long."""


class Reader:
    """Reads texts that belong together, all of them within `room`."""

    def __init__(self, room: int = ROOM) -> None:
        self._left = room

    def spellings(self, text: str) -> tuple[str, ...]:
        """Return `text` and what it says with each of the usual encodings undone, nested ones too.

        What was in a long text is told with what stands around it.

        Raises:
            TooMuch: There is no room for all of it.

        """
        if len(text) < _SHORTEST_RUN and text.isalnum():
            self._take(_EACH // 3)
            return (text,)
        found = {text: None}
        latest = [text]
        for _ in range(_DEEPEST + 1):
            outer, latest = latest, []
            for one in outer:
                self._take(len(one) + _EACH + _LABEL * one.lower().count("xn--"))
                latest += (plain for plain in _undone(one) if plain not in found)
                found.update(dict.fromkeys(latest))
        if latest:
            raise TooMuch("encodings in one another without end")
        return tuple(found)

    def _take(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise TooMuch("too much to be read in all of its spellings")


def unescaped(text: str) -> str:
    """Return `text` with its percent signs, entities and backslashes undone, nested ones too."""
    for _ in range(_DEEPEST):
        before = text
        for undo in (_percent, _entities, _escapes):
            text = next(undo(text), text)
        if text == before:
            break
    return text


def _undone(text: str) -> Iterator[str]:
    """Yield `text` with its escapes undone, one kind after the other."""
    for undo in _ESCAPED:
        for plain in undo(text):
            yield plain
            text = plain


def _percent(text: str) -> Iterator[str]:
    if "%" in text and (plain := _PERCENT.sub(_unquoted, text)) != text:
        yield plain


def _unquoted(escapes: re.Match[str]) -> str:
    return bytes.fromhex(escapes[0].replace("%", "")).decode("utf-8", "replace")


def _entities(text: str) -> Iterator[str]:
    if (plain := from_html(text)) != text:
        yield plain


def _escapes(text: str) -> Iterator[str]:
    if ("\\" in text or "%" in text) and (plain := _ESCAPE.sub(_unescaped, text)) != text:
        # Of a pair of surrogates there is one character.
        yield plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(escape: re.Match[str]) -> str:
    *hexadecimal, octal = escape.groups()
    code = int(octal, 8) if octal else int(next(filter(None, hexadecimal)), 16)
    return chr(code) if code <= sys.maxunicode else ""


def _punycode(text: str) -> Iterator[str]:
    if "xn--" in text.lower() and (plain := _PUNYCODE.sub(_unicode_label, text)) != text:
        yield plain


def _unicode_label(label: re.Match[str]) -> str:
    try:
        return label[1].lower().encode().decode("punycode")
    except UnicodeError:
        return label[0]


_ESCAPED: Final = (_percent, _entities, _escapes, _punycode)
"""What stands for one character each: mixed, they are undone together."""

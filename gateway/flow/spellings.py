"""In how many ways the same is written: what a text says once an encoding of it is undone.

Finding too much costs a proof and nothing else, so what may be an encoding is taken for one, and
what would take long to be undone is not undone: it may say anything.
"""

import base64
import binascii
import codecs
import quopri
import re
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final
from unicodedata import category

import re2

from gateway.domain.rewriting import NO_SYMBOL
from gateway.flow.decoding import hex_digits
from gateway.flow.entities import NO_OCTET, from_html
from gateway.flow.folding import revealed
from gateway.flow.steps import pieces_of

_DEEPEST: Final = 4
"""Encodings in one another: percent thrice in base64."""
ROOM: Final = 48 * 1024
"""Characters that are undone together, those of what came of it too: some milliseconds' work."""
_EACH: Final = 24
"""Characters that take as long as beginning with a text."""
_LABEL: Final = 1024
"""Characters that take as long as a label in Punycode."""
_BESIDE: Final = 256
"""Octets on each side of what was encoded, which it may continue: the longest address has 254."""
_MOST_RUNS: Final = 8 * 1024
"""Words of a text: as many as there is room for."""
_MOST_LONG_RUNS: Final = 1024
"""Of digits in a text, which take longer to be found."""
_SHORTEST_RUN: Final = 6
_LARGEST_OCTET: Final = 255
_WIDE: Final = 3
"""Zeros beside a letter in UTF-32."""

_PERCENT: Final = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_ESCAPE: Final = re.compile(
    r"%[uU]([0-9a-fA-F]{4})"
    r"|\\(?:u\{([0-9a-fA-F]{1,6})\}|U([0-9a-fA-F]{8})|[uU]([0-9a-fA-F]{4})|[xX]([0-9a-fA-F]{2})|([0-7]{3}))"
)
_ESCAPE_BEGINS: Final = re.compile(r"[\\%]")
_QUOTED: Final = re.compile(r"=(?:[0-9a-fA-F]{2}|\r?\n)")
_PUNYCODE: Final = re.compile(r"xn--([a-z0-9-]{1,59})", re.IGNORECASE)
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/_-]{6,}")
_BASE64_WORD: Final = re.compile(rb"[A-Za-z0-9]{6,}")
_BASE32: Final = re.compile(rb"[A-Z2-7]{8,}|[a-z2-7]{8,}")
_WORDS: Final = re.compile(rb"[!-~]{6,}")
_SAYS: Final = re.compile(rb"[ -~]{6,}")
"""What has nothing like it is most likely no text."""
_JOINTS: Final = re.compile("[+/_-]")
_HEX: Final = re2.compile(rb"(?:(?:0x|\\x)?[0-9a-fA-F]{2}[\s:,;._|/+-]{0,2}){4,}")
_NUMBERS: Final = re2.compile(rb"\d{1,3}(?:[\s,;]{1,2}\d{1,3}){3,}|\d{1,3}(?:[:._|/+-]\d{1,3}){5,}")
"""Addresses and dates have fewer than six, with what stands between those."""
_LONG: Final = (_HEX, _NUMBERS)
_NUMBER: Final = re.compile(r"\d+")
_MAY_SPEAK: Final = re2.compile(rb"(?i)[\s(\[{<_-](?:at|dot|commat|period)[\s)\]}>_-]")
_SPOKEN: Final = re.compile(rb"(?i)(?<=[\s(\[{<_-])(?:at|dot|commat|period)(?=[\s)\]}>_-])")
_TO_STANDARD: Final = bytes.maketrans(b"-_", b"+/")


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
        if len(text) > self._left:  # before anything is made of it
            self._take(len(text))
        found = dict.fromkeys((text, *_from_careless_base64(text)))
        latest = list(found)
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


def spellings(text: str) -> tuple[str, ...]:
    """Return the spellings of `text` alone, as `Reader.spellings` does."""
    return Reader().spellings(text)


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
    """Yield `text` with its escapes undone, one kind after the other, and what may be encoded.

    Some who undo escapes read each character first as whoever is not fooled does (UTS 46).
    """
    for shown in dict.fromkeys((text, revealed(text))):
        undone = shown
        for undo in _ESCAPED:
            for plain in undo(undone):
                yield plain
                undone = plain
    for undo in _ENCODED:
        yield from undo(text)


def _percent(text: str) -> Iterator[str]:
    if "%" in text and (plain := _put(_PERCENT, _unquoted, text, NO_OCTET)) != text:
        yield plain


def _put(
    escapes: re.Pattern[str],
    undone: Callable[[re.Match[str]], str],
    text: str,
    edge: re.Pattern[str],
) -> str:
    return "".join(escapes.sub(undone, one) for one in pieces_of(text, edge))


def _unquoted(escapes: re.Match[str]) -> str:
    return bytes.fromhex(escapes[0].replace("%", "")).decode("utf-8", "replace")


def _entities(text: str) -> Iterator[str]:
    if (plain := from_html(text)) != text:
        yield plain


def _escapes(text: str) -> Iterator[str]:
    escaped = "\\" in text or "%" in text
    if escaped and (plain := _put(_ESCAPE, _unescaped, text, _ESCAPE_BEGINS)) != text:
        # Of a pair of surrogates there is one character.
        yield plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(escape: re.Match[str]) -> str:
    *hexadecimal, octal = escape.groups()
    code = int(octal, 8) if octal else int(next(filter(None, hexadecimal)), 16)
    return chr(code) if code <= sys.maxunicode else ""


def _quoted_printable(text: str) -> Iterator[str]:
    if "=" in text and _QUOTED.search(text):
        yield quopri.decodestring(text.encode("utf-8", "replace")).decode("utf-8", "replace")


def _punycode(text: str) -> Iterator[str]:
    if "xn--" in text.lower() and (plain := _PUNYCODE.sub(_unicode_label, text)) != text:
        yield plain


def _unicode_label(label: re.Match[str]) -> str:
    try:
        return label[1].lower().encode().decode("punycode")
    except UnicodeError:
        return label[0]


def _spoken(text: str) -> Iterator[str]:
    octets = text.encode("utf-8", "surrogatepass")
    if _MAY_SPEAK.search(octets):
        yield from _with(octets, [(*run.span(), b"") for run in _SPOKEN.finditer(octets)])


def _from_base64(text: str) -> Iterator[str]:
    yield from _decoded_runs(text, _BASE64, _base64)


def _from_base64_words(text: str) -> Iterator[str]:
    """Yield the same where a run is a path, of which a part encodes something."""
    if _JOINTS.search(text):
        yield from _decoded_runs(text, _BASE64_WORD, _base64)


def _from_careless_base64(text: str) -> Iterator[str]:
    """Yield what `text` says to readers who skip what is no base64, wherever it begins.

    They find something in nearly every text, of which words are kept where it is no text as a whole.
    """
    symbols = text.encode("utf-8", "surrogatepass").translate(_TO_STANDARD, NO_SYMBOL)
    for begin in range(min(4, max(0, len(symbols) - _SHORTEST_RUN))):
        run = symbols[begin:]
        if len(run) % 4 == 1:
            run = run[:-1]
        octets = binascii.a2b_base64(run + b"=" * (-len(run) % 4))
        if _SAYS.search(octets) and (plain := _text(octets)):
            yield plain


def _from_base32(text: str) -> Iterator[str]:
    yield from _decoded_runs(text, _BASE32, _base32)


def _from_hex(text: str) -> Iterator[str]:
    yield from _decoded_runs(text, _HEX, _hex)


def _from_numbers(text: str) -> Iterator[str]:
    yield from _decoded_runs(text, _NUMBERS, _numbers)


def _decoded_runs(text: str, runs: Any, decoded: Callable[[bytes], bytes | None]) -> Iterator[str]:
    """Yield `text` with all the runs that encode a text put in plain, if there is one."""
    octets = text.encode("utf-8", "surrogatepass")
    most = _MOST_LONG_RUNS if runs in _LONG else _MOST_RUNS
    found = [run[0] for run in islice(runs.finditer(octets), most)]
    if len(found) == most:
        raise TooMuch("too many runs that may encode something")
    plain = {run: told.encode() for run in set(found) if (told := _text(decoded(run)))}
    if plain:
        changes = ((*run.span(), plain[run[0]]) for run in runs.finditer(octets) if run[0] in plain)
        yield from _with(octets, list(changes))


def _with(octets: bytes, changes: list[tuple[int, int, bytes]]) -> Iterator[str]:
    """Yield a text with `changes` made, without what stands far from all of them."""
    if not changes:
        return
    parts, at = [], 0
    for begin, end, plain in changes:
        between = octets[at:begin]
        if len(between) > 2 * _BESIDE:
            between = (between[:_BESIDE] if at else b"") + b"\n" + between[-_BESIDE:]
        parts += [between, plain]
        at = end
    parts.append(octets[at : at + _BESIDE])
    yield b"".join(parts).decode("utf-8", "ignore")


def _base64(run: bytes) -> bytes | None:
    symbols = run.translate(_TO_STANDARD)
    try:
        return binascii.a2b_base64(symbols + b"=" * (-len(symbols) % 4), strict_mode=True)
    except ValueError:
        return None


def _base32(run: bytes) -> bytes | None:
    try:
        return base64.b32decode(run + b"=" * (-len(run) % 8), casefold=True)
    except ValueError:
        return None


def _hex(run: bytes) -> bytes | None:
    digits = hex_digits(run)
    octets = bytes.fromhex(digits[: len(digits) // 2 * 2])
    # What stands before the digits may look like some: it is none of the text.
    return octets if octets[1:2] == b"\0" else octets.decode("utf-8", "ignore").encode()


def _numbers(run: bytes) -> bytes | None:
    codes = [int(number) for number in _NUMBER.findall(run.decode())]
    return bytes(codes) if max(codes) <= _LARGEST_OCTET else None


def _text(octets: bytes | None) -> str | None:
    if not octets:
        return None
    charset = _charset(octets)
    try:
        text = octets.decode(charset)
    except UnicodeDecodeError:
        text = ""
    # Few characters beyond ASCII are what any octets come to.
    says = text.isascii() or len(text) >= _SHORTEST_RUN
    is_text = text and (text.isprintable() or (says and all(map(_is_of_a_text, text))))
    if is_text and charset == "utf-8":
        return text
    # What only stands beside it hides nothing: digits before a run are a part of it. Nor does a mark that is
    # taken for a charset: ASCII read by two octets is a text of another script.
    return (
        b"\n".join([*([text.encode()] if is_text else ()), *_WORDS.findall(octets)]).decode()
        or None
    )


def _is_of_a_text(character: str) -> bool:
    """Tell whether texts have `character`, be it that no screen shows it, or a new line."""
    return character.isprintable() or character in "\t\r\n" or category(character) == "Cf"


def _charset(octets: bytes) -> str:
    """Return how `octets` are read: ASCII letters tell it by the zeros beside them."""
    if octets[:4].count(0) == _WIDE:
        return "utf-32-be" if octets[0] == 0 else "utf-32-le"
    if octets[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    if octets[:1] == b"\0":
        return "utf-16-be"
    return "utf-16-le" if octets[1:2] == b"\0" else "utf-8"


_ESCAPED: Final = (_percent, _entities, _escapes, _punycode)
"""What stands for one character each: mixed, they are undone together."""
_ENCODED: Final = (
    _quoted_printable,
    _spoken,
    _from_base64,
    _from_base64_words,
    _from_base32,
    _from_hex,
    _from_numbers,
)
"""What may be something else as well."""

"""In how many ways the same is written: what a text says once an encoding of it is undone.

Finding too much costs a proof and nothing else, so what may be an encoding is taken for one. The
work is linear in a text, a few times over.
"""

import binascii
import html
import quopri
import re
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

import re2

_DEEPEST: Final = 4
"""Encodings in one another: percent thrice in base64."""
_MOST: Final = 48
"""Spellings of one text: whoever nests more of them has said nothing that is known."""
LONGEST: Final = 256 * 1024
"""Characters that are undone of one text."""
_ROOM: Final = 16 * 1024
"""Characters of all spellings of a short text; of a longer one `_TIMES` its length."""
_TIMES: Final = 12
_MOST_RUNS: Final = 256
_LARGEST_OCTET: Final = 255

_ESCAPE: Final = re.compile(
    r"\\(?:u\{([0-9a-fA-F]{1,6})\}|[uU]([0-9a-fA-F]{4})|[xX]([0-9a-fA-F]{2})|([0-7]{3}))"
)
_QUOTED: Final = re.compile(r"=(?:[0-9a-fA-F]{2}|\r?\n)")
_PUNYCODE: Final = re.compile(r"xn--([a-z0-9-]{1,59})", re.IGNORECASE)
_BASE64: Final = re2.compile(rb"[A-Za-z0-9+/_-]{6,}")
_BASE64_WORD: Final = re2.compile(rb"[A-Za-z0-9]{6,}")
_HEX: Final = re2.compile(rb"(?:(?:0x|\\x)?[0-9a-fA-F]{2}[\s:,;-]{0,2}){4,}")
_NO_HEX: Final = re.compile(r"0x|[^0-9a-fA-F]")
_NUMBERS: Final = re2.compile(rb"\d{1,3}(?:[\s,;]{1,2}\d{1,3}){3,}")
_SPOKEN: Final = re.compile(
    r"(?<=[\s(\[{<_-])(?:at|dot|commat|period)(?=[\s)\]}>_-])", re.IGNORECASE
)
_TO_STANDARD: Final = str.maketrans("-_", "+/")


def spellings(text: str) -> tuple[str, ...]:
    """Return `text` and what it says with each of the usual encodings undone, nested ones too."""
    found = dict.fromkeys((text,))
    latest = [text[:LONGEST]]
    left = max(_ROOM, _TIMES * len(latest[0]))
    for _ in range(_DEEPEST):
        outer, latest = latest, []
        for plain in (inner for one in outer for inner in _undone(one)):
            if plain not in found:
                left -= len(plain)
                if left < 0 or len(found) >= _MOST:
                    return tuple(found)
                found[plain] = None
                latest.append(plain)
    return tuple(found)


def _undone(text: str) -> Iterator[str]:
    """Yield `text` with its escapes undone, one kind after the other, and what may be encoded."""
    for undo in _ESCAPED:
        for plain in undo(text):
            yield plain
            text = plain
    for undo in _ENCODED:
        yield from undo(text)


def _percent(text: str) -> Iterator[str]:
    if "%" in text and (plain := unquote(text)) != text:
        yield plain


def _entities(text: str) -> Iterator[str]:
    if "&" in text and (plain := html.unescape(text)) != text:
        yield plain


def _escapes(text: str) -> Iterator[str]:
    if "\\" in text and (plain := _ESCAPE.sub(_unescaped, text)) != text:
        # Of a pair of surrogates there is one character.
        yield plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(escape: re.Match[str]) -> str:
    wide, four, two, octal = escape.groups()
    code = int(octal, 8) if octal else int(wide or four or two, 16)
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
    if (plain := _SPOKEN.sub("", text)) != text:
        yield plain


def _from_base64(text: str) -> Iterator[str]:
    yield from _decoded_runs(text, _BASE64, _base64)


def _from_base64_words(text: str) -> Iterator[str]:
    """Yield the same where a run is a path, of which a part encodes something."""
    yield from _decoded_runs(text, _BASE64_WORD, _base64)


def _from_hex(text: str) -> Iterator[str]:
    yield from _decoded_runs(text, _HEX, _hex)


def _from_numbers(text: str) -> Iterator[str]:
    yield from _decoded_runs(text, _NUMBERS, _numbers)


def _decoded_runs(text: str, runs: Any, decoded: Callable[[str], bytes | None]) -> Iterator[str]:
    """Yield `text` with all the runs that encode a text put in plain, if there is one."""
    octets = text.encode("utf-8", "surrogatepass")
    parts, at = [], 0
    for run in islice(runs.finditer(octets), _MOST_RUNS):
        plain = _text(decoded(run[0].decode()))
        if plain is not None:
            parts += [octets[at : run.start()], plain.encode("utf-8", "surrogatepass")]
            at = run.end()
    if parts:
        yield b"".join([*parts, octets[at:]]).decode("utf-8", "surrogatepass")


def _base64(run: str) -> bytes | None:
    symbols = run.translate(_TO_STANDARD)
    try:
        return binascii.a2b_base64(symbols + "=" * (-len(symbols) % 4), strict_mode=True)
    except (binascii.Error, ValueError):
        return None


def _hex(run: str) -> bytes | None:
    digits = _NO_HEX.sub("", run)
    return bytes.fromhex(digits[: len(digits) // 2 * 2])


def _numbers(run: str) -> bytes | None:
    codes = [int(number) for number in re.findall(r"\d+", run)]
    return bytes(codes) if max(codes) <= _LARGEST_OCTET else None


def _text(octets: bytes | None) -> str | None:
    if not octets:
        return None
    try:
        text = octets.decode("utf-16-le" if octets[1:2] == b"\0" else "utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


_ESCAPED: Final = (_percent, _entities, _escapes, _punycode)
"""What stands for one character each: mixed, they are undone together."""
_ENCODED: Final = (
    _quoted_printable,
    _spoken,
    _from_base64,
    _from_base64_words,
    _from_hex,
    _from_numbers,
)
"""What may be something else as well."""

"""Texts that another text hides: encoded in one of the usual ways, once or several times."""

import binascii
import re
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any

import re2

from gateway.domain._value import value
from gateway.flow.entities import from_html, unquoted
from gateway.flow.steps import first_in, pieces_of, steps_of

SHORTEST_ENCODED = 16
"""Characters. A shorter run encodes less than a piece that would count."""

MOST_DECODED = 128 * 1024
"""Characters of all that is decoded of one text, at all depths: more is not looked at."""

_DEEPEST = 3
_MOST_RUNS = 64
_BASE64_RUN = re2.compile(
    rb"[A-Za-z0-9+/_-]{16,}(?:\s+[A-Za-z0-9+/_-]{16,})*(?:\s+[A-Za-z0-9+/_-]+)?={0,2}"
)
"""Lines of one block are one run; its last line may be short."""

_HEX_RUN = re2.compile(rb"(?:(?:0x|\\x|%)?[0-9a-fA-F]{2}[\s:,;-]{0,2}){12,}")
_HEX, _BASE64 = 0, 1


def _compiled(*patterns: str) -> Any:
    """Return `patterns` as one automaton: a text in which there is none of them is read just once."""
    found = re2.Set.SearchSet()
    for pattern in patterns:
        found.Add(pattern)
    found.Compile()
    return found


_RUNS = _compiled(
    r"(?:(?:0x|\\x|%)?[0-9a-fA-F]{2}[\s:,;-]{0,2}){12}",
    r"[A-Za-z0-9+/_-]{16}",
)
"""What has a `_HEX_RUN` in it, and what has a `_BASE64_RUN`."""

_NO_HEX = bytes(frozenset(range(256)).difference(b"0123456789abcdefABCDEF"))
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_BACKSLASH = re.compile(r"\\")
_FEWEST_ESCAPES = 4
_TO_STANDARD = str.maketrans("-_", "+/", " \t\r\n=")
_NO_SYMBOL = re.compile(r"[^A-Za-z0-9+/_\- \t\r\n=]")
"""What neither base64 nor the white space in it has; nearly every text has some."""


@value
class Decoded:
    text: str
    how: str
    """What was undone, outermost first: `base64`, `percent+hex`."""


def decoded_forms(
    text: str, most_runs: int = _MOST_RUNS, most: int = MOST_DECODED
) -> Generator[Decoded, None, bool]:
    """Yield the texts that are encoded in `text`; work is linear in its length.

    Of what is encoded by itself `most_runs` are looked at, of each kind and in each text, and `most`
    characters of all that is decoded; return whether there are no more of these.

    What decodes to no text is nothing: of random bytes hardly any sequence is UTF-8.
    """
    waiting = deque([Decoded(text=text, how="")])
    left = most
    while waiting:
        outer = waiting.popleft()
        for how, inner in _undone(outer.text, most_runs):
            left -= len(inner)
            if left < 0:
                return False
            found = Decoded(text=inner, how=f"{outer.how}+{how}" if outer.how else how)
            yield found
            if found.how.count("+") < _DEEPEST - 1:
                waiting.append(found)
    return True


def _undone(text: str, most_runs: int) -> Iterator[tuple[str, str]]:
    if "%" in text and text.count("%") >= _FEWEST_ESCAPES and (plain := unquoted(text)) != text:
        yield "percent", plain
    if "&" in text and text.count(";") >= _FEWEST_ESCAPES and (plain := from_html(text)) != text:
        yield "html", plain
    if "\\" in text and text.count("\\") >= _FEWEST_ESCAPES:
        plain = "".join(_ESCAPE.sub(_unescaped, one) for one in pieces_of(text, _BACKSLASH))
        if plain != text:
            yield "escapes", plain
    octets = text.encode("utf-8", "surrogatepass")
    runs = _RUNS.Match(octets) or ()
    if _HEX in runs:
        for run in _found(_HEX_RUN, octets, most_runs):
            yield from (("hex", plain) for plain in _from_hex(run))
    if _BASE64 in runs:
        for run in _found(_BASE64_RUN, octets, most_runs):
            yield from (("base64", plain) for plain in _from_base64(run))
    if (scattered := _from_scattered(text)) is not None:
        yield "base64", scattered


def _found(pattern: "re2._Regexp", octets: bytes, most: int) -> Iterator[str]:
    for run in islice(pattern.finditer(octets), most):
        yield run[0].decode("ascii")


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1] or escape[2], 16))


def hex_digits(run: bytes) -> str:
    """Return the digits of `run`, without what stands before and between them."""
    return run.replace(b"0x", b"").translate(None, _NO_HEX).decode()


def _from_hex(run: str) -> Iterable[str]:
    digits = hex_digits(run.encode())
    plain = _text(bytes.fromhex(digits[: len(digits) // 2 * 2]))
    return () if plain is None else (plain,)


def _from_base64(run: str) -> Iterable[str]:
    """Return what a run encodes; where it does not begin at its first character, from further on.

    What encodes nothing may be a path, of which a part does: `example/aGVsbG8gd29ybGQ`.
    """
    found = _from_somewhere(run)
    if found is not None:
        return (found,)
    parts = [part for part in run.split("/") if len(part) >= SHORTEST_ENCODED]
    if parts == [run]:
        return ()
    return [plain for part in parts if (plain := _from_somewhere(part)) is not None]


def _from_somewhere(run: str) -> str | None:
    symbols = run.translate(_TO_STANDARD)
    for begin in range(4):
        plain = _base64(symbols[begin:])
        if plain is not None:
            return plain
    return None


def from_base64(text: str) -> str | None:
    """Return the text that `text` as a whole encodes, however long it is; `None` where that is none."""
    return _base64(text.translate(_TO_STANDARD))


def _from_scattered(text: str) -> str | None:
    """Return what `text` as a whole encodes, if it is base64 in pieces: spaces fall out."""
    if first_in(_NO_SYMBOL, text):
        return None
    symbols = text.translate(_TO_STANDARD)
    if SHORTEST_ENCODED <= len(symbols) < len(text.rstrip("=")):
        return _base64(symbols)
    return None


def _base64(symbols: str) -> str | None:
    whole = symbols[: len(symbols) - (len(symbols) % 4 == 1)]
    try:
        octets = binascii.a2b_base64(whole + "=" * (-len(whole) % 4), strict_mode=True)
    except (binascii.Error, ValueError):
        return None
    return _text(octets)


def _text(octets: bytes) -> str | None:
    """Return `octets` as text, if they are any: in UTF-8, or in UTF-16, where every other is zero."""
    try:
        text = octets.decode("utf-16-le" if octets[1:2] == b"\0" else "utf-8")
    except UnicodeDecodeError:
        return None
    return text if _is_printable(text) else None


def _is_printable(text: str) -> bool:
    if text.isprintable():
        return True
    printable = sum(sum(map(str.isprintable, step)) for step in steps_of(text))
    return printable + text.count("\n") + text.count("\t") >= 0.9 * len(text)

"""Whether a text says enough for its standing in two places to be no chance."""

import re
from collections.abc import Iterator
from itertools import chain, islice

import re2

from gateway.flow.folding import revealed
from gateway.flow.steps import pieces_of

IN_A_PIECE = 30
"""Bits, estimated, that a piece must carry: half a MiB of results and a KiB of payload have some
2 ** 29 pairs of places, of which one is alike by chance below that."""

IN_A_VALUE = 18
"""Bits that a whole value must carry: of whole values there are a few thousand."""

_LETTER, _DIGIT, _OF_A_CODE, _IDEOGRAPH = 1.5, 3, 4, 6
"""Bits a character: in words (Shannon, 1951), in numbers, in what mixes both, in ideographs."""

_SIGN = 4
"""Bits of what is neither letter nor digit; a single blank between two words is none."""

_FIRST_IDEOGRAPH = "\u2e80"
_BEGINNING = 256
"""Characters that tell of most texts. Where they do not, what stands behind them is read."""
_BLANK = re.compile(r"\s")

_DATE = re.compile(
    # Every one begins with a digit, so that other text is passed over without being tried.
    r"\d(?:\d{0,3}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ]{1,2}\d{1,2}:\d{2})?|\d?:\d{2}(?::\d{2})?"
    r"|(?:(?<=\b1)9|(?<=\b2)0)\d{6}\b)"
)
_TOKEN = re.compile(r"[^\W_]+")


def tells(text: str, least: int) -> bool:
    """Tell whether `text` carries `least` bits. Dates and times carry none: everybody has them."""
    if text.isalnum() and not text.isdecimal():
        return _bits(text) >= least  # a single token, and no date is one
    for part in chain((text[:_BEGINNING],), pieces_of(text[_BEGINNING:], _BLANK)):
        bits = 0.0
        for token in _TOKEN.finditer(_DATE.sub(" ", part)):
            bits += _bits(token[0])
            if bits >= least:
                return True
    return False


def carries(text: str, least: int) -> bool:
    """Tell whether `text` has room for `least` bits, whatever it means and however it spells them.

    Dates count as numbers here, and signs and blanks as what they are: one of many.
    """
    bits, at = 0.0, 0
    for token in _TOKEN.finditer(text):
        bits += _SIGN * len(text[at : token.start()].replace(" ", "", 1)) + _bits(token[0])
        at = token.end()
        if bits >= least:
            return True
    return bits + _SIGN * len(text[at:].rstrip(" ")) >= least


def _bits(token: str) -> float:
    if token[0] >= _FIRST_IDEOGRAPH:
        return _IDEOGRAPH * len(token)
    if token.isalpha():
        return _LETTER * len(token)
    return (_DIGIT if token.isdecimal() else _OF_A_CODE) * len(token)


_CODE = re2.compile(rb"(?:[A-Za-z]+[-_.:])*[A-Za-z0-9]*[0-9][A-Za-z0-9]*(?:[-_.:][A-Za-z0-9]+)*")
_DIGITS = b"0123456789"
_SHORTEST_CODE = 8
_MOST_CODES = 1024


def codes_in(text: str) -> Iterator[str]:
    """Yield the words of `text` that are codes.

    Numbers of accounts, keys, references: one of them says enough by itself. Dates do not.
    """
    octets = revealed(text).encode("utf-8", "surrogatepass")
    first = min((at for at in map(octets.find, _DIGITS) if at >= 0), default=None)
    if first is None:
        return  # sooner known than that there is no code
    # No blank stands in one, and a digit in each.
    octets = octets[octets.rfind(b" ", 0, first) + 1 :]
    for word in islice(_CODE.finditer(octets), _MOST_CODES):
        code = word[0].decode("ascii")
        if len(code) >= _SHORTEST_CODE and tells(code, IN_A_PIECE):
            yield code

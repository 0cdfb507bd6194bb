"""HTML's references to characters, read as a browser does (WHATWG HTML, numeric character references).

And a URI's, where they are undone in a text of any length.
"""

import html
import re
from urllib.parse import unquote

from gateway.flow.steps import pieces_of

_LONG = re.compile(r"&#([0-9]{8,})")
_REFERENCE = re.compile("&")
NO_OCTET = re.compile("%(?![89A-Fa-f][0-9A-Fa-f])|[^%0-9A-Fa-f]")
"""What no escaped octet begins with that belongs to the one before (RFC 3986 section 2.1, UTF-8)."""
_BEYOND = 8
"""Digits of a number that is no character's, whichever they are."""


def from_html(text: str) -> str:
    """Return `text` with its references undone, however many digits they have."""
    if "&" not in text:
        return text
    return "".join(html.unescape(_LONG.sub(_short, one)) for one in pieces_of(text, _REFERENCE))


def unquoted(text: str) -> str:
    """Return `text` with its percent signs undone."""
    return "".join(map(unquote, pieces_of(text, NO_OCTET)))


def _short(reference: re.Match[str]) -> str:
    # Python makes no number of more than 4300 digits; zeros may stand before a character's.
    return "&#" + (reference[1].lstrip("0")[:_BEYOND] or "0")

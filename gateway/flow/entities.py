"""HTML's references to characters, read as a browser does (WHATWG HTML, numeric character references)."""

import html
import re

_LONG = re.compile(r"&#([0-9]{8,})")
_BEYOND = 8
"""Digits of a number that is no character's, whichever they are."""


def from_html(text: str) -> str:
    """Return `text` with its references undone, however many digits they have."""
    if "&" not in text:
        return text
    return html.unescape(_LONG.sub(_short, text))


def _short(reference: re.Match[str]) -> str:
    # Python makes no number of more than 4300 digits; zeros may stand before a character's.
    return "&#" + (reference[1].lstrip("0")[:_BEYOND] or "0")

"""Texts of others in a normal form of Unicode, in time that grows as they do."""

import unicodedata
from collections.abc import Iterator
from typing import Final, Literal

_PIECE: Final = 128
"""Ordering a run of combining marks takes time quadratic in its length (Unicode 15, section 3.11)."""


def normal(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Return `text` in `form`: made piece by piece, so neither composed nor ordered across borders."""
    return text if text.isascii() else "".join(normal_pieces(form, text))


def normal_pieces(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> Iterator[str]:
    """Yield what `normal` returns, piece by piece: for those who may stop before its end."""
    for at in range(0, len(text), _PIECE):
        yield unicodedata.normalize(form, text[at : at + _PIECE])

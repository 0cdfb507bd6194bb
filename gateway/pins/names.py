"""When two names look like one to a person or to a model."""

import unicodedata
from collections.abc import Iterable

from gateway.domain.tools import Kind, Pin, UpstreamId

_LOOKALIKES = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l", "5": "s"})
_SEPARATORS = str.maketrans("", "", "_-. /")

_PIECE = 128
"""Ordering a run of combining marks takes time quadratic in its length (Unicode 15, section 3.11)."""


def compatible(text: str) -> str:
    """Return `text` in NFKC, in linear time: composed piece by piece, so not across their borders."""
    if text.isascii():
        return text
    pieces = (text[i : i + _PIECE] for i in range(0, len(text), _PIECE))
    return "".join(unicodedata.normalize("NFKC", piece) for piece in pieces)


def folded(name: str) -> str:
    """Return what is left of `name` when case, width, separators and lookalikes are ignored.

    Names with the same folding must not stand beside each other: a definition that was approved
    under the one could be shadowed by the other.
    """
    plain = compatible(name).casefold()
    return plain.translate(_SEPARATORS).translate(_LOOKALIKES).replace("rn", "m")


def tools_elsewhere(pins: Iterable[Pin], server: UpstreamId) -> frozenset[str]:
    """Return the names of tools that other servers have and `server` has not."""
    tools = [pin.target for pin in pins if pin.target.kind is Kind.TOOL]
    own = {tool.name for tool in tools if tool.server == server}
    return frozenset(tool.name for tool in tools if tool.server != server and tool.name not in own)

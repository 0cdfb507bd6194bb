"""How many bytes registered planes may have kept here for them: all of them together, and each."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from gateway.domain.calls import Call
from gateway.domain.nodes import MOST_NODES, marks_in

_CALL: Final = 16 * 1024
"""Bytes that a call takes with all that is known of it, however little it says."""
_A_BYTE: Final = 6
"""Its body as it came, and its texts as they were read and as they are written again: one wide
character makes all of a text wide."""
_A_NODE: Final = 128
_LONG: Final = 1024 * 1024
"""Nobody goes through so much to count its nodes."""


def octets_of_call(call: Call) -> int:
    """Return how many bytes it takes at most to keep `call` as it was read, whatever shape it has."""
    body = call.message.body
    nodes = MOST_NODES if len(body) > _LONG else min(marks_in(body), MOST_NODES)
    return _CALL + _A_BYTE * len(body) + _A_NODE * nodes


class Shares:
    """Bytes by plane. No plane has more than its share, so that none is left without by another one."""

    def __init__(self, *, octets: int, share: int) -> None:
        self._octets = octets
        self._share = share
        self._held: Counter[str] = Counter()
        self._all = 0

    @property
    def held(self) -> Mapping[str, int]:
        """How many bytes each plane has, of those that have any."""
        return self._held

    def fits(self, plane: str, octets: int) -> bool:
        """Whether there is room for so many more bytes of this plane."""
        return self._all + octets <= self._octets and self._held[plane] + octets <= self._share

    def take(self, plane: str, octets: int) -> bool:
        """Have `plane` take so many bytes, and return whether there was room."""
        if not self.fits(plane, octets):
            return False
        self._held[plane] += octets
        self._all += octets
        return True

    def leave(self, plane: str, octets: int) -> None:
        """Give back what `plane` took."""
        self._all -= octets
        self._held[plane] -= octets
        if not self._held[plane]:
            del self._held[plane]

"""How many bytes registered planes may have kept here for them: all of them together, and each."""

from collections import Counter
from collections.abc import Mapping


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

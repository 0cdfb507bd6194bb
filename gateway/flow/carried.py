"""What calls carried, so that it is known again when it comes back: an echo vouches for nothing."""

from collections.abc import Iterable

from gateway.flow.folding import BOUNDARY, folded

_SHORTEST_PART = 4
"""Letters. What has fewer is in many texts by chance, and counts only as a whole one."""

_END = BOUNDARY.encode()


class Carried:
    """Texts by their letters and digits, so that case, look and what stands between do not hide them."""

    def __init__(self, texts: Iterable[str] = (), *, most: int | None = None) -> None:
        """Beyond `most` bytes together everything counts as carried."""
        self._letters = _END
        self._most = most
        self._length = len(self._letters)
        self.add(texts)

    @property
    def length(self) -> int:
        """How much was carried by now; with it `has` tells what was carried before."""
        return self._length

    def add(self, texts: Iterable[str]) -> None:
        """Note what one more call carries."""
        added = b"".join(folded(text.replace(BOUNDARY, " ")) + _END for text in texts)
        self._length += len(added)
        if not self._overflows(self._length):
            self._letters += added

    def give_up(self) -> None:
        """Take everything for carried from now on."""
        self._most = -1

    def has(self, text: str, before: int | None = None) -> bool:
        """Tell whether `text` may be from what was carried, or from what was so at length `before`."""
        length = self._length if before is None else before
        if self._overflows(length):
            return True
        letters = folded(text.replace(BOUNDARY, " "))
        if len(letters) < _SHORTEST_PART:
            letters = _END + letters + _END
        return self._letters.find(letters, 0, length) >= 0

    def _overflows(self, length: int) -> bool:
        return self._most is not None and length > self._most

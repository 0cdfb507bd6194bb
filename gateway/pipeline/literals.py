"""Many texts looked for at once, in time that grows with what they are looked for in (pure)."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import Final

from gateway.errors import Denied

SHORTEST: Final = 4
"""Characters. A shorter text stands in too many places by chance."""
_FEW: Final = 32
"""So many are looked for one by one, which is quicker."""
_MOST_PARTS: Final = 8
"""Parts of a text of which the rarest one tells where the whole may stand."""
_MOST_LOOKS: Final = 10_000_000
"""Texts that are compared with a place at which they may stand: some seconds' work."""


class Literals:
    """Texts that are blotted out; shorter ones are left out."""

    def __init__(self, texts: Collection[str]) -> None:
        self._all = [text for text in dict.fromkeys(texts) if len(text) >= SHORTEST]
        self._by_part = _by_their_rarest_part(self._all) if len(self._all) > _FEW else {}
        self._left = _MOST_LOOKS

    def stand_in(self, text: str) -> bool:
        """Whether one of them stands in `text`.

        Raises:
            Denied: To tell it would take too long.

        """
        return next(self.spans(text), None) is not None

    def blotted(self, text: str, blot: str) -> str:
        """Return `text` with `blot` in place of each of them, and of those together that overlap.

        Raises:
            Denied: To find them would take too long.

        """
        kept, at = [], 0
        for begin, end in apart(sorted(self.spans(text))):
            kept += [text[at:begin], blot]
            at = end
        return "".join((*kept, text[at:])) if kept else text

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where in `text` one of them stands, in no order.

        Raises:
            Denied: To find them would take too long.

        """
        return self._indexed(text) if self._by_part else self._one_by_one(text)

    def _one_by_one(self, text: str) -> Iterator[tuple[int, int]]:
        for one in self._all:
            begin = text.find(one)
            while begin >= 0:
                yield begin, begin + len(one)
                begin = text.find(one, begin + len(one))

    def _indexed(self, text: str) -> Iterator[tuple[int, int]]:
        for place in range(len(text) - SHORTEST + 1):
            for offset, one in self._candidates(text[place : place + SHORTEST]):
                begin = place - offset
                if begin >= 0 and text.startswith(one, begin):
                    yield begin, begin + len(one)

    def _candidates(self, part: str) -> Collection[tuple[int, str]]:
        found = self._by_part.get(part, ())
        self._left -= len(found)
        if self._left < 0:
            raise Denied("what policy wants hidden cannot be looked for: it would take too long")
        return found


def _by_their_rarest_part(texts: Collection[str]) -> dict[str, list[tuple[int, str]]]:
    """Return for each part the texts that are looked for by it, and where in them it stands."""
    times = Counter(part for text in texts for part in _parts(text))
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for text in texts:
        part = min(_parts(text), key=times.__getitem__)
        found[part].append((text.find(part), text))
    return dict(found)


def _parts(text: str) -> list[str]:
    last = len(text) - SHORTEST
    return [text[at : at + SHORTEST] for at in range(last, -1, -(last // _MOST_PARTS + 1))]


def apart(spans: Collection[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield `spans`, which are in order, with those made one that overlap."""
    begin, end = -1, -1
    for first, last in spans:
        if first < end:
            end = max(end, last)
            continue
        if end >= 0:
            yield begin, end
        begin, end = first, last
    if end >= 0:
        yield begin, end

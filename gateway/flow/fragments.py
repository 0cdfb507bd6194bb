"""Which pieces of earlier texts a text contains, in time linear in both.

This explains, it does not protect: text that was encoded or reworded is not found, which is why
labels, and not matches, decide what may go where.
"""

SHORTEST_FRAGMENT = 12
"""Characters in a row that count as a piece of a text."""

LONGEST_SCANNED = 64 * 1024
"""Characters of a payload that are looked at."""

_STRIDE = 4
_GRAM = SHORTEST_FRAGMENT - _STRIDE + 1
"""Any `SHORTEST_FRAGMENT` characters contain a gram that begins at a multiple of `_STRIDE`."""

_MOST_PLACES = 8
"""Of one gram, the newest. It bounds the work; a piece of nothing but commoner grams is missed."""


class Fragments:
    """Texts by serial number, searchable for pieces."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._places: dict[str, list[tuple[int, int]]] = {}
        """Gram -> the texts it is in, and where; oldest first."""

    def add(self, serial: int, text: str) -> None:
        """Remember `text`; `serial` is greater than every one before."""
        self._texts[serial] = text
        for at in range(0, len(text) - _GRAM + 1, _STRIDE):
            places = self._places.setdefault(text[at : at + _GRAM], [])
            places.append((serial, at))
            del places[:-_MOST_PLACES]

    def drop(self, serial: int) -> None:
        """Forget the text `serial`, the oldest, if it was added."""
        text = self._texts.pop(serial, "")
        for at in range(0, len(text) - _GRAM + 1, _STRIDE):
            gram = text[at : at + _GRAM]
            places = self._places.get(gram)
            while places and places[0][0] == serial:
                del places[0]
            if not places:
                self._places.pop(gram, None)

    def within(self, payload: str) -> dict[int, int]:
        """Return which texts `payload` contains pieces of, and how many of its bytes they cover.

        Where pieces overlap, the texts that have the longest one count.
        """
        covered: dict[int, int] = {}
        payload = payload[:LONGEST_SCANNED]
        at = floor = 0
        while at + _GRAM <= len(payload):
            begin, end, serials = self._longest(payload, at, floor)
            if not serials:
                at += 1
                continue
            octets = len(payload[begin:end].encode("utf-8", "surrogatepass"))
            for serial in serials:
                covered[serial] = covered.get(serial, 0) + octets
            at = floor = end
        return covered

    def _longest(self, payload: str, at: int, floor: int) -> tuple[int, int, set[int]]:
        """Return the longest piece around `at`, not before `floor`, and the texts that have it."""
        begin, end, serials = _NOTHING
        if payload[at : at + _GRAM] not in self._places:
            return _NOTHING
        # Another text may have the same piece, with its grams a few characters further on.
        for hit in range(at, at + _STRIDE):
            for serial, there in self._places.get(payload[hit : hit + _GRAM], ()):
                text = self._texts[serial]
                most = min(_STRIDE - 1, hit - floor)
                start = hit - _common_length_before(payload, hit, text, there, most)
                reached = hit + _common_length(payload, hit, text, there)
                if reached - start > max(SHORTEST_FRAGMENT - 1, end - begin):
                    begin, end, serials = start, reached, {serial}
                elif serials and (start, reached) == (begin, end):
                    serials.add(serial)
        return begin, end, serials


_NOTHING: tuple[int, int, set[int]] = (0, 0, set())
"""No piece. Never changed: a piece that is found brings a set of its own."""


def _common_length_before(one: str, at: int, other: str, there: int, most: int) -> int:
    """Return how many characters, at most `most`, are the same before `at` and before `there`."""
    most = min(most, there)
    same = 0
    while same < most and one[at - same - 1] == other[there - same - 1]:
        same += 1
    return same


def _common_length(one: str, at: int, other: str, there: int) -> int:
    """Return how many characters are the same from `at` in `one` and `there` in `other`."""
    most = min(len(one) - at, len(other) - there)
    low = 0
    step = SHORTEST_FRAGMENT
    # Doubling steps while they match, then halving: slices compare at C speed.
    while low < most and step:
        high = min(low + step, most)
        if one[at + low : at + high] == other[there + low : there + high]:
            low, step = high, step * 2
        else:
            step //= 2
    return low

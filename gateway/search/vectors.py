"""Tools as points: closeness to a query, and agreement of two ways to score."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gateway.domain._value import value

Numbers = NDArray[np.float32]

_KEYWORD_SHARE = 0.18
"""How much common words count in a hybrid; closeness is the rest."""
_FEEDBACK = 0.6
"""How far a query moves towards the tools that are found first (Rocchio)."""
_FEEDBACK_TOOLS = 10
_FEEDBACK_SHARE = 0.1
"""At most this share of the tools counts as found first; else the feedback is everybody's mean."""
_SMALLEST = 1e-6
_FIRST_ROWS = 64
_DEPTH = 100
"""Tools that a ranking goes on with."""


def numbers(blob: bytes) -> Numbers:
    """Return a stored vector."""
    return np.frombuffer(blob, dtype="<f4").astype(np.float32)


def blob(vector: Numbers) -> bytes:
    """Return a vector as it is stored."""
    return vector.astype("<f4").tobytes()


def weighted(vectors: Sequence[bytes], weights: Sequence[float]) -> bytes:
    """Return the weighted sum: its product with a query is the weighted sum of the products."""
    total = sum(weight * numbers(vector) for vector, weight in zip(vectors, weights, strict=True))
    return blob(np.asarray(total, dtype=np.float32))


@value
class VisiblePoints:
    """The points of the visible tools, side by side.

    They are copied out: a product of a matrix may differ in the last bit by what else is in it, so
    it must hold nothing that the caller may not see.
    """

    tools: tuple[str, ...]
    points: Numbers


class Vectors:
    """One point a tool, grown and reused row by row. One thread at a time."""

    def __init__(self) -> None:
        self._matrix: Numbers = np.zeros((0, 0), dtype=np.float32)
        self._places: dict[str, int] = {}
        self._free: list[int] = []

    def put(self, tool: str, parts: Sequence[bytes]) -> None:
        """Place `tool` at the sum of these vectors."""
        point: Numbers = np.sum(np.stack([numbers(part) for part in parts]), axis=0)
        if tool not in self._places:
            if not self._free:
                self._grow(point.shape[0])
            self._places[tool] = self._free.pop()
        self._matrix[self._places[tool]] = point

    def drop(self, tool: str) -> None:
        """Forget a tool, if it has a place."""
        place = self._places.pop(tool, None)
        if place is not None:
            self._matrix[place] = 0
            self._free.append(place)

    def has_all(self, tools: Sequence[str]) -> bool:
        """Whether each of these has a place."""
        return all(tool in self._places for tool in tools)

    def visible(self, tools: Sequence[str]) -> VisiblePoints | None:
        """Return the points of `tools`, or `None` if one of them has none yet."""
        if not tools or not self.has_all(tools):
            return None
        places = np.fromiter((self._places[tool] for tool in tools), dtype=np.intp)
        return VisiblePoints(tools=tuple(tools), points=self._matrix[places])

    def _grow(self, dimension: int) -> None:
        size = len(self._matrix)
        bigger = np.zeros((max(_FIRST_ROWS, 2 * size), dimension), dtype=np.float32)
        if size:
            bigger[:size] = self._matrix
        self._matrix = bigger
        self._free = list(range(len(bigger) - 1, size - 1, -1))


def closest(
    query: bytes, visible: VisiblePoints, keyword: Mapping[str, float] | None
) -> dict[str, float]:
    """Return the best visible tools by closeness to `query`, with `keyword` scores or without.

    Both are brought to mean 0 and deviation 1 over the visible tools before they are added.
    """
    words = None if keyword is None else _words(visible, keyword)
    vector = numbers(query)
    first = _blend(vector, visible, words)
    feedback = min(_FEEDBACK_TOOLS, int(_FEEDBACK_SHARE * len(visible.tools)))
    if feedback:
        near = visible.points[_best(first, feedback)]
        lengths = np.linalg.norm(near, axis=1, keepdims=True)
        vector = vector + _FEEDBACK * (near / np.maximum(lengths, _SMALLEST)).mean(axis=0)
        first = _blend(vector, visible, words)
    return {visible.tools[at]: float(first[at]) for at in _best(first, _DEPTH)}


def _blend(vector: Numbers, visible: VisiblePoints, words: Numbers | None) -> Numbers:
    closeness = _standard(visible.points @ vector)
    if words is None:
        return closeness
    return np.float32(1 - _KEYWORD_SHARE) * closeness + np.float32(_KEYWORD_SHARE) * words


def _words(visible: VisiblePoints, keyword: Mapping[str, float]) -> Numbers:
    found = np.fromiter((keyword.get(tool, 0.0) for tool in visible.tools), dtype=np.float32)
    return _standard(found)


def _standard(found: Numbers) -> Numbers:
    centred = found - found.mean()
    return np.asarray(centred / max(float(centred.std()), _SMALLEST), dtype=np.float32)


def _best(scores: Numbers, count: int) -> NDArray[np.intp]:
    """Return the places of the `count` best; equal ones in their order."""
    return np.argsort(-scores, kind="stable")[:count]

"""One ranking out of several, by reciprocal ranks (pure)."""

import heapq
from collections.abc import Iterable, Mapping, Sequence

Scores = Mapping[str, float]

_RANK = 5
"""Added to ranks: how little the first of them differ. Small, since few results are looked at."""
_PARTS = 0.5
"""How much a part counts beside the whole."""
_STEPS = 0.25
"""How much a step counts: only for its first results, which it is sure of."""


_DEPTH = 100
"""Ranks that count in a fusion."""


def ranked(scores: Scores, limit: int) -> list[str]:
    """Return the `limit` best, the best first; equal ones by id."""
    if limit <= 0:
        return []
    least = min(heapq.nlargest(limit, scores.values()), default=0.0)
    best = [tool for tool, score in scores.items() if score >= least]
    return sorted(best, key=lambda tool: (-scores[tool], tool))[:limit]


def fused(whole: Scores, parts: Sequence[Scores], steps: Sequence[Scores]) -> dict[str, float]:
    """Return scores by the rank in the whole, the best rank in a part, and the rank in each step.

    A task of several steps needs several tools, of which each does well in its own part only.
    """
    if not parts and not steps:
        return dict(whole)
    total = {tool: 1 / (_RANK + rank) for rank, tool in _places(whole)}
    best: dict[str, int] = {}
    for part in parts:
        for rank, tool in _places(part):
            best[tool] = min(rank, best.get(tool, rank))
    for tool, rank in best.items():
        total[tool] = total.get(tool, 0.0) + _PARTS / (_RANK + rank)
    for step in steps:
        for rank, tool in _places(step):
            total[tool] = total.get(tool, 0.0) + _STEPS / rank
    return total


def _places(scores: Scores) -> Iterable[tuple[int, str]]:
    return enumerate(ranked(scores, _DEPTH), 1)

"""How long a search by keyword takes in large catalogues of made-up tools."""

import hashlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from statistics import median

from gateway.search.index import Index
from gateway.search.query import understand
from gateway.search.tools import ToolText

SIZES = (1_000, 10_000)
_WORDS = 5_000
_SHIFT = 20
"""Of Zipf and Mandelbrot's law: without it one word would stand in nearly every tool."""
_DESCRIPTION, _PARAMETERS, _DOCUMENTED, _QUERY = 25, 4, 8, 10
"""Words in a description, parameters, words about each of them, words in a query."""
_QUERIES = 200
_YARDSTICK = bytes(1 << 20)


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Milliseconds at one size."""

    tools: int
    p50_ms: float
    p95_ms: float
    first_ms: float
    """A caller's first search, which counts what they may see: half of the tools."""


def timed(size: int) -> Timed:
    """Search a catalogue of `size` tools, all of them visible."""
    made = _Made(random.Random(size))
    index = Index()
    tools = [made.tool(number) for number in range(size)]
    for tool in tools:
        index.add(tool)
    queries = [made.words(_QUERY) for _ in range(_QUERIES)]
    everything = frozenset(tool.id for tool in tools)
    _search(index, everything, queries[0])
    times = sorted(_ms(partial(_search, index, everything, query)) for query in queries)
    half = frozenset(sorted(everything)[::2])
    first = _ms(partial(_search, index, half, queries[0]))
    index.close()
    return Timed(
        tools=size,
        p50_ms=round(median(times), 3),
        p95_ms=round(times[int(0.95 * len(times))], 3),
        first_ms=round(first, 3),
    )


def yardstick_ms() -> float:
    """Return what hashing 1 MiB with SHA-256 takes here: a unit that other machines have, too."""
    times = [_ms(lambda: hashlib.sha256(_YARDSTICK).digest()) for _ in range(50)]
    return round(median(times), 3)


def _search(index: Index, visible: frozenset[str], query: str) -> None:
    index.keyword(understand(query), index.view(visible), 10)


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


class _Made:
    """Words that no language has, as often as words of a language are used."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        syllables = [a + b for a in "bdfgklmnprtv" for b in "aeiou"]
        self._words = sorted({"".join(dice.choices(syllables, k=3)) for _ in range(2 * _WORDS)})
        dice.shuffle(self._words)
        del self._words[_WORDS:]
        weights = (1 / (rank + _SHIFT) for rank in range(len(self._words)))
        self._weights: Sequence[float] = list(accumulate(weights))

    def words(self, count: int) -> str:
        """Return some words."""
        return " ".join(self._dice.choices(self._words, cum_weights=self._weights, k=count))

    def tool(self, number: int) -> ToolText:
        """Return a tool, one of ten of its server."""
        return ToolText(
            id=f"tool-{number}",
            server=f"server{number // 10}",
            name=self.words(3).replace(" ", "_"),
            description=self.words(_DESCRIPTION),
            parameters=tuple((self.words(1), self.words(_DOCUMENTED)) for _ in range(_PARAMETERS)),
            digest=f"sha256:{number:064x}",
        )

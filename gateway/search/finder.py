"""What discovery asks: the tools that fit a request, among those that the caller may see."""

import os
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import Protocol

from gateway.ports.vectors import VectorStore
from gateway.search.embedding import Embedder
from gateway.search.index import Closeness, Index, Pattern, matches
from gateway.search.query import Query, understand
from gateway.search.tools import Ranking, Strategy, ToolText
from gateway.turns import QUICK_NODES, Turns, finished, in_turn

WEIGHTS = "model.safetensors"
"""In a model's folder, beside `vocab.txt`."""
MOST_HITS = 50
"""Tools in one answer."""
_BATCH = 8
"""Tools that are embedded in one go; a query waits for its turn at most that long."""
_A_TURN = 8_000
"""Characters of tools that a pattern is matched with in one turn, where one tool is not more: some 200 ms
at the very worst."""
_MATCHING = QUICK_NODES + 1
"""A caller's pattern is never matched on the loop: how long that takes, its text does not tell."""


def _pieces(tools: Sequence[ToolText]) -> Iterator[Sequence[ToolText]]:
    some: list[ToolText] = []
    size = 0
    for tool in tools:
        if some and size + tool.size > _A_TURN:
            yield some
            some, size = [], 0
        some.append(tool)
        size += tool.size
    if some:
        yield some


class Meaning(Protocol):
    """Tools and texts by what they mean (`gateway.search.meaning`)."""

    def has_all(self, tools: Sequence[str]) -> bool:
        """Whether each of these has been placed."""
        ...

    def put(self, tool: str, vectors: Sequence[bytes]) -> None:
        """Place a tool."""
        ...

    def drop(self, tool: str) -> None:
        """Forget where a tool stands."""
        ...

    async def vectors_of(self, tools: Sequence[ToolText]) -> Mapping[str, Sequence[bytes]]:
        """Return the vectors that place each tool, by id."""
        ...

    async def texts(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        """Return the vector of each text."""
        ...

    def closeness(self, tools: Sequence[str], texts: Mapping[str, bytes]) -> Closeness | None:
        """Return how close `tools` are to each of `texts`; `None` if one has not been placed."""
        ...


class Finder:
    """Searches approved tools. Of one event loop; nothing leaves the process.

    What is indexed is read and changed in one thread: how many words there are is for servers and
    callers to say. Nobody has more than one place there.
    """

    def __init__(self, meaning: Meaning | None = None) -> None:
        """Begin with nothing indexed. Without `meaning` there is no search by meaning."""
        self._index = Index()
        self._meaning = meaning
        self._turns = Turns(places=1)

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """What may be asked for; the best first."""
        if self._meaning is None:
            return (Strategy.KEYWORD, Strategy.REGEX)
        return (Strategy.HYBRID, Strategy.EMBEDDING, Strategy.KEYWORD, Strategy.REGEX)

    async def add(self, tool: ToolText) -> None:
        """Make an approved tool findable, in place of what was indexed under its id."""
        await self._turns.finish(tool.server, self._add, tool)

    def _add(self, tool: ToolText) -> None:
        if self._meaning is not None and self._index.tools.get(tool.id) != tool:
            self._meaning.drop(tool.id)
        self._index.add(tool)

    async def remove(self, tool: str) -> None:
        """Make the tool with this id impossible to find."""
        await self._turns.finish("", self._remove, tool)

    def _remove(self, tool: str) -> None:
        if self._meaning is not None:
            self._meaning.drop(tool)
        self._index.remove(tool)

    @property
    def placed(self) -> tuple[int, int] | None:
        """How many tools are placed by meaning, and how many there are; `None` without a model."""
        if self._meaning is None:
            return None
        names = list(self._index.tools)
        return sum(self._meaning.has_all([name]) for name in names), len(names)

    async def prepare(self) -> None:
        """Compute the vectors that are missing; searches go on meanwhile, by keyword."""
        if self._meaning is None:
            return
        waiting = await self._turns.finish("", self._unplaced, self._meaning)
        for start in range(0, len(waiting), _BATCH):
            batch = waiting[start : start + _BATCH]
            vectors = await self._meaning.vectors_of(batch)
            await self._turns.finish("", self._place, self._meaning, batch, vectors)

    def _unplaced(self, meaning: Meaning) -> Sequence[ToolText]:
        return [tool for name, tool in self._index.tools.items() if not meaning.has_all([name])]

    def _place(
        self,
        meaning: Meaning,
        batch: Sequence[ToolText],
        vectors: Mapping[str, Sequence[bytes]],
    ) -> None:
        for tool in batch:
            # Meanwhile its approval may have been withdrawn, or another definition approved.
            if self._index.tools.get(tool.id) == tool:
                meaning.put(tool.id, vectors[tool.id])

    async def search(
        self,
        request: str,
        *,
        visible: AbstractSet[str],
        limit: int,
        strategy: Strategy | None = None,
        who: str = "",
    ) -> Ranking:
        """Return the best of the `visible` tools, as if no others existed.

        `visible` are ids, and the caller's: what policy lets them see. Narrow it to search one
        server. `limit` is at most 50. `strategy` is the best there is unless it is asked for;
        by keyword is answered where no meaning is known, and while vectors of visible tools are
        missing: `answered_by` says which it was.
        All of it is done in the turn of `who`.

        Raises:
            BadCommand: A pattern was asked for that is none, or is too large.
            RateLimited: So much of `who` waits already.

        """
        limit = max(0, min(limit, MOST_HITS))
        strategy = strategy or self.strategies[0]
        if strategy is Strategy.REGEX:
            matched = await self._matched(request, visible, who)
            return await self._turns.finish(who, self._index.regex, matched, limit)
        query = await self._turns.take(who, understand, request)
        vectors = None
        if strategy is not Strategy.KEYWORD:
            vectors = await self._vectors(query.texts, visible, who)
        # Only now: while vectors were computed, approvals may have been withdrawn.
        rank = partial(self._ranked, by=strategy, vectors=vectors, limit=limit)
        return await self._turns.finish(who, rank, query, visible)

    def _ranked(
        self,
        query: Query,
        visible: AbstractSet[str],
        *,
        by: Strategy,
        vectors: Mapping[str, bytes] | None,
        limit: int,
    ) -> Ranking:
        view = self._index.view(visible)
        if vectors is not None and self._meaning is not None:
            measured = self._meaning.closeness(view.tools, vectors)
            if measured is not None and by is Strategy.HYBRID:
                return self._index.hybrid(query, view, measured, limit)
            if measured is not None:
                return self._index.embedding(query, view, measured, limit)
        return self._index.keyword(query, view, limit)

    async def _matched(
        self, request: str, visible: AbstractSet[str], who: str
    ) -> Mapping[ToolText, float]:
        """Return the tools in which a pattern is found; others have their turn between a few of them.

        There are two threads for everybody, and a pattern over all tools can take seconds.
        """
        pattern = await in_turn(who, _MATCHING, Pattern, request)
        texts = await self._turns.finish(who, self._texts, visible)
        found: dict[ToolText, float] = {}
        for some in _pieces(texts):
            found |= await finished(who, _MATCHING, matches, pattern, some)
        return found

    def _texts(self, visible: AbstractSet[str]) -> Sequence[ToolText]:
        return self._index.texts(self._index.view(visible))

    async def _vectors(
        self, texts: Sequence[str], visible: AbstractSet[str], who: str
    ) -> Mapping[str, bytes] | None:
        """Return where `texts` are, or `None` if tools cannot be compared with them now."""
        meaning = self._meaning
        if meaning is None or not await self._turns.finish(who, self._are_placed, meaning, visible):
            return None
        return await meaning.texts(texts)

    def _are_placed(self, meaning: Meaning, visible: AbstractSet[str]) -> bool:
        return meaning.has_all(self._index.view(visible).tools)

    def close(self) -> None:
        """Let go of what is held, once the last that was begun of it is done."""
        self._turns.close(self._index.close)


def load_meaning(model: Path, digest: str, store: VectorStore) -> Meaning:
    """Load the model in the folder `model`; `store` keeps what it says. Raises as `load_embedder`."""
    embedder = load_embedder(model, digest)
    from gateway.search.meaning import Vectorized  # noqa: PLC0415 - after what is set for its library

    return Vectorized(embedder, store)


def load_embedder(model: Path, digest: str) -> Embedder:
    """Load the model in the folder `model`, whose weights are the ones that `digest` pins.

    The library under it computes in the thread that calls it, and starts none of its own. Blocks for
    about a second.

    Raises:
        ConfigError: A file is missing or another one.

    """
    # Read once, when the library is loaded: in a gateway it is set from the start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from gateway.search.minilm import MiniLM  # noqa: PLC0415 - after it is set

    return MiniLM(model / WEIGHTS, digest)

"""Tools and texts as vectors: kept ones where there are any, computed in a thread otherwise."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

from gateway.ports.vectors import VectorStore
from gateway.search.embedding import FORM, Embedder, aspects_of, server_aspect
from gateway.search.index import Closeness
from gateway.search.tools import ToolText
from gateway.search.vectors import Vectors, closest, weighted
from gateway.turns import in_thread

Asked = TypeVar("Asked")
Found = TypeVar("Found")


class Vectorized:
    """A `Meaning` of tools: where each stands, once that was computed."""

    def __init__(self, embedder: Embedder, store: VectorStore) -> None:
        self._embedder = embedder
        self._model = _name_of(embedder.model)
        self._store = store
        self._vectors = Vectors()
        self._turn = asyncio.Lock()
        self._size = len(embedder.embed([""])[0])

    def has_all(self, tools: Sequence[str]) -> bool:
        """Whether each of these has been placed."""
        return self._vectors.has_all(tools)

    def drop(self, tool: str) -> None:
        """Forget where a tool stands; its vector stays in the store."""
        self._vectors.drop(tool)

    async def vectors_of(self, tools: Sequence[ToolText]) -> Mapping[str, Sequence[bytes]]:
        """Return the vectors that place each tool, by id; what was not kept is now."""
        own = await self._in_turn(self._definitions, tools)
        servers = {tool.id: server_aspect(tool) for tool in tools}
        texts = await self.texts([aspect.text for aspect in servers.values()])
        return {
            tool.id: (
                own[tool.digest],
                weighted([texts[servers[tool.id].text]], [servers[tool.id].weight]),
            )
            for tool in tools
        }

    def put(self, tool: str, vectors: Sequence[bytes]) -> None:
        """Place a tool."""
        self._vectors.put(tool, vectors)

    async def texts(self, texts: Collection[str]) -> Mapping[str, bytes]:
        """Return the vector of each text; what was not kept is now."""
        return await self._in_turn(self._texts, texts)

    def closeness(self, tools: Sequence[str], texts: Mapping[str, bytes]) -> Closeness | None:
        """Return how close `tools` are to each of `texts`; `None` if one has not been placed."""
        visible = self._vectors.visible(tools)
        if visible is None:
            return None

        def measured(text: str, keyword: Mapping[str, float] | None) -> Mapping[str, float]:
            return closest(texts[text], visible, keyword)

        return measured

    async def _in_turn(self, compute: Callable[[Asked], Found], asked: Asked) -> Found:
        """Compute in a thread, one computation at a time: two would only slow each other down."""
        return await in_thread(self._turn, partial(compute, asked))

    def _definitions(self, tools: Sequence[ToolText]) -> dict[str, bytes]:
        kept = self._sound(self._store.tools(self._model, {tool.digest for tool in tools}))
        missing = {tool.digest: tool for tool in tools if tool.digest not in kept}
        aspects = {digest: aspects_of(tool) for digest, tool in missing.items()}
        vectors = iter(self._embedder.embed([a.text for each in aspects.values() for a in each]))
        made = {
            digest: weighted([next(vectors) for _ in each], [aspect.weight for aspect in each])
            for digest, each in aspects.items()
        }
        if made:
            self._store.keep_tools(self._model, made)
        return kept | made

    def _texts(self, texts: Collection[str]) -> dict[str, bytes]:
        wanted = dict.fromkeys(texts)
        kept = self._sound(self._store.texts(self._model, wanted))
        missing = [text for text in wanted if text not in kept]
        made = dict(zip(missing, self._embedder.embed(missing), strict=True))
        if made:
            self._store.keep_texts(self._model, made)
        return kept | made

    def _sound(self, found: Mapping[str, bytes]) -> dict[str, bytes]:
        """Leave out what is no vector of this model: the file is not part of what is trusted."""
        return {key: vector for key, vector in found.items() if len(vector) == self._size}


def _name_of(model: str) -> str:
    """Return the model and how tools are put into words for it: vectors made otherwise differ."""
    return f"{model}/{FORM}"

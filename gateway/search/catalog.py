"""The tools that are approved now, kept findable: what changed since the last search is indexed first."""

import asyncio
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from gateway.domain.tools import Manifest
from gateway.search.finder import Finder
from gateway.search.tools import Ranking, Strategy, ToolText

_AT_ONCE: Final = 20
"""Tools that are indexed before others get their turn: a few milliseconds."""


class Catalog:
    """Searches what it is told is approved. Of one event loop; nothing leaves the process."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._indexed: dict[str, Manifest] = {}
        self._changing = asyncio.Lock()

    async def search(
        self,
        request: str,
        *,
        approved: Mapping[str, Manifest],
        visible: AbstractSet[str],
        limit: int,
        strategy: str | None = None,
    ) -> Ranking:
        """Return the best of the `visible` tools, as if no others existed.

        `approved` is every tool that a person approved, by an id of the caller's choice; whatever
        else was indexed is forgotten first. `strategy` and the rest are as `Finder.search` has them.

        Raises:
            BadCommand: A pattern was asked for that is none.

        """
        async with self._changing:
            await self._follow(approved)
        chosen = None if strategy is None else Strategy(strategy)
        return await self._finder.search(
            request, visible=visible & approved.keys(), limit=limit, strategy=chosen
        )

    async def _follow(self, approved: Mapping[str, Manifest]) -> None:
        for gone in self._indexed.keys() - approved.keys():
            self._finder.remove(gone)
            del self._indexed[gone]
        changed = [
            (id_, manifest)
            for id_, manifest in approved.items()
            if self._indexed.get(id_) is not manifest
        ]
        for place, (id_, manifest) in enumerate(changed, start=1):
            self._finder.add(ToolText.of(id_, manifest))
            self._indexed[id_] = manifest
            if place % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def close(self) -> None:
        """Let go of what is held."""
        self._finder.close()

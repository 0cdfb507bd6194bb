"""The tools that are approved now, kept findable: what changed since the last search is indexed first."""

import asyncio
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final, TypeAlias

from gateway.domain.nodes import most_nodes
from gateway.domain.tools import Manifest
from gateway.search.finder import Finder
from gateway.search.tools import Ranking, Strategy, ToolText
from gateway.turns import finished, in_steps

Approved: TypeAlias = tuple[Manifest, str]
"""A definition of a tool, and what was approved of what its server says of itself."""

_LOOK_S: Final = 1.0
"""How often it is looked whether anything else is approved; a search looks for itself."""


class Catalog:
    """Searches what it is told is approved. Of one event loop; nothing leaves the process."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._indexed: dict[str, Approved | None] = {}
        """`None`: nobody waited until it was indexed or forgotten, and which it is nobody knows."""
        self._followed: Mapping[str, Approved] | None = None
        """All that is indexed, unless it was not followed to its end."""
        self._changing = asyncio.Lock()

    async def search(
        self,
        request: str,
        *,
        approved: Mapping[str, Approved],
        visible: AbstractSet[str],
        limit: int,
        strategy: str | None = None,
        who: str = "",
    ) -> Ranking:
        """Return the best of the `visible` tools, as if no others existed.

        `approved` is every tool that a person approved, by an id of the caller's choice; whatever
        else was indexed is forgotten first. It is not changed afterwards. `strategy` and the rest are as
        `Finder.search` has them.

        Raises:
            BadCommand: A pattern was asked for that is none, or is too large.
            RateLimited: So much of `who` waits already.

        """
        async with self._changing:
            await self._follow(approved)
        chosen = None if strategy is None else Strategy(strategy)
        return await self._finder.search(
            request, visible=visible & approved.keys(), limit=limit, strategy=chosen, who=who
        )

    @property
    def placed(self) -> tuple[int, int] | None:
        """How many tools are placed by meaning, and how many there are; `None` without a model."""
        return self._finder.placed

    async def keep_ready(self, approved: Callable[[], Mapping[str, Approved]]) -> None:
        """Make ready what is approved, now and whenever that is something else; never returns."""
        ready: Mapping[str, Approved] | None = None
        while True:
            found = approved()
            if found is not ready:
                await self.make_ready(found)
                ready = found
            await asyncio.sleep(_LOOK_S)

    async def make_ready(self, approved: Mapping[str, Approved]) -> None:
        """Index what is approved before it is searched, and place it by meaning.

        Searches go on meanwhile. Of tools that are not placed yet they answer by keyword.
        """
        async with self._changing:
            await self._follow(approved)
        await self._finder.prepare()

    async def _follow(self, approved: Mapping[str, Approved]) -> None:
        if approved is self._followed:
            return
        self._followed = None
        for gone in self._indexed.keys() - approved.keys():
            self._indexed[gone] = None
            await self._finder.remove(gone)
            del self._indexed[gone]
        async for some in in_steps(list(approved.items())):
            for id_, one in some:
                if not self._has(id_, one):
                    self._indexed[id_] = None
                    await self._finder.add(await self._said(id_, *one))
                    self._indexed[id_] = one
        self._followed = approved

    @staticmethod
    async def _said(id_: str, manifest: Manifest, described: str) -> ToolText:
        """Return what can be found of a definition, which may have to be read for it."""
        read = partial(ToolText.of, id_, manifest, server_description=described)
        nodes = most_nodes(len(manifest.definition.text))
        return await finished(manifest.target.server, nodes, read)

    def _has(self, id_: str, approved: Approved) -> bool:
        manifest, described = self._indexed.get(id_) or (None, "")
        return manifest is approved[0] and described == approved[1]

    def close(self) -> None:
        """Let go of what is held."""
        self._finder.close()

"""Work that ends something: it goes on even if whoever began it is cancelled once more."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Endings:
    """Of one event loop."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[None]] = set()

    async def of(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it, and wait for it unless cancelled meanwhile."""
        ending = asyncio.get_running_loop().create_task(work)
        self._under_way.add(ending)
        ending.add_done_callback(self._under_way.discard)
        await asyncio.shield(ending)

    async def settled(self) -> None:
        """Wait until nothing is under way."""
        if self._under_way:
            await asyncio.wait(self._under_way)

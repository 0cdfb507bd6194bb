"""Work that goes on beside requests: somebody hears of it when it ends by itself."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


def begun(work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
    """Begin `work`, which is to go on until it is ended; the operator is told if it fails."""
    task = asyncio.create_task(work, name=what)
    task.add_done_callback(_tell)
    return task


async def ended(task: asyncio.Task[None]) -> None:
    """End what was begun. Returns when it has ended, however it did."""
    task.cancel()
    await asyncio.wait([task])


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s has failed and goes on no more", task.get_name(), exc_info=error)

"""The thread that waits for the disk, for all that was written to the journal meanwhile."""

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from gateway.storage.committer import Item
from gateway.storage.journal import Journal, JournalFailed

Synced = Callable[[list[Item], str], None]
"""Hears of what survives a power cut now, or why it may not, on the event loop."""


class Syncing:
    """While one wait for the disk lasts, the next one's records gather.

    Each time that the thread takes the interpreter over, calls wait: it does so as seldom as it can.
    """

    def __init__(self, journal: Journal, synced: Synced) -> None:
        self._journal = journal
        self._synced = synced
        self._loop = asyncio.get_running_loop()
        self._written: SimpleQueue[list[Item]] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="douane-journal", daemon=True)
        self._thread.start()

    def add(self, items: list[Item]) -> None:
        """Have those who wait for these told, once the disk has them."""
        self._written.put(items)

    async def close(self) -> None:
        """Return once everybody is told, or is about to be."""
        self._written.put([])
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        is_open = True
        while is_open:
            parts = [self._written.get(), *self._more()]
            is_open = all(parts)
            if items := [item for part in parts for item in part]:
                self._sync(items)

    def _sync(self, items: list[Item]) -> None:
        problem = ""
        try:
            self._journal.sync()
        except JournalFailed as error:
            problem = str(error)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._synced, items, problem)

    def _more(self) -> list[list[Item]]:
        found: list[list[Item]] = []
        try:
            while True:
                found.append(self._written.get_nowait())
        except Empty:
            return found

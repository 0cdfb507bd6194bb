"""The thread that waits for the disk, for all that was written to the journal meanwhile."""

import asyncio
import threading
from collections.abc import Callable

from gateway.storage.committer import Item
from gateway.storage.journal import Journal, JournalFailed

Synced = Callable[[list[Item], str], None]
"""Hears of what survives a power cut now, or why it may not, on the event loop."""


class Syncing:
    """While one wait for the disk lasts, the next one's records gather."""

    def __init__(self, journal: Journal, synced: Synced) -> None:
        self._journal = journal
        self._synced = synced
        self._loop = asyncio.get_running_loop()
        self._written: list[Item] = []
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="douane-journal", daemon=True)
        self._thread.start()

    def add(self, items: list[Item]) -> None:
        """Have those who wait for these told, once the disk has them."""
        with self._changed:
            self._written += items
            self._changed.notify()

    async def close(self) -> None:
        """Return once everybody is told, or is about to be."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while items := self._next():
            problem = ""
            try:
                self._journal.sync()
            except JournalFailed as error:
                problem = str(error)
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._synced, items, problem)

    def _next(self) -> list[Item]:
        with self._changed:
            while not self._written and not self._closing:
                self._changed.wait()
            items, self._written = self._written, []
        return items

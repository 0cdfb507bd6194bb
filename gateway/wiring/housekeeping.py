"""The process's memory: how it is laid out, and how what is done with goes back to the system.

What a call leaves in reference cycles waits for a collection, which Python begins by how many objects
there are and not by how much they hold: a few thousand long texts are as many bytes as they please.
And what one thread of many freed, glibc keeps for that thread. Both grow with what strangers send.
"""

import asyncio
import ctypes
import gc
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from gateway.wiring.background import begun, ended

_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
"""Of mallopt(3)."""
_MAPPED_BYTES: Final = 256 * 1024
_ARENAS: Final = 1
"""One for all threads, which wait for one another anyhow."""
_YOUNG_OBJECTS: Final = 25_000
_EVERY_S: Final = 0.5
GROWTH: Final = 24 * 1024**2
"""Bytes by which the process grows before it is looked through."""
_SHARE: Final = 50
"""Of the time that goes by, one part of so many at most goes into looking."""
_LONG_S: Final = 0.02
"""A collection holds everybody up; one of all objects that takes longer is made rarely."""
_RARE_SHARE: Final = 1000
_YOUNG: Final = 1
_ALL: Final = 2
"""Generations of objects, as `gc.collect` has them."""


def lay_out() -> None:
    """Have all threads share what they freed, and large messages go back at once.

    By itself glibc gives each thread a heap of its own, and begins to keep large pieces.
    """
    with suppress(AttributeError, OSError):  # not every C library has it
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, _ARENAS)
        library.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)


def settle() -> None:
    """Leave what start-up made out of every later collection, and collect less often.

    Modules and compiled policy are some hundred thousand objects that never become garbage: looking
    through them held up every call under way for tens of milliseconds. Whoever starts a gateway
    switches collection off before: while they are made it was a fifth of the work.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 100)


class Housekeeping:
    """Collects and gives back once the process has grown by much since it last did.

    Young objects come first, which is quick: all are looked through only where that was not enough.
    """

    def __init__(
        self,
        resident: Callable[[], int],
        collect: Callable[[int], object],
        trim: Callable[[], object],
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """`resident` says how many bytes the process has; `trim` may take a while, in a thread."""
        self._resident = resident
        self._collect = collect
        self._trim = trim
        self._elapsed = elapsed
        self._floor = resident()
        self._not_before = {_YOUNG: 0.0, _ALL: 0.0}

    async def look(self, now: float) -> bool:
        """Do what is due; return whether anything was."""
        self._floor = min(self._floor, self._resident())
        did = [await self._looked_through(generation, now) for generation in (_YOUNG, _ALL)]
        if any(did):
            self._floor = self._resident()
        return any(did)

    async def _looked_through(self, generation: int, now: float) -> bool:
        if self._resident() - self._floor < GROWTH or now < self._not_before[generation]:
            return False
        began = self._elapsed()
        self._collect(generation)
        took = self._elapsed() - began
        self._not_before[generation] = now + took * (_RARE_SHARE if took > _LONG_S else _SHARE)
        await asyncio.to_thread(self._trim)
        return True


@asynccontextmanager
async def kept_small() -> AsyncIterator[None]:
    """Look after the process's memory meanwhile."""
    keeping = begun(_keep(), "giving memory back")
    try:
        yield
    finally:
        await ended(keeping)


async def _keep() -> None:
    housekeeping = Housekeeping(_resident, gc.collect, _trim)
    while True:
        await asyncio.sleep(_EVERY_S)
        await housekeeping.look(time.monotonic())


def _resident() -> int:
    """Return how many bytes of this process are in memory; 0 where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _trim() -> None:
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)

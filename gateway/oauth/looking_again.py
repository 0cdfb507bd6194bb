"""A no of old memory is asked again: what one gateway has just registered, another may not know yet."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from gateway.domain.epoch import Epoch
from gateway.domain.identity import Credential, Principal
from gateway.errors import Unauthenticated
from gateway.ports import Authenticator
from gateway.turns import in_thread

_EACH_S: Final = 0.05
"""Seconds from one look to the next: so many strangers come, and so often is a database asked for them."""


class Look:
    """Has memory show what others have changed by the time that somebody asks for it.

    It waits for a database, and is done once for all who are refused before it begins, twenty times a
    second at most: anybody can be refused.
    """

    def __init__(
        self,
        follow: Callable[[], object],
        *,
        elapsed: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`follow` has memory show it, waiting; `elapsed` is what time is measured with."""
        self._follow = follow
        self._elapsed = elapsed
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._begun = 0
        self._ended = 0
        self._begun_at = -math.inf

    async def __call__(self) -> None:
        """Return once memory shows what was committed before.

        Raises:
            IdentityUnavailable: It cannot be seen.

        """
        begun = self._begun
        if (early_s := self._begun_at + _EACH_S - self._elapsed()) > 0:
            await self._sleep(early_s)
        await in_thread(self._turn, partial(self._look, begun))

    def _look(self, begun: int) -> None:
        """Follow, unless that was done by a look that began after the first `begun` of them."""
        if self._ended > begun:
            return
        self._begun = number = self._begun + 1
        self._begun_at = self._elapsed()
        self._follow()
        self._ended = number


async def nothing_to_see() -> None:
    """Look for nothing: memory is all there is."""


class LooksAgain:
    """An `Authenticator` that says no by what is so, and not by what it remembers alone."""

    def __init__(self, gate: Authenticator, *, look: Look, epoch: Epoch) -> None:
        """`epoch` is turned where a `look` finds anything."""
        self._gate = gate
        self._look = look
        self._epoch = epoch

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        """Return who holds `credential`; see `Authenticator`."""
        before = self._epoch.now
        try:
            return await self._gate.authenticate(credential, endpoint)
        except Unauthenticated:
            if credential is None:
                raise
            await self._look()
            if self._epoch.now == before:
                raise
        return await self._gate.authenticate(credential, endpoint)

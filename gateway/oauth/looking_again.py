"""A no of old memory is asked again: what one gateway has just registered, another may not know yet."""

import asyncio
from collections.abc import Callable
from functools import partial

from gateway.domain.epoch import Epoch
from gateway.domain.identity import Credential, Principal
from gateway.errors import Unauthenticated
from gateway.ports import Authenticator
from gateway.turns import in_thread


class LooksAgain:
    """An `Authenticator` that says no by what is so, and not by what it remembers alone."""

    def __init__(self, gate: Authenticator, *, follow: Callable[[], object], epoch: Epoch) -> None:
        """`follow` has memory show what others have changed; `epoch` is turned where that is anything.

        It waits for a database, and is asked once for all who are refused before it begins: anybody
        can be refused.
        """
        self._gate = gate
        self._follow = follow
        self._epoch = epoch
        self._turn = asyncio.Lock()
        self._begun = 0
        self._ended = 0

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        """Return who holds `credential`; see `Authenticator`."""
        before = self._epoch.now
        try:
            return await self._gate.authenticate(credential, endpoint)
        except Unauthenticated:
            if credential is None:
                raise
            await in_thread(self._turn, partial(self._look, self._begun))
            if self._epoch.now == before:
                raise
        return await self._gate.authenticate(credential, endpoint)

    def _look(self, begun: int) -> None:
        """Follow, unless that was done by a look that began after the first `begun` of them."""
        if self._ended > begun:
            return
        self._begun = number = self._begun + 1
        self._follow()
        self._ended = number

"""A no of old memory is asked again: what one gateway has just registered, another may not know yet."""

from collections.abc import Awaitable, Callable

from gateway.domain.epoch import Epoch
from gateway.domain.identity import Credential, Principal
from gateway.errors import Unauthenticated
from gateway.ports import Authenticator


class LooksAgain:
    """An `Authenticator` that says no by what is so, and not by what it remembers alone."""

    def __init__(
        self, gate: Authenticator, *, follow: Callable[[], Awaitable[object]], epoch: Epoch
    ) -> None:
        """`follow` has memory show what others have changed; `epoch` is turned where that is anything."""
        self._gate = gate
        self._follow = follow
        self._epoch = epoch

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        """Return who holds `credential`; see `Authenticator`."""
        before = self._epoch.now
        try:
            return await self._gate.authenticate(credential, endpoint)
        except Unauthenticated:
            if credential is None:
                raise
            await self._follow()
            if self._epoch.now == before:
                raise
        return await self._gate.authenticate(credential, endpoint)

"""A bound on guessing: how many attempts one address, and one account, has left."""

import secrets
from typing import Final

from gateway.domain.bounded import digest_of
from gateway.domain.networks import network_of
from gateway.domain.throttle import Throttle
from gateway.ports import Clock
from gateway.ports.buckets import SharedThrottle
from gateway.signin.errors import Throttled

_PLACES: Final = 2**16
"""In which targets are counted. Strangers make names up: if each had a count of its own, as many of them
as are remembered would have the gateway forget how often somebody was guessed at.
"""


class Attempts:
    """Guesses by source address and by what is guessed at, each with a bound of its own.

    Many addresses cannot guess at one account, nor one address at many accounts. An attempt counts
    from its beginning, so that attempts at the same moment do not all pass. What is guessed at is counted
    by its place among so many, which nobody can tell: of two in one place each counts for the other too.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        by_address: int,
        by_target: int,
        window_s: float = 300.0,
        shared: SharedThrottle | None = None,
        what: str = "",
    ) -> None:
        """With `shared`, count those of all gateways at `what` together."""
        self._clock = clock
        self._shared = shared
        self._what = what
        self._allowed = (by_address, by_target)
        self._window_s = window_s
        self._by_address = Throttle(allowed=by_address, window_s=window_s)
        self._by_target = Throttle(allowed=by_target, window_s=window_s, most_keys=_PLACES)
        self._key = secrets.token_bytes(16)

    async def begin(self, source_ip: str, target: str) -> None:
        """Count an attempt.

        Raises:
            Throttled: There were too many; this one does not count.
            IdentityUnavailable: It cannot be counted.

        """
        if self._shared is not None:
            of = zip(self._names(source_ip, target), self._allowed, strict=True)
            if wait := await self._shared.note(list(of), window_s=self._window_s):
                raise Throttled(wait)
            return
        now = self._clock()
        place = self._place(target)
        wait_s = max(self._by_address.wait_s(source_ip, now), self._by_target.wait_s(place, now))
        if wait_s:
            raise Throttled(wait_s)
        self._by_address.note(source_ip, now)
        self._by_target.note(place, now)

    async def take_back(self, source_ip: str, target: str) -> None:
        """Uncount an attempt that was no guess. Earlier ones stay: guessers have accounts, too."""
        if self._shared is not None:
            await self._shared.forgive(self._names(source_ip, target))
            return
        self._by_address.forgive(source_ip)
        self._by_target.forgive(self._place(target))

    def _place(self, target: str) -> str:
        place = int.from_bytes(digest_of(self._key, network_of(target))) % _PLACES
        return f"place {place}"

    def _names(self, source_ip: str, target: str) -> tuple[str, str]:
        return (
            f"{self._what} from {network_of(source_ip)}",
            f"{self._what} at {network_of(target)}",
        )

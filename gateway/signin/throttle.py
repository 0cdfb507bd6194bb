"""A bound on guessing: how many attempts one address, or one account, has left."""

import math
from collections import deque
from typing import Final

from gateway.domain.bounded import Bounded, digest_of
from gateway.domain.networks import network_of
from gateway.ports import Clock
from gateway.signin.errors import Throttled

_OCTETS: Final = 8 * 1024**2
_TIME: Final = 40
"""Bytes that one attempt takes."""


class Throttle:
    """Attempts of the last `window_s` seconds by key, in bounded memory."""

    def __init__(self, *, allowed: int, window_s: float, most_keys: int = 10_000) -> None:
        self._allowed = allowed
        self._window_s = window_s
        self._times: Bounded[bytes, deque[float]] = Bounded(most=most_keys, octets=_OCTETS)

    def wait_s(self, key: str, now: float) -> int:
        """Return for how many whole seconds `key` must wait; 0 if it may try."""
        times = self._times.get(digest_of(key))
        if times is None or len(times) < self._allowed:
            return 0
        return max(0, math.ceil(times[0] + self._window_s - now))

    def count(self, key: str, now: float) -> None:
        """Count one attempt; the key that has been quiet for longest is forgotten first."""
        name = digest_of(key)
        times = self._times.get(name) or deque(maxlen=self._allowed)
        times.append(now)
        self._times.put(name, times, _TIME * len(times))

    def take(self, key: str, now: float) -> None:
        """Count one attempt, if there is one left.

        Raises:
            Throttled: There is none.

        """
        wait_s = self.wait_s(key, now)
        if wait_s:
            raise Throttled(wait_s)
        self.count(key, now)

    def forgive(self, key: str) -> None:
        """Take the latest attempt back: it was no guess."""
        times = self._times.get(digest_of(key))
        if times:
            times.pop()


class Attempts:
    """Guesses by source address and by what is guessed at, each with a bound of its own.

    Many addresses cannot guess at one account, nor one address at many accounts. An attempt counts
    from its beginning, so that attempts at the same moment do not all pass.
    """

    def __init__(
        self, clock: Clock, *, by_address: int, by_target: int, window_s: float = 300.0
    ) -> None:
        self._clock = clock
        self._by_address = Throttle(allowed=by_address, window_s=window_s)
        self._by_target = Throttle(allowed=by_target, window_s=window_s)

    def begin(self, source_ip: str, target: str) -> None:
        """Count an attempt.

        Raises:
            Throttled: There were too many; this one does not count.

        """
        now, source = self._clock(), network_of(source_ip)
        wait_s = max(self._by_address.wait_s(source, now), self._by_target.wait_s(target, now))
        if wait_s:
            raise Throttled(wait_s)
        self._by_address.count(source, now)
        self._by_target.count(target, now)

    def take_back(self, source_ip: str, target: str) -> None:
        """Uncount an attempt that was no guess. Earlier ones stay: guessers have accounts, too."""
        self._by_address.forgive(network_of(source_ip))
        self._by_target.forgive(target)

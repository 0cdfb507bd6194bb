"""A bound on guessing and flooding: how many attempts an address, or a name, has left."""

import math
from collections import deque
from typing import Final

from gateway.domain.bounded import Bounded, digest_of
from gateway.domain.networks import network_of

_KEY: Final = 1024
"""Bytes that there are for each key, by and large."""
_TIME: Final = 40
"""Bytes that one attempt takes."""


class Throttle:
    """Attempts of the last `window_s` seconds by key, in bounded memory.

    A key that is an address stands for its network; any other for itself.
    """

    def __init__(self, *, allowed: int, window_s: float, most_keys: int = 10_000) -> None:
        self._allowed = allowed
        self._window_s = window_s
        self._times: Bounded[bytes, deque[float]] = Bounded(most=most_keys, octets=most_keys * _KEY)

    def wait_s(self, key: str, now: float) -> int:
        """Return for how many whole seconds `key` must wait; 0 if it may try."""
        if not self._times:
            return 0
        times = self._times.get(digest_of(network_of(key)))
        if times is None or len(times) < self._allowed:
            return 0
        return max(0, math.ceil(times[0] + self._window_s - now))

    def note(self, key: str, now: float) -> None:
        """Count one attempt; the key that has been quiet for longest is forgotten first."""
        name = digest_of(network_of(key))
        times = self._times.get(name) or deque(maxlen=self._allowed)
        times.append(now)
        self._times.put(name, times, _TIME * len(times))

    def forgive(self, key: str) -> None:
        """Take the latest attempt back: it was no guess."""
        if times := self._times.get(digest_of(network_of(key))):
            times.pop()


class Throttles:
    """The throttles of a process, by what they bound: what was counted goes on to count after a reload."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, float], Throttle] = {}

    def of(self, what: str, *, allowed: int, window_s: float) -> Throttle:
        """Return the one throttle of that name and these bounds."""
        key = what, allowed, window_s
        if key not in self._known:
            self._known[key] = Throttle(allowed=allowed, window_s=window_s)
        return self._known[key]

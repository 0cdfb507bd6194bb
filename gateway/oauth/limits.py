"""A bound on guessing and flooding: how many attempts one address has left."""

import math
from collections import deque
from typing import Final

from gateway.domain.bounded import Bounded, digest_of
from gateway.domain.networks import network_of

_OCTETS: Final = 8 * 1024**2
_TIME: Final = 40
"""Bytes that one attempt takes."""
FAILED_SIGN_INS_A_MINUTE = 20
"""From one address."""


class Throttle:
    """Attempts of the last `window_s` seconds by source address, in bounded memory."""

    def __init__(
        self, *, allowed: int = 20, window_s: float = 60.0, most_sources: int = 10_000
    ) -> None:
        self._allowed = allowed
        self._window_s = window_s
        self._times: Bounded[bytes, deque[float]] = Bounded(most=most_sources, octets=_OCTETS)

    def wait_s(self, source_ip: str, now: float) -> int:
        """Return for how many whole seconds the source must wait; 0 if it may try."""
        times = self._times.get(digest_of(network_of(source_ip)))
        if times is None or len(times) < self._allowed:
            return 0
        return max(0, math.ceil(times[0] + self._window_s - now))

    def note(self, source_ip: str, now: float) -> None:
        """Count one attempt; the source that has been quiet for longest is forgotten first."""
        source = digest_of(network_of(source_ip))
        times = self._times.get(source) or deque(maxlen=self._allowed)
        times.append(now)
        self._times.put(source, times, _TIME * len(times))


def failed_sign_ins() -> Throttle:
    """Return the bound on guessing secrets at the authorization server."""
    return Throttle(allowed=FAILED_SIGN_INS_A_MINUTE, window_s=60.0)

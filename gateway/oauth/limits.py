"""A bound on guessing and flooding: how many attempts one address has left."""

import math
from collections import OrderedDict, deque

from gateway.domain.networks import network_of

FAILED_SIGN_INS_A_MINUTE = 20
"""From one address."""


class Throttle:
    """Attempts of the last `window_s` seconds by source address, in bounded memory."""

    def __init__(
        self, *, allowed: int = 20, window_s: float = 60.0, most_sources: int = 10_000
    ) -> None:
        self._allowed = allowed
        self._window_s = window_s
        self._most_sources = most_sources
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_s(self, source_ip: str, now: float) -> int:
        """Return for how many whole seconds the source must wait; 0 if it may try."""
        times = self._times.get(network_of(source_ip))
        if times is None or len(times) < self._allowed:
            return 0
        return max(0, math.ceil(times[0] + self._window_s - now))

    def note(self, source_ip: str, now: float) -> None:
        """Count one attempt; the source that has been quiet for longest is forgotten first."""
        source = network_of(source_ip)
        self._times.setdefault(source, deque(maxlen=self._allowed)).append(now)
        self._times.move_to_end(source)
        if len(self._times) > self._most_sources:
            self._times.popitem(last=False)


def failed_sign_ins() -> Throttle:
    """Return the bound on guessing secrets at the authorization server."""
    return Throttle(allowed=FAILED_SIGN_INS_A_MINUTE, window_s=60.0)

"""How long callers wait for what a server lists: hardly at all where they have just waited in vain."""

import hashlib
from typing import Final, TypeAlias

from gateway.domain._value import value
from gateway.domain.bounded import Bounded
from gateway.domain.calls import Call
from gateway.domain.tools import UpstreamId

_WHOLE_S: Final = 10.0
"""How long a list goes without a server's part, at most."""
_AGAIN_S: Final = 1.0
"""How long, where the last wait was in vain: what is well again answers in milliseconds."""
_FIRST_REST_S: Final = 5.0
_LONGEST_REST_S: Final = 60.0
_FORGOTTEN_S: Final = 600.0
"""When one that is merely slow gets its whole time again."""
_MOST: Final = 10_000
_OCTETS: Final = 4 * 1024**2

Key: TypeAlias = tuple[bytes, UpstreamId]


@value
class _Rest:
    began: float
    until: float
    in_vain: int


class Waits:
    """Remembers it for each caller alone, so that nobody can make a server vanish for others."""

    def __init__(self) -> None:
        self._rests: Bounded[Key, _Rest] = Bounded(most=_MOST, octets=_OCTETS)

    def longest_s(self, call: Call, server: UpstreamId, now: float) -> float:
        """Return for how long to wait for `server`, in seconds; 0 is not to ask it at all.

        `now` is of a clock that never goes back.
        """
        rest = self._rests.get(_key(call, server))
        if rest is None or now >= rest.began + _FORGOTTEN_S:
            return _WHOLE_S
        return 0.0 if now < rest.until else _AGAIN_S

    def in_vain(self, call: Call, server: UpstreamId, now: float) -> None:
        """Take note that its time was up."""
        key = _key(call, server)
        rest = self._rests.pop(key)
        if rest is None or now >= rest.began + _FORGOTTEN_S:
            rest = _Rest(began=now, until=now, in_vain=0)
        if now >= rest.until:  # of several waits at once one counts
            rest_s = min(_LONGEST_REST_S, _FIRST_REST_S * 2.0**rest.in_vain)
            rest = _Rest(began=rest.began, until=now + rest_s, in_vain=rest.in_vain + 1)
        self._rests.put(key, rest)

    def answered(self, call: Call, server: UpstreamId) -> None:
        """Take note that it answered in time."""
        self._rests.pop(_key(call, server))


def _key(call: Call, server: UpstreamId) -> Key:
    # Whose token it is was found out before; the token itself is not kept.
    text = "" if call.credential is None else call.credential.text
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest(), server

"""Calls that agentgateway was allowed, until their results come with the token of their answer."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Final

from gateway.domain._value import value
from gateway.domain.calls import octets_of_call
from gateway.domain.planes import Plane
from gateway.domain.shares import Shares
from gateway.errors import RateLimited
from gateway.pipeline.plane_results import Pending

_OCTETS: Final = 64 * 1024**2
_SHARE: Final = _OCTETS // 2
"""Of one plane."""
_OF_EACH: Final = _SHARE // 2
"""Of one principal of a plane, as of what is owed: of lists nothing is, and they are kept here all the same."""
_OWED: Final = 4 * 1024
"""Bytes of a call that is kept as a debt anyway, where the rest of it is counted."""


@value
class Asked:
    """How a result says which call it is of: its token, and where and how that was asked about."""

    token: str = field(repr=False)
    services: tuple[str, ...]
    method: str


@value
class _Waiting:
    whose: str
    service: str
    method: str
    pending: Pending
    due: float
    octets: int


class Waiting:
    """What waits, by plane: none forgets another one's, and each has its share of the room.

    Of that each principal of the plane has a part. `whose` is as `said_by` has it.
    """

    def __init__(self, new_token: Callable[[], str]) -> None:
        self._new_token = new_token
        self._room = Shares(octets=_OCTETS, share=_SHARE)
        self._of_each = Shares(octets=_OCTETS, share=_OF_EACH)
        self._of: dict[str, OrderedDict[str, _Waiting]] = {}
        """The oldest of each plane first."""

    def require_room(self, plane: Plane, whose: str) -> None:
        """Return if one more call of `plane` can wait.

        Raises:
            RateLimited: Too many have no result yet.

        """
        if not self._room.fits(plane.name, _OWED):
            raise _full()
        if not self._of_each.fits(whose, _OWED):
            raise _full_of_theirs()

    def keep(
        self, plane: Plane, whose: str, asked: tuple[str, str], pending: Pending, now: float
    ) -> str:
        """Return the token with which the result of `pending` comes, of this service and method.

        Raises:
            RateLimited: There is no room to keep it.

        """
        call = pending.permit.call
        octets = octets_of_call(call) if pending.permit.access is None else _OWED
        if not self._room.take(plane.name, octets):
            raise _full()
        if not self._of_each.take(whose, octets):
            self._room.leave(plane.name, octets)
            raise _full_of_theirs()
        token = self._new_token()
        service, method = asked
        self._of.setdefault(plane.name, OrderedDict())[token] = _Waiting(
            whose=whose,
            service=service,
            method=method,
            pending=pending,
            due=now + plane.report_within_s,
            octets=octets,
        )
        return token

    def take(self, plane: Plane, asked: Asked) -> tuple[str, Pending] | None:
        """Return whose call, and which, a result of `plane` is of: each token is good once, and for its own."""
        found = self._of.get(plane.name, OrderedDict()).get(asked.token)
        if found is None or (found.service,) != asked.services or found.method != asked.method:
            return None
        self._forget(plane.name, asked.token)
        return found.whose, found.pending

    def over(self, now: float) -> Sequence[Pending]:
        """Forget whatever is too late, of any plane, and return it."""
        late = [
            (name, token, one.pending)
            for name, waiting in self._of.items()
            for token, one in _due(waiting, now)
        ]
        for name, token, _ in late:
            self._forget(name, token)
        return [pending for _, _, pending in late]

    def _forget(self, name: str, token: str) -> None:
        waiting = self._of[name]
        one = waiting.pop(token)
        self._room.leave(name, one.octets)
        self._of_each.leave(one.whose, one.octets)
        if not waiting:
            del self._of[name]


def _due(waiting: OrderedDict[str, _Waiting], now: float) -> Sequence[tuple[str, _Waiting]]:
    found = []
    for token, one in waiting.items():
        if one.due > now:
            break
        found.append((token, one))
    return found


def _full() -> RateLimited:
    return RateLimited("too many calls of this plane have no result yet; tell some results first")


def _full_of_theirs() -> RateLimited:
    return RateLimited("too many of your calls have no result yet; wait for some first")

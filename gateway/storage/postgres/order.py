"""In which order what lies in the tray comes into the log."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from gateway.domain._value import value


@value
class Waiting:
    """A record that is durable and not in the log yet."""

    lane: int
    n: int
    put_at: datetime
    """By the database's clock, the one that all replicas share."""
    leaf: bytes


def in_order(waiting: Iterable[Waiting], *, most: int) -> Sequence[Waiting]:
    """Return what is taken in next: by the database's time, and of each lane by its numbers.

    What came of another record was put after that was acknowledged: by the same clock, no effect stands
    before its cause. Where a lane has more than the `most` that were looked at, what was put later than
    the last of these waits as well, whichever lane it is of.
    """
    lanes: dict[int, list[Waiting]] = {}
    for one in sorted(waiting, key=lambda one: (one.lane, one.n)):
        lanes.setdefault(one.lane, []).append(one)
    timed = [each for lane in lanes.values() for each in _timed(lane)]
    cut = [_timed(lane)[-1][0] for lane in lanes.values() if len(lane) >= most]
    until = min(cut, default=None)
    timed.sort(key=lambda each: (each[0], each[1].lane, each[1].n))
    return [one for at, one in timed if until is None or at <= until]


def _timed(lane: Sequence[Waiting]) -> list[tuple[datetime, Waiting]]:
    """Return each record of a lane with its time, which a clock that jumps back does not turn around."""
    timed: list[tuple[datetime, Waiting]] = []
    for one in lane:
        at = one.put_at if not timed else max(one.put_at, timed[-1][0])
        timed.append((at, one))
    return timed

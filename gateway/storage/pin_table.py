"""Pins in memory: found at once, and sorted when one comes that was not there."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice
from threading import Lock

from gateway.domain.epoch import Epoch
from gateway.domain.tools import Pin, PinStatus, Profile, Target, UpstreamId
from gateway.pins.observe import pin_at

PinKey = tuple[Target, Profile]
_Place = tuple[str, ...]


class PinTable:
    """What is committed, as it is at a time."""

    def __init__(self, epoch: Epoch) -> None:
        """Turn `epoch` whenever something is committed."""
        self._epoch = epoch
        self._pins: dict[PinKey, Pin] = {}
        self._rows: dict[_Place, Pin] = {}
        self._places: list[_Place] = []
        """Of all rows, in their order. None is ever taken out."""
        self._ending: dict[_Place, Pin] = {}
        """Those whose approval runs out."""
        self._version = 0
        self._listed: list[Pin] | None = None
        """All of them in order, as they were when they were last listed."""
        self._until = math.inf
        """When the first approval among the listed runs out."""
        self._lock = Lock()
        """Threads look here too, for what takes long beside the event loop."""

    def put(self, pins: Iterable[Pin]) -> None:
        """Take in what was committed."""
        with self._lock:
            for pin in pins:
                key = pin_key(pin)
                place = identity_of(key)
                self._pins[key] = self._rows[place] = pin
                self._ending.pop(place, None)
                if pin.expires_at is not None:
                    self._ending[place] = pin
            if len(self._rows) > len(self._places):
                self._places += islice(
                    self._rows, len(self._places), None
                )  # the newest are the last
                self._places.sort()
            self._listed = None
            self._version += 1
        self._epoch.turn()

    def committed(self, target: Target, profile: Profile) -> Pin | None:
        """Return a pin as it was written, whatever the time."""
        return self._pins.get((target, profile))

    def find(self, target: Target, profile: Profile, now: float) -> Pin | None:
        """Return a pin as it is `now`, in seconds since the epoch."""
        pin = self._pins.get((target, profile))
        # Most approvals never end, and this is asked at every call.
        return pin if pin is None or pin.expires_at is None else pin_at(pin, now)

    def all(self, server: UpstreamId | None, now: float) -> Sequence[Pin]:
        """Return the pins of `server`, or all, as they are `now`, in a stable order."""
        with self._lock:
            listed = self._listed_at(now)
            if not server:
                return list(listed)
            # Nothing stands between a name and what follows it at once.
            begin, end = (bisect_left(self._places, (each,)) for each in (server, f"{server}\0"))
            return listed[begin:end]

    def version(self, now: float) -> int:
        """Return a number that is another one whenever `all` may answer differently."""
        with self._lock:
            self._listed_at(now)
            return self._version

    def _listed_at(self, now: float) -> list[Pin]:
        if self._listed is None or now >= self._until:
            if self._listed is not None:
                self._version += 1
            ending = {place: pin_at(pin, now) for place, pin in self._ending.items()}
            rows = self._rows | ending if ending else self._rows
            self._listed = list(map(rows.__getitem__, self._places))
            self._until = min(
                (
                    pin.expires_at
                    for pin in ending.values()
                    if pin.expires_at is not None and pin.status is PinStatus.APPROVED
                ),
                default=math.inf,
            )
        return self._listed


def pin_key(pin: Pin) -> PinKey:
    """Return what `pin` is filed under."""
    return pin.target, pin.profile


def identity_of(key: PinKey) -> tuple[str, str, str, str]:
    """Return what a pin is told apart by, as a store writes it."""
    target, profile = key
    return target.server, target.kind.value, target.name, profile.value

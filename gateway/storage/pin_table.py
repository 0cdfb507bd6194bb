"""Pins in memory: found at once, sorted once for each state that they are in."""

import math
from collections.abc import Iterable, Sequence
from threading import Lock

from gateway.domain.epoch import Epoch
from gateway.domain.tools import Pin, PinStatus, Profile, Target, UpstreamId
from gateway.pins.observe import pin_at

PinKey = tuple[Target, Profile]


class PinTable:
    """What is committed, as it is at a time."""

    def __init__(self, epoch: Epoch) -> None:
        """Turn `epoch` whenever something is committed."""
        self._epoch = epoch
        self._pins: dict[PinKey, Pin] = {}
        self._version = 0
        self._listed: list[Pin] | None = None
        """All of them in a stable order, as they were when they were last listed."""
        self._until = math.inf
        """When the first approval among the listed runs out."""
        self._lock = Lock()
        """Threads look here too, for what takes long beside the event loop."""

    def put(self, pins: Iterable[Pin]) -> None:
        """Take in what was committed."""
        with self._lock:
            self._pins.update((pin_key(pin), pin) for pin in pins)
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
        listed = self._listed_at(now)
        return [pin for pin in listed if pin.target.server == server] if server else list(listed)

    def version(self, now: float) -> int:
        """Return a number that is another one whenever `all` may answer differently."""
        self._listed_at(now)
        return self._version

    def _listed_at(self, now: float) -> list[Pin]:
        with self._lock:
            return self._listed_now(now)

    def _listed_now(self, now: float) -> list[Pin]:
        if self._listed is None or now >= self._until:
            if self._listed is not None:
                self._version += 1
            self._listed = sorted((pin_at(pin, now) for pin in self._pins.values()), key=_order)
            self._until = min(
                (
                    pin.expires_at
                    for pin in self._listed
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


def _order(pin: Pin) -> tuple[str, str, str, str]:
    return identity_of(pin_key(pin))

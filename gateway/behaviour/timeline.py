"""Which records come at their time: a log's order is certain, and what its clock said is not."""

from typing import Any

from gateway.behaviour.profile import DAY_S, HOUR_S

_LATE_S = 300
_LEAP_S = 4 * DAY_S
"""Longer than a weekend with holidays at both ends."""


class Timeline:
    """The newest time of the log, as far as it can be believed."""

    def __init__(self) -> None:
        self.newest = 0.0
        self._late_since: float | None = None
        self._quiet_until = 0.0

    def takes(self, time: float) -> bool:
        """Return whether a record of this `time` comes at its time, and move on to it.

        One that comes late was held back somewhere, or the clock was set back. If nothing but late
        records come for an hour, it was the clock.
        """
        if time < self.newest - _LATE_S:
            if self._late_since is None or time < self._late_since:
                self._late_since = time
            if time - self._late_since < HOUR_S:
                return False
            self.newest, self._quiet_until = time, time + DAY_S
        elif time > self.newest + _LEAP_S:
            # The gateway was away for long, or the clock was set on.
            self._quiet_until = time + DAY_S
        self._late_since = None
        self.newest = max(self.newest, time)
        return True

    @property
    def is_quiet(self) -> bool:
        """Whether the clock has just leapt, so that hours and days are not what they were."""
        return self.newest < self._quiet_until

    def dump(self) -> list[Any]:
        """Return all of it as JSON can say it."""
        return [self.newest, self._late_since, self._quiet_until]

    def load(self, dumped: list[Any]) -> None:
        """Take up what `dump` returned."""
        self.newest, self._late_since, self._quiet_until = dumped

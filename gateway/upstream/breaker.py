"""When an upstream that fails is left alone, and when it is tried again.

Failures of all callers make one count, and anybody's success ends it for everybody. But kept off are
only those who have seen the upstream fail themselves: whoever knows how to make it fail, with a call
that takes too long, holds up nobody but themselves.
"""

import logging
import math
from collections.abc import Callable
from typing import Final

from gateway.domain._value import value
from gateway.domain.identity import Principal
from gateway.domain.tools import UpstreamId
from gateway.errors import UpstreamResting
from gateway.ports import Clock

logger = logging.getLogger(__name__)

_LONGEST_S: Final = 60.0
_SPREAD: Final = 0.2
"""Which share of a pause is left to chance, so that many gateways do not come back at once."""


@value
class Patience:
    """How much of an upstream's failing is borne."""

    failures: int = 5
    """In a row; after so many it is left alone."""
    rest_s: float = 1.0
    """For how long at first; twice as long after each trial in vain, up to a minute."""

    def __post_init__(self) -> None:
        if self.failures < 1 or self.rest_s <= 0:
            raise ValueError("patience is at least one failure, and some time to rest")


class Trial:
    """Where one caller stands with an upstream that has failed."""

    def __init__(self) -> None:
        self.until = -math.inf
        """When the next call of theirs is let through."""
        self.in_vain = 0
        """How often it was left alone because of them."""
        self.under_way = False
        """Whether one call of theirs is finding out if it is well again."""
        self.answered = False
        """Whether it has since answered them what says little of calls."""


class Breaker:
    """Counts one upstream's failures in a row. Whoever is admitted says what became of it."""

    def __init__(
        self,
        server: UpstreamId,
        patience: Patience,
        *,
        clock: Clock,
        jitter: Callable[[], float],
    ) -> None:
        """`clock` counts seconds and never goes back; `jitter` gives a number from 0 to 1."""
        self._server = server
        self._patience = patience
        self._clock = clock
        self._jitter = jitter
        self._failures = 0
        self._last = ""
        self._trials: dict[str, Trial] = {}
        """Of everybody for whom it has failed since it was last well."""

    def count(self) -> int:
        """Return how often it has failed since it was last well."""
        return self._failures

    @property
    def is_open(self) -> bool:
        """Whether it has failed too often."""
        return self._failures >= self._patience.failures

    def admit(self, who: Principal | None) -> Trial | None:
        """Let a call through; `None` for `who` is the gateway itself.

        What is returned goes back with what became of it: `succeeded`, `answered`, `failed` or `left`.

        Raises:
            UpstreamResting: The upstream has failed too often, for this caller too, and it is not time yet,
                or a call of theirs is just finding out.

        """
        if not self._failures or not self.is_open:
            return None
        trial = self._trials.get(_name(who))
        if trial is None or trial.answered:
            return trial
        left_s = trial.until - self._clock()
        if left_s > 0:
            raise self._resting(f"It is tried again in {math.ceil(left_s)} s.")
        if trial.under_way:
            raise self._resting("It is being tried just now; call again soon.")
        trial.under_way = True
        return trial

    def succeeded(self) -> None:
        """Take note that it answered a call, whatever it said."""
        if not self._failures:
            return
        if self.is_open:
            logger.info("the server %s answers again", self._server)
        self._failures = 0
        self._trials.clear()

    def answered(self, trial: Trial | None) -> None:
        """Take note that it answered what it can answer though no call would succeed.

        A handshake, a list: whoever got that is let through, and failures are counted on.
        """
        if trial is not None:
            trial.answered = True
            trial.under_way = False

    def failed(self, who: Principal | None, trial: Trial | None, why: str) -> None:
        """Take note that a call failed because of it."""
        was_open = self.is_open
        self._failures += 1
        self._last = why
        known = self._trials.setdefault(_name(who), Trial())
        now = self._clock()
        if self.is_open and (not known.in_vain or (known is trial and known.until <= now)):
            # One trial in vain counts once; so do many calls that were under way when it broke.
            known.until = now + self._pause_s(known.in_vain)
            known.in_vain += 1
            known.answered = False
        known.under_way = known.under_way and known is not trial
        if self.is_open and not was_open:
            logger.warning(
                "the server %s failed %d times in a row: %s", self._server, self._failures, why
            )

    def left(self, trial: Trial | None) -> None:
        """Take note that nobody will know what became of a call, or not for long."""
        if trial is not None:
            trial.under_way = False

    def _pause_s(self, in_vain: int) -> float:
        # No float holds two to the power of a thousand.
        longest_s = min(_LONGEST_S, self._patience.rest_s * 2.0 ** min(in_vain, 32))
        return longest_s * (1 - _SPREAD * self._jitter())

    def _resting(self, when: str) -> UpstreamResting:
        return UpstreamResting(
            f"The upstream server failed {self._failures} times in a row and is left alone. {when}",
            detail=f"the last time: {self._last}",
        )


def _name(who: Principal | None) -> str:
    # Without the client: a person has another one for each endpoint.
    return "" if who is None else who.person

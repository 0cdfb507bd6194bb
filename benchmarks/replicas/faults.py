"""Which faults befall many gateways, in an order that a seed repeats."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

GATEWAY, HOLDER, POSTGRES, LANE = "gateway", "holder", "postgres", "lane"
"""What is killed: a gateway, the one that orders the log, the server, one process of the server's."""
CUT, SILENT, CLOCK, STOPPED = "cut", "silent", "clock", "stopped"
"""What befalls one gateway for a while: its connections to PostgreSQL end and no new one begins; nothing
goes through; its clock jumps, and is put right again; it stands still, and goes on."""
WAYS: Final = (CUT, SILENT)
"""In which a network is cut, in turn."""
_KILLS: Final[Mapping[str, int]] = {GATEWAY: 7, HOLDER: 7, POSTGRES: 5, LANE: 1}
"""What is killed how often, of 20 times."""
_ENDS: Final = ("", "pin", "stop", "", "pin", "")
"""What ends before each fault, in turn."""
_POLICY_EVERY: Final = 10
_SHORT_S: Final = (0.3, 7.0)
_JUMPS_S: Final = (-7200.0, -60.0, -5.0, 5.0, 60.0, 7200.0)
_LATER_S: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One of them."""

    kind: str
    at: int
    """Which gateway; for `LANE`, which of the lanes there are."""
    after_s: float
    """So long calls go on before."""
    lasts_s: float = 0.0
    jump_s: float = 0.0
    ends: str = ""
    """What ends right before."""

    @property
    def is_kill(self) -> bool:
        return self.kind in _KILLS


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one run of so many gateways is to bear."""

    seed: int
    gateways: int
    kills: int
    cuts: int = 0
    """Of the network of a gateway: half of them silent."""
    clocks: int = 0
    stops: int = 0
    stopped_s: float = 60.0
    policies: bool = True
    """Whether another policy comes into force now and then."""
    most_s: float = math.inf
    """After so long no further fault begins; how many did is told."""
    calls_per_s: float = 40.0
    """At most, of all clients that only call."""

    def faults(self) -> Sequence[Fault]:
        """Return them in their order: the same for the same plan."""
        dice = random.Random(f"{self.seed} {self.gateways}")
        kinds = [kind for kind, share in _KILLS.items() for _ in range(share)]
        dice.shuffle(kinds)
        chosen = [kinds[n % len(kinds)] for n in range(self.kills)]
        chosen += [WAYS[n % len(WAYS)] for n in range(self.cuts)]
        chosen += [CLOCK] * self.clocks + [STOPPED] * self.stops
        dice.shuffle(chosen)
        return [self._fault(kind, n, dice) for n, kind in enumerate(chosen)]

    def _fault(self, kind: str, number: int, dice: random.Random) -> Fault:
        ends = _ENDS[number % len(_ENDS)]
        if self.policies and number % _POLICY_EVERY == _POLICY_EVERY - 1:
            ends = "policy"
        lasts_s = self.stopped_s if kind == STOPPED else dice.uniform(*_SHORT_S)
        return Fault(
            kind=kind,
            at=dice.randrange(self.gateways),
            after_s=dice.uniform(0, _LATER_S),
            lasts_s=0.0 if kind in _KILLS else lasts_s,
            jump_s=dice.choice(_JUMPS_S) if kind == CLOCK else 0.0,
            ends=ends,
        )

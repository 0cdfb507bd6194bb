"""How much of something may be used in a span of time: a quota, whom it is about, and what it counts."""

import calendar
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.flow import RunId
from gateway.domain.identity import Principal
from gateway.domain.labels import Effect
from gateway.domain.tools import Kind, Target

MILLIONTHS: Final = 1_000_000
"""Of a unit of cost: counted whole, so that many small prices add up exactly."""
UNCOUNTED: Final[Mapping[str, Any]] = {"over": [], "counts": []}
"""What policy is told of a call that no quota is about."""
_SPANS: Final = {"minute": 60, "hour": 3600, "day": 86_400}


class Count(StrEnum):
    """What of a call counts."""

    CALLS = "calls"
    BYTES = "bytes"
    """Of its message, when it goes out, and of its answer, once that is there."""
    COST = "cost"
    """The tool's price, in millionths of a unit."""
    UNDER_WAY = "under_way"
    """The call itself, until it has ended."""


class Per(StrEnum):
    """The span after which a count begins anew: one of the calendar's, in UTC."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"

    def begins(self, now: float) -> int:
        """Return when the span began that `now` is in, in seconds since the epoch."""
        if self is Per.MONTH:
            day = datetime.fromtimestamp(now, UTC).date().replace(day=1)
            return calendar.timegm(day.timetuple())
        span = _SPANS[self.value]
        return int(now // span) * span

    def seconds(self, begin: int) -> int:
        """Return how long the span is that began at `begin`."""
        if self is not Per.MONTH:
            return _SPANS[self.value]
        day = datetime.fromtimestamp(begin, UTC)
        return calendar.monthrange(day.year, day.month)[1] * _SPANS["day"]


class Each(StrEnum):
    """What has a count of its own."""

    PERSON = "person"
    GROUP = "group"
    CLIENT = "client"
    SERVER = "server"
    TOOL = "tool"
    EFFECT = "effect"
    RUN = "run"


@value
class Counted:
    """A call as far as quotas look at it."""

    principal: Principal
    run: RunId
    target: Target
    effect: Effect | None
    """`None` for what is no tool."""


@value
class Quota:
    """One line of `limits.quotas`. What it does not name, it means all of."""

    name: str
    count: Count
    most: int
    per: Per | None
    """`None` for what is under way, which no time makes less."""
    each: tuple[Each, ...] = ()
    """What is counted apart; nothing: all calls that it is about together."""
    people: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    servers: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    effects: frozenset[Effect] = frozenset()

    @property
    def key(self) -> str:
        """Names the count in the log: what was counted otherwise is another one's."""
        return "/".join((self.name, self.count, self.per or "", "+".join(self.each)))

    def is_about(self, call: Counted) -> bool:
        """Tell whether a call counts."""
        principal, target = call.principal, call.target
        return (
            (not self.servers or target.server in self.servers)
            and (not self.tools or (target.kind is Kind.TOOL and target.name in self.tools))
            and (not self.effects or call.effect in self.effects)
            and (not self.groups or not self.groups.isdisjoint(principal.groups))
            and (not self.clients or principal.client_id in self.clients)
            and (not self.people or principal.recorded in self.people)
        )

    def counts_of(self, call: Counted) -> Iterator[tuple[str, ...]]:
        """Yield what a call counts under: once for each of its person's groups, where they count apart."""
        yield from product(*(self._names(one, call) for one in self.each))

    def _names(self, each: Each, call: Counted) -> Sequence[str]:
        principal, target = call.principal, call.target
        if each is Each.GROUP:
            # Somebody in none of them is counted as such: nobody goes uncounted.
            groups = principal.groups & self.groups if self.groups else principal.groups
            return sorted(groups) or [""]
        names = {
            Each.PERSON: principal.recorded,
            Each.CLIENT: principal.client_id,
            Each.SERVER: target.server,
            Each.TOOL: target.approved_name,
            Each.EFFECT: "" if call.effect is None else call.effect.value,
            Each.RUN: call.run,
        }
        return [names[each]]


@value
class Charge:
    """What a record says was used: so many of a quota, under one of its counts, in one of its spans."""

    quota: str
    """The quota's `key`."""
    under: tuple[str, ...]
    begin: int
    amount: int
    """Less than nothing is given back."""

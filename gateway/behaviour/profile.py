"""What one subject usually does, and what it does today."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.behaviour.deviations import Kind
from gateway.behaviour.limits import FLOORS, SETTLED_SENDS, WINDOW, bound, usual_hours
from gateway.behaviour.observation import Observation

HOUR_S: Final = 3600
DAY_S: Final = 86400

_MOST_TOOLS = 256
_MOST_DESTINATIONS = 1024
_MOST_CASES = 5
_FEWEST_CALLS = 100
_FEWEST_DAYS = 5
_CALLS_OUT_OF_HOURS = 30
"""Calls in one hour, below which nobody is told that it is an unusual one."""
_TIMES_SHARE = 3
_LEAST_SHARE = 0.2
_NEVER = -1
_RATE, _REFUSALS = Kind.RATE.value, Kind.REFUSALS.value


class Day(NamedTuple):
    """One day on which there were calls. Hours and days are those of UTC."""

    day: int
    """Days since the epoch."""
    hours: int = 0
    """A mask of 24 bits."""
    calls: int = 0
    busiest: int = 0
    """Calls in its busiest hour."""
    refused: int = 0
    tools: int = 0
    """Tools that were new."""
    destinations: int = 0
    """Destinations that were new."""
    sends: int = 0
    """Calls with a destination."""


class Profile:
    """The last days of one subject, what it has used, and its day so far.

    A record costs the same however long the subject has been known; what is ordinary is worked out
    once a day.
    """

    __slots__ = (
        "_bounds", "_cases", "_destinations", "_hour", "_hour_calls", "_names", "_open", "_past",
        "_tools", "_usual", "calls", "leaf_index", "said", "since",
    )  # fmt: skip

    def __init__(self, since: float) -> None:
        """Begin to learn; `since` is the time of the first record."""
        self.since = since
        self.leaf_index = -1
        """Of the newest record."""
        self.calls = 0
        self.said: set[str] = set()
        """Kinds that were told of today."""
        self._past: list[Day] = []
        self._open = [_NEVER, 0, 0, 0, 0, 0, 0, 0]
        """The day so far, as a `Day`'s members."""
        self._hour = _NEVER
        self._hour_calls = 0
        self._tools: dict[str, None] = {}
        self._destinations: dict[str, None] = {}
        self._cases: dict[str, list[int]] = {}
        self._names: dict[str, list[str]] = {}
        self._bounds: dict[str, int] | None = None
        self._usual: int | None = None

    def learn(self, seen: Observation, *, new_keys: frozenset[str] = frozenset()) -> bool:
        """Count one call, and note what it used; return whether it is the first of its hour.

        Destinations whose hash was made with one of `new_keys` are not new because of it.
        """
        first = self.count(seen)
        self._use_tool(seen)
        if seen.destinations:
            self._open[7] += 1
            self._send_to(seen, new_keys)
        return first

    def count(self, seen: Observation) -> bool:
        """Count one call; return whether it is the first of its hour."""
        self.since = min(self.since, seen.time)  # the clock was set back
        hour = int(seen.time // HOUR_S)
        first = hour != self._hour
        if first:
            self._turn_to(hour)
        self.calls += 1
        self.leaf_index = seen.leaf_index
        self._hour_calls = calls = self._hour_calls + 1
        today = self._open
        today[2] += 1
        today[3] = max(today[3], calls)
        if calls <= _MOST_CASES:
            self._case(_RATE, seen)
        if seen.refused:
            today[4] += 1
            self._case(_REFUSALS, seen)
        return first

    def is_known(self, now: float, learning_s: float) -> bool:
        """Whether enough was seen of the subject to say what is ordinary for it."""
        return (
            now - self.since >= learning_s
            and self.calls >= _FEWEST_CALLS
            and len(self._past) >= _FEWEST_DAYS
        )

    @property
    def is_out_of_hours(self) -> bool:
        """Whether the hour of the newest call is not one of the usual ones."""
        if self._usual is None:
            self._usual = usual_hours([(day.day, day.hours) for day in self._past], self._open[0])
        return not self._usual >> self._hour % 24 & 1

    def odd(self, kinds: frozenset[Kind]) -> Sequence[Kind]:
        """Return what of `kinds` is out of the ordinary now, and was not told of today."""
        bounds = self._bounds
        if bounds is None:
            bounds = self._bounds = self._worked_out()
        today = self._open
        if (
            self._hour_calls < _CALLS_OUT_OF_HOURS
            and today[4] <= bounds["refusals"]
            and today[5] <= bounds["tool"]
            and today[6] <= bounds["destination"]
        ):
            return ()
        found = []
        if self._hour_calls > bounds["rate"]:
            found.append(Kind.RATE)
        if today[5] > bounds["tool"]:
            found.append(Kind.TOOL)
        if today[6] > bounds["destination"]:
            found.append(Kind.DESTINATION)
        if today[4] > bounds["refusals"] and self._is_refused_more():
            found.append(Kind.REFUSALS)
        if self._hour_calls >= _CALLS_OUT_OF_HOURS and self.is_out_of_hours:
            found.append(Kind.HOUR)
        return [kind for kind in found if kind in kinds and kind.value not in self.said]

    def usual(self, kind: Kind) -> Mapping[str, Any]:
        """Return what was usual before today."""
        days = len(self._past)
        if kind is Kind.HOUR:
            union = 0
            for day in self._past:
                union |= day.hours
            return {"days": days, "hours": [hour for hour in range(24) if union >> hour & 1]}
        past = sorted(self._counts(kind))
        return {
            "days": days,
            "median": past[days // 2] if past else 0,
            "most": past[-1] if past else 0,
            "limit": self._worked_out()[kind.value],
        }

    def seen(self, kind: Kind) -> int:
        """Return what was seen today."""
        return {
            Kind.RATE: self._hour_calls,
            Kind.HOUR: self._hour_calls,
            Kind.REFUSALS: self._open[4],
            Kind.TOOL: self._open[5],
            Kind.DESTINATION: self._open[6],
        }[kind]

    @property
    def hour(self) -> int:
        """The hour of the newest call, 0 to 23."""
        return self._hour % 24

    def cases(self, kind: Kind) -> Sequence[int]:
        """Return the leaf indices of the first records of it: of today, or of this hour."""
        of = Kind.RATE if kind is Kind.HOUR else kind
        return tuple(self._cases.get(of.value, ()))

    def names(self, kind: Kind) -> Sequence[str]:
        """Return the first tools, or keyed hashes of destinations, that are new today."""
        return tuple(self._names.get(kind.value, ()))

    def dump(self) -> list[Any]:
        """Return all of it as JSON can say it."""
        return [
            self.since,
            self.leaf_index,
            self.calls,
            sorted(self.said),
            [list(day) for day in self._past],
            self._open,
            self._hour,
            self._hour_calls,
            list(self._tools),
            list(self._destinations),
            self._cases,
            self._names,
        ]

    @classmethod
    def load(cls, dumped: Sequence[Any]) -> "Profile":
        """Return the profile of which `dumped` is the dump."""
        (since, leaf, calls, said, past, today, hour, hour_calls, tools, places, cases, names) = (
            dumped
        )
        made = cls(since)
        made.leaf_index, made.calls, made.said = leaf, calls, set(said)
        made._past, made._open = [Day(*day) for day in past], today
        made._hour, made._hour_calls = hour, hour_calls
        made._tools, made._destinations = dict.fromkeys(tools), dict.fromkeys(places)
        made._cases, made._names = cases, names
        return made

    def _turn_to(self, hour: int) -> None:
        self._hour, self._hour_calls = hour, 0
        self._cases[_RATE] = []
        day = hour // 24
        today = self._open
        if day != today[0]:
            if today[0] != _NEVER:
                self._past.append(Day(*today))
                del self._past[:-WINDOW]
            self._open = today = [day, 0, 0, 0, 0, 0, 0, 0]
            self.said.clear()
            self._cases = {}
            self._names = {}
            self._bounds = self._usual = None
        today[1] |= 1 << hour % 24

    def _use_tool(self, seen: Observation) -> None:
        if not seen.tool:
            return
        name = f"{seen.server}/{seen.tool}"
        if _is_new(self._tools, name, _MOST_TOOLS):
            self._open[5] += 1
            self._case(Kind.TOOL.value, seen, name)

    def _send_to(self, seen: Observation, new_keys: frozenset[str]) -> None:
        for place in seen.destinations:
            if _is_new(self._destinations, place, _MOST_DESTINATIONS) and (
                key_of(place) not in new_keys
            ):
                self._open[6] += 1
                self._case(Kind.DESTINATION.value, seen, place)

    def _case(self, kind: str, seen: Observation, name: str = "") -> None:
        cases = self._cases.setdefault(kind, [])
        if len(cases) < _MOST_CASES:
            cases.append(seen.leaf_index)
            if name:
                self._names.setdefault(kind, []).append(name)

    def _worked_out(self) -> dict[str, int]:
        bounds = {kind: bound(self._counts(Kind(kind)), kind) for kind in FLOORS}
        past = self._past
        if (
            len(past) == WINDOW
            and not any(day.destinations for day in past)
            and sum(day.sends for day in past) >= SETTLED_SENDS
        ):
            # It sends a lot, and for weeks to nobody new: then one is enough.
            bounds["destination"] = 0
        return bounds

    def _counts(self, kind: Kind) -> list[int]:
        place = {Kind.RATE: 3, Kind.REFUSALS: 4, Kind.TOOL: 5, Kind.DESTINATION: 6}[kind]
        return [day[place] for day in self._past]

    def _is_refused_more(self) -> bool:
        """Whether the share of refused calls has grown, and not only how much is called."""
        calls = sum(day.calls for day in self._past)
        usual = sum(day.refused for day in self._past) / calls if calls else 0.0
        share = self._open[4] / self._open[2]
        return share >= max(_LEAST_SHARE, min(_TIMES_SHARE * usual, 1.0))


def key_of(place: str) -> str:
    """Return the name of the key that a destination's hash was made with; empty if it is none."""
    return place.rpartition(":")[0]


def _is_new(known: dict[str, None], name: str, most: int) -> bool:
    """Note the use of `name`, and return whether it was not known; the longest unused leaves."""
    new = name not in known
    if not new:
        del known[name]
    known[name] = None
    if len(known) > most:
        del known[next(iter(known))]
    return new

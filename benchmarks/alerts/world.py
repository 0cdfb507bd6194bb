"""An organisation at work: people, services and agents whose calls follow the week.

All of it is invented, from a seed. People come and go, have holidays, work late now and then, try a
new tool, write to somebody new, and call a little more every week; services run day and night, and
are repeated when something fails.
"""

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.behaviour.observation import Observation

DAY_S = 86400
HOUR_S = 3600
START = 1_767_571_200  # 2026-01-05, a Monday
SERVERS = 12
TOOLS_EACH = 10

_WEEKEND = 5
_GROWTH_A_WEEK = 0.01
_HOLIDAYS = frozenset({18, 19, 53})
"""Days, counted from the start, on which no person works."""


@dataclass
class Actor:
    """Somebody who calls tools."""

    name: str
    client: str
    kind: str
    tools: list[tuple[str, str]]
    places: list[str]
    begins: int
    zone: int
    """Hours ahead of UTC."""
    size: float
    """Calls of an ordinary session, or of a service's hour."""
    sessions: float
    sends: float
    """Share of calls that send something."""
    new_place: float
    refused: float
    away: frozenset[int] = field(default_factory=frozenset)


class World:
    """`people` persons, a fifth as many services, and a few agents that work in bursts."""

    def __init__(self, seed: int, *, people: int = 80, days: int = 70) -> None:
        self.days = days
        self._dice = random.Random(seed)
        self.tools = [
            (f"s{server}", f"t{tool}") for server in range(SERVERS) for tool in range(TOOLS_EACH)
        ]
        self._fresh = 0
        self.actors = [self._person(number, 0) for number in range(people)]
        self.actors += [self._service(number) for number in range(people // 5)]
        if self.actors[people:]:
            # One at least sends a lot to the same few.
            steady = self.actors[people]
            steady.sends, steady.new_place, steady.size = 1.0, 0.0, max(steady.size, 4.0)
        self.actors += [self._agent(number) for number in range(people // 20)]
        hires = (self._dice.randrange(days) for _ in range(people // 10))
        self.actors += [self._person(people + number, day) for number, day in enumerate(hires)]
        self._leaf = 0

    def calls(self) -> Iterator[Observation]:
        """Yield every call of every day, in the order of the log."""
        for day in range(self.days):
            today = (self._day_of(actor, day) for actor in self.actors if actor.begins <= day)
            for time, _, actor, tool, place, refused in heapq.merge(*map(sorted, today)):
                yield self.call(time, actor, tool, place, refused=refused)

    def call(
        self,
        time: float,
        actor: Actor,
        tool: tuple[str, str],
        place: str = "",
        *,
        refused: bool = False,
    ) -> Observation:
        """Return one call as it would be recorded next."""
        self._leaf += 1
        return Observation(
            leaf_index=self._leaf,
            record=f"{self._leaf:x}",
            time=time,
            principal=actor.name,
            client=actor.client,
            server=tool[0],
            tool=tool[1],
            refused=refused,
            destinations=(place,) if place and not refused else (),
        )

    def fresh_place(self) -> str:
        """Return a destination that nobody has ever sent to."""
        self._fresh += 1
        return f"h1:new{self._fresh}"

    def _person(self, number: int, begins: int) -> Actor:
        dice = self._dice
        away = dice.randrange(self.days)
        return Actor(
            name=f"person{number}",
            client=dice.choice(("desktop", "desktop", "editor", "web")),
            kind="person",
            tools=dice.sample(self.tools, dice.randint(8, 30)),
            places=[self.fresh_place() for _ in range(dice.randint(5, 60))],
            begins=begins,
            zone=dice.choice((0, 0, 0, 1, -5, 5)),
            size=dice.lognormvariate(math.log(8), 0.6),
            sessions=dice.uniform(1.5, 6),
            sends=dice.uniform(0, 0.12),
            new_place=dice.uniform(0.01, 0.15),
            refused=dice.uniform(0, 0.06),
            away=frozenset(range(away, away + dice.choice((0, 5, 14)))),
        )

    def _service(self, number: int) -> Actor:
        dice = self._dice
        return Actor(
            name=f"service{number}",
            client=f"service{number}",
            kind="service",
            tools=dice.sample(self.tools, dice.randint(2, 8)),
            places=[self.fresh_place() for _ in range(dice.randint(1, 5))],
            begins=0,
            zone=0,
            size=dice.lognormvariate(math.log(4), 0.8),
            sessions=24,
            sends=dice.choice((0.0, 0.3, 1.0)),
            new_place=dice.choice((0.0, 0.0, 0.0, 0.0005)),
            refused=dice.choice((0.0, 0.0, 0.02)),
        )

    def _agent(self, number: int) -> Actor:
        actor = self._person(number, 0)
        actor.name, actor.client, actor.kind = f"agent{number}", "builder", "agent"
        actor.size, actor.sessions = actor.size * 6, actor.sessions * 2
        return actor

    def _day_of(
        self, actor: Actor, day: int
    ) -> Iterator[tuple[float, int, Actor, tuple[str, str], str, bool]]:
        dice, size = self._dice, actor.size * (1 + _GROWTH_A_WEEK * day / 7)
        project = dice.random() < 1 / 400  # a day on which somebody gets to know a server
        for hour in self._hours(actor, day):
            calls = dice.lognormvariate(math.log(size), 0.9)
            if actor.kind == "service":
                # Something fails now and then, and is tried again.
                calls = dice.gauss(size, math.sqrt(size)) * (3 if dice.random() < 1 / 3000 else 1)
            begun = START + day * DAY_S + hour * HOUR_S
            for _ in range(min(round(calls), 250)):
                time = begun + dice.random() * HOUR_S
                yield time, dice.getrandbits(40), actor, *self._what(actor, project=project)

    def _hours(self, actor: Actor, day: int) -> Iterator[float]:
        dice = self._dice
        if actor.kind == "service":
            yield from range(24)
            return
        free = day % 7 >= _WEEKEND or day in _HOLIDAYS
        if day in actor.away or (free and dice.random() > 1 / 50):
            return
        for _ in range(max(0, round(dice.gauss(actor.sessions, 1.5)))):
            yield 9 + dice.random() * 8 - actor.zone
        if dice.random() < 1 / 120:
            yield 18 + dice.random() * 4 - actor.zone

    def _what(self, actor: Actor, *, project: bool) -> tuple[tuple[str, str], str, bool]:
        dice = self._dice
        strange = dice.random() < (0.1 if project else 0.002) and actor.kind != "service"
        tool = (
            dice.choice(self.tools)
            if strange
            else actor.tools[int(len(actor.tools) * dice.random() ** 2)]
        )
        if strange and tool not in actor.tools and dice.random() < 1 / 3:
            actor.tools.append(tool)
        place = ""
        if dice.random() < actor.sends:
            place = actor.places[int(len(actor.places) * dice.random() ** 2)]
            if dice.random() < actor.new_place:
                place = self.fresh_place()
                actor.places.append(place)
        return tool, place, dice.random() < actor.refused

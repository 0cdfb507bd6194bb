"""Weeks of an ordinary life, as observations, to be learned from."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gateway.behaviour.baselines import Baselines
from gateway.behaviour.deviations import Deviation
from gateway.behaviour.observation import Observation

HOUR_S = 3600
DAY_S = 86400
MONDAY = 1_767_571_200  # 2026-01-05
LEARNING_S = 14 * DAY_S


class Life:
    """Makes the observations of one log, in order."""

    def __init__(self) -> None:
        self.leaf = -1

    def call(
        self,
        time: float,
        principal: str = "emma",
        *,
        client: str = "desktop",
        server: str = "mail",
        tool: str = "search",
        refused: bool = False,
        to: Sequence[str] = (),
    ) -> Observation:
        self.leaf += 1
        return Observation(
            leaf_index=self.leaf,
            record=f"r{self.leaf}",
            time=time,
            principal=principal,
            client=client,
            server=server,
            tool=tool,
            refused=refused,
            destinations=tuple(to),
        )

    def calls(
        self, time: float, count: int, principal: str = "emma", **what: Any
    ) -> list[Observation]:
        """Return `count` calls within one hour."""
        step = 0.9 * HOUR_S / count
        return [self.call(time + step * number, principal, **what) for number in range(count)]

    def weeks(
        self, count: int, principal: str = "emma", *, since: float = MONDAY, **what: Any
    ) -> Iterator[Observation]:
        """Yield weeks of ten calls at nine, ten and eleven, from Monday to Friday."""
        for day in range(count * 7):
            if day % 7 < 5:
                for hour in (9, 10, 11):
                    yield from self.calls(
                        since + day * DAY_S + hour * HOUR_S, 10, principal, **what
                    )


def fed(baselines: Baselines, calls: Iterable[Observation]) -> list[Deviation]:
    return [told for seen in calls for told in baselines.learn(seen)]


def learned(life: Life, weeks: int = 4, **what: Any) -> Baselines:
    """Return baselines that know emma for so many weeks, and have nothing to tell of her."""
    baselines = Baselines(learning_s=LEARNING_S)
    assert fed(baselines, life.weeks(weeks, **what)) == []
    return baselines


def at(week: int, day: int, hour: float) -> float:
    return MONDAY + (week * 7 + day) * DAY_S + hour * HOUR_S

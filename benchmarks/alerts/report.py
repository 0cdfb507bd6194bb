"""`make alerts-report`: an ordinary month for false alarms, and seeded incidents to be found."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from benchmarks.alerts.incidents import INCIDENTS, Play
from benchmarks.alerts.world import DAY_S, START, Actor, World
from benchmarks.report import print_table, write_report
from gateway.behaviour.baselines import Baselines
from gateway.behaviour.deviations import Kind

LEARNING_S = 14 * DAY_S
LEARNED_DAYS = 42
MONTH_DAYS = 28
VICTIMS = 8
MOST_ALARMS = 1.0
"""Per 100 principals and week."""
LEAST_FOUND = 0.8
"""Of an incident's victims: some do as much on an ordinary day."""
LIMITS = (
    "the organisation and the incidents are invented, by the people who wrote the rules",
    "the bounds were chosen while looking at the seeds 1 to 14, and are measured on others",
    "an incident within what is usual for its principal is not found, nor is one of somebody new",
    "whoever departs from the usual slowly enough teaches it",
)


@dataclass
class Month:
    """What was told in one ordinary month, and which of the incidents after it were found."""

    principals: int
    calls: int
    seconds: float
    """Processor time that learning took."""
    alarms: Counter[str] = field(default_factory=Counter)
    found: dict[str, float] = field(default_factory=dict)
    """The share of victims of whom the right thing was told, by incident."""
    rows: int = 0
    octets: int = 0

    @property
    def per_week(self) -> float:
        """Alarms per 100 principals and week."""
        return self.alarms.total() / self.principals * 100 / (MONTH_DAYS / 7)


def month(seed: int, people: int) -> Month:
    """Play one organisation, and the incidents on what was learned of it."""
    world = World(seed, people=people, days=LEARNED_DAYS + MONTH_DAYS)
    learned = Baselines(learning_s=LEARNING_S)
    measured = START + LEARNED_DAYS * DAY_S
    told: Counter[str] = Counter()
    calls, seconds = 0, 0.0
    for seen in world.calls():
        began = time.process_time()
        found = learned.learn(seen)
        seconds += time.process_time() - began
        calls += 1
        if seen.time >= measured:
            told.update(one.kind.value for one in found)
    rows = [(key, row) for key, row in learned.changes().items() if row is not None]
    return Month(
        principals=len(world.actors),
        calls=calls,
        seconds=seconds,
        alarms=told,
        found={
            play.__name__: _found(world, rows, play, _victims(world, who), kind)
            for play, who, kind in INCIDENTS
        },
        rows=len(rows),
        octets=sum(len(row) for _, row in rows),
    )


def _victims(world: World, who: str) -> Sequence[Actor]:
    there = [one for one in world.actors if one.begins == 0]
    if who == "client":
        return [one for one in there if one.client == "desktop"][:1]
    if who == "settled":
        return [
            one
            for one in there
            if one.kind == "service" and one.new_place == 0 and one.sends * one.size >= 1
        ][:VICTIMS]
    return [one for one in there if one.kind == who][:VICTIMS]


def _found(
    world: World,
    rows: Sequence[tuple[str, bytes]],
    play: Play,
    victims: Sequence[Actor],
    kind: Kind,
) -> float:
    """Return of which share of `victims` the right thing is told."""
    after = Baselines(learning_s=LEARNING_S)
    after.restore(rows)
    told = {
        name
        for seen in sorted(play(world, victims), key=lambda one: one.time)
        for one in after.learn(seen)
        if one.kind is kind
        for name in (one.subject.principal, one.subject.client)
    }
    named = [
        victim.client if play.__name__ == "taken_over_client" else victim.name for victim in victims
    ]
    return sum(name in told for name in named) / len(named)


def figures_of(months: Sequence[Month]) -> dict[str, float]:
    """Return what was measured, under the keys of the report."""
    figures: dict[str, float] = {
        "months": len(months),
        "calls": sum(one.calls for one in months),
        "alarms_per_100_principals_week": round(fmean(one.per_week for one in months), 2),
        "worst_month": round(max(one.per_week for one in months), 2),
        "learn_us": round(1e6 * sum(m.seconds for m in months) / sum(m.calls for m in months), 1),
        "bytes_per_principal": round(
            sum(one.octets for one in months) / sum(one.principals for one in months)
        ),
    }
    for kind in Kind:
        figures[f"alarms.{kind}"] = sum(one.alarms[kind.value] for one in months)
    for name in months[0].found:
        figures[f"found.{name}"] = round(fmean(one.found[name] for one in months), 3)
    return figures


def failures_of(figures: dict[str, float]) -> list[str]:
    """Say what the figures promise and do not keep."""
    failures = []
    if figures["alarms_per_100_principals_week"] > MOST_ALARMS:
        failures.append(
            f"{figures['alarms_per_100_principals_week']} alarms per 100 principals and week, "
            f"promised {MOST_ALARMS:g}"
        )
    failures += [
        f"{name.removeprefix('found.')}: found for {share:.0%} of the victims"
        for name, share in figures.items()
        if name.startswith("found.") and share < LEAST_FOUND
    ]
    return failures


def main() -> int:
    """Print and write the figures; return 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22, 23])
    parser.add_argument("--people", type=int, default=80)
    chosen = parser.parse_args()
    months = [month(seed, chosen.people) for seed in chosen.seeds]
    figures = figures_of(months)
    print_table(
        ("an ordinary month", "principals", "calls", "alarms", "per 100 and week"),
        [
            (f"seed {seed}", one.principals, one.calls, one.alarms.total(), f"{one.per_week:.2f}")
            for seed, one in zip(chosen.seeds, months, strict=True)
        ],
    )
    print_table(
        ("incident", "told as", "victims found"),
        [
            (play.__name__, kind.code, f"{figures[f'found.{play.__name__}']:.0%}")
            for play, _, kind in INCIDENTS
        ],
    )
    found = sum(figures[f"found.{play.__name__}"] >= LEAST_FOUND for play, _, _ in INCIDENTS)
    summary = (
        f"{figures['alarms_per_100_principals_week']} alarms per 100 principals and week, "
        f"{found} of {len(INCIDENTS)} incidents found, {figures['learn_us']} us a call"
    )
    return write_report("alerts", figures, failures_of(figures), LIMITS, summary=summary)


if __name__ == "__main__":
    sys.exit(main())

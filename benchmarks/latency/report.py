"""`make bench-report`: what a call through the gateway takes, beside other ways to make it."""

import argparse
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

from benchmarks.latency.figures import (
    BUSIEST,
    PROMISES,
    Comparison,
    Row,
    compare,
    correctness,
    judge,
    row,
)
from benchmarks.latency.load import Window, call
from benchmarks.latency.machine import fsync_us
from benchmarks.latency.targets import ANSWERS, VARIANTS, targets
from benchmarks.report import FOLDER as REPORTS
from benchmarks.report import ROOT, print_table, write_report

FOLDER = ROOT / "var" / "bench"
LIMITS = (
    "one machine: what calls, what is called and what is between share its cores and its loopback",
    "plain HTTP throughout: TLS comes on top",
    "a closed loop by one thread of wrk, which corrects its percentiles for coordinated omission",
    "FastMCP's fastest form sends all callers' calls through one session; its other two keep them apart",
    "fsync on a virtual disk can end before anything is on a medium",
)
_HEADS = (
    *("calls/s", "p50 us", "p95 us", "p99 us", "added p50", "x nginx's", "calls x FastMCP's"),
    *("p99 x nginx's", "added in fsyncs", "CPU us/call", "of it children", "upstream's", "wrong"),
    "errors",
)
_RECORDED = ("intent", "outcome")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured."""

    rounds: int = 5
    seconds: int = 3
    connections: tuple[int, ...] = (1, 16, 64)
    answers: bool = True
    """Whether there are larger and streamed ones beside the small ones."""


@dataclass(kw_only=True)
class Measured:
    """Everything that one run has shown."""

    windows: dict[tuple[str, int], list[Window]] = field(default_factory=lambda: defaultdict(list))
    """By the target and the number of connections."""
    warm_up: dict[str, Window] = field(default_factory=dict)
    """What came before, by the target: part of no figure, but of the log."""
    fsyncs_us: list[float] = field(default_factory=list)
    records: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """By gateway: how many records of each kind its log holds."""

    @property
    def fsync_us(self) -> float:
        return median(self.fsyncs_us)

    @property
    def foreign_cpu(self) -> float:
        """The share of the machine's CPU time that other processes used."""
        return fmean(one.foreign_cpu for some in self.windows.values() for one in some)

    def comparisons(self) -> Iterator[list[Comparison]]:
        """Yield the rows of each number of connections and shape of answers."""
        groups: dict[tuple[str, int], list[Row]] = defaultdict(list)
        for (name, connections), windows in self.windows.items():
            one = row(name, connections, windows)
            groups[one.shape, connections].append(one)
        for rows in groups.values():
            yield compare(rows, self.fsync_us)


def measure(plan: Plan, folder: Path) -> Measured:
    """Run everything at once in `folder`, and call one after the other, round by round.

    What one target suffers from the machine, the next one suffers as well; and in every round
    another one is first.
    """
    measured = Measured()
    with targets(folder, ANSWERS if plan.answers else ()) as ready:
        for target in ready:
            measured.warm_up[target.name] = call(target, max(plan.connections), 1)
        for done in range(plan.rounds):
            first = done % len(ready)
            for connections in plan.connections:
                measured.fsyncs_us.append(fsync_us(folder))
                for target in ready[first:] + ready[:first]:
                    window = call(target, connections, plan.seconds)
                    measured.windows[target.name, connections].append(window)
        for target in ready:
            if target.gateway is not None:
                (statistics,) = target.gateway.rows("audit", "stats")
                measured.records[target.name] = statistics["kinds"]
    return measured


def unrecorded(measured: Measured) -> list[str]:
    """Return which gateways answered calls without an intent and an outcome for each.

    There are more records than calls: those that were under way when a window ended have some.
    """
    calls = {name: window.calls for name, window in measured.warm_up.items()}
    for (name, _), windows in measured.windows.items():
        calls[name] += sum(window.calls for window in windows)
    return [
        f"{name}: {kinds.get(kind, 0)} {kind} records of {calls[name]} calls"
        for name, kinds in measured.records.items()
        for kind in _RECORDED
        if kinds.get(kind, 0) < calls[name]
    ]


def figures_of(measured: Measured) -> dict[str, float]:
    """Return every figure of the report by its key; `judged` is 0 on a machine too busy for that."""
    figures = {
        "judged": int(measured.foreign_cpu <= BUSIEST),
        "foreign_cpu_percent": round(measured.foreign_cpu * 100, 1),
        "fsync_us": round(measured.fsync_us, 1),
    }
    for compared in measured.comparisons():
        for one in compared:
            figures |= {**one.row.figures, **one.figures}
    for name, kinds in measured.records.items():
        figures |= {f"{name}.{kind}_records": kinds.get(kind, 0) for kind in _RECORDED}
    return figures


def limits_of(measured: Measured) -> list[str]:
    """Return what the figures do not show."""
    busy = f"other processes used {measured.foreign_cpu:.0%} of the machine's CPU time meanwhile"
    too_busy = f": too much, above {BUSIEST:.0%} nothing is judged"
    return [*LIMITS, busy + (too_busy if measured.foreign_cpu > BUSIEST else "")]


def report(measured: Measured, folder: Path = REPORTS) -> int:
    """Print the tables, write the report, and return 1 if anything promised is not kept."""
    print("\n".join(f"{variant.name}: {variant.means}" for variant in VARIANTS), end="\n\n")
    rows = []
    for compared in measured.comparisons():
        rows += [one.row for one in compared]
        ((connections, shape),) = {(one.row.connections, one.row.shape) for one in compared}
        head = f"{connections} connections, {shape or 'small'} answers"
        print_table((head, *_HEADS), map(_cells, compared))
    figures = figures_of(measured)
    broken = judge(figures, measured.foreign_cpu)
    return write_report(
        "bench",
        figures,
        [*correctness(rows), *unrecorded(measured), *broken],
        limits_of(measured),
        summary=_summary(figures, broken),
        folder=folder,
    )


def _cells(one: Comparison) -> Sequence[object]:
    row = one.row
    times = (row.calls_per_s, row.p50_us, row.p95_us, row.p99_us, one.added_p50_us)
    ratios = (one.added_p50_x_nginx, one.calls_x_fastmcp, one.p99_x_nginx, one.added_p50_x_fsync)
    return (
        *(row.name, *(f"{time:.0f}" for time in times), *(f"{ratio:.1f}" for ratio in ratios)),
        f"{row.cpu_us_per_call:.0f}",
        f"{row.children_cpu_us_per_call:.0f}",
        f"{row.upstream_cpu_us_per_call:.0f}",
        *(row.wrong, row.errors),
    )


def _summary(figures: Mapping[str, float], broken: Sequence[str]) -> str:
    shown = ", ".join(
        f"{promise.figure} {figures.get(promise.figure, float('nan')):g} ({promise.bound})"
        for promise in PROMISES
    )
    if not figures["judged"]:
        return f"{shown}: not judged, the machine was too busy"
    return f"{shown}: {'not kept' if broken else 'kept'}"


def main() -> int:
    """Measure as the command line says, and report."""
    plan = Plan()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=plan.rounds)
    parser.add_argument("--seconds", type=int, default=plan.seconds, help="of one window")
    parser.add_argument("--connections", type=int, nargs="+", default=plan.connections)
    parser.add_argument("--small", action="store_true", help="small answers alone")
    given = parser.parse_args()
    plan = Plan(
        rounds=given.rounds,
        seconds=given.seconds,
        connections=tuple(given.connections),
        answers=not given.small,
    )
    shutil.rmtree(FOLDER, ignore_errors=True)
    measured = measure(plan, FOLDER)
    shutil.rmtree(FOLDER)
    return report(measured)


if __name__ == "__main__":
    sys.exit(main())

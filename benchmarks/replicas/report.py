"""`make replicas-report`: many gateways over one PostgreSQL under faults, and what they carry together."""

import argparse
import math
import statistics
import sys
from collections.abc import Iterator, Sequence

from benchmarks.replicas.faults import Plan
from benchmarks.replicas.judge import refusals
from benchmarks.replicas.play import Outcome, Recovery, played
from benchmarks.replicas.scale import Scale, measured, scale_rows
from benchmarks.report import ROOT, print_table, write_report

FOLDER = ROOT / "var" / "replicas"
GATEWAYS = (2, 4, 8)
KILLS = 100
SHARES = (0.4, 0.4, 0.2)
"""Which part of the kills befalls so many gateways: each one more is another one to start anew."""
LIMITS = (
    "the clocks that jump are the gateways'; that of PostgreSQL's machine does not",
    "one PostgreSQL without a standby, on this machine's disk: no failover",
    "the network that is cut is a relay of the report's own; frames are not lost one by one",
    "whoever starts a gateway again does so at once, so its start is in its time",
    "what of a call's evidence is only in the memory of one gateway is not compared here",
)

Figures = dict[str, float]


def plans(
    seed: int, kills: int, gateways: Sequence[int], *, stopped_s: float, most_s: float = math.inf
) -> list[Plan]:
    """Return what each number of gateways is to bear: all kills together are `kills`."""
    shares = SHARES if len(gateways) == len(SHARES) else [1 / len(gateways)] * len(gateways)
    parts = [round(kills * share) for share in shares]
    parts[0] += kills - sum(parts)
    return [
        Plan(
            seed=seed,
            gateways=number,
            kills=part,
            cuts=max(2, part // 5),
            clocks=max(1, part // 10),
            stops=1,
            stopped_s=stopped_s,
            most_s=most_s,
        )
        for number, part in zip(gateways, parts, strict=True)
    ]


def print_outcome(outcome: Outcome) -> None:
    """Print what came of one plan."""
    history, plan = outcome.history, outcome.plan
    said = refusals(history.calls)
    used = sum(one.over for one in history.yeses)
    print_table(
        (f"{plan.gateways} gateways, seed {plan.seed}", ""),
        [
            ("faults", f"{outcome.borne} of {len(plan.faults())}"),
            ("calls", len(history.calls)),
            ("of these carried", len(history.calls) - said.total()),
            *((f"of these refused: {code}", times) for code, times in sorted(said.items())),
            ("records in the log", outcome.log.size),
            ("times that something ended", len(history.ended)),
            ("yeses that were used up", used),
            ("problems", len(outcome.problems)),
        ],
    )
    print_table(
        ("seconds until calls are carried", "times", "others p50", "max", "hit p50", "max", "log"),
        recovery_rows(outcome.recoveries),
    )


def recovery_rows(recoveries: Sequence[Recovery]) -> Iterator[Sequence[object]]:
    """Yield a row for each kind of fault."""
    for kind in sorted({one.fault.kind for one in recoveries}):
        ones = [one for one in recoveries if one.fault.kind == kind]
        others = [one.others_s for one in ones if one.others_s is not None]
        hit = [one.hit_s for one in ones]
        ordered = [one.ordered_s for one in ones if one.ordered_s is not None]
        yield (kind, len(ones), *_spread(others), *_spread(hit), _spread(ordered)[1])


def figures_of(outcomes: Sequence[Outcome]) -> Figures:
    """Return what the report's file says of them."""
    recoveries = [one for outcome in outcomes for one in outcome.recoveries]
    calls = [call for outcome in outcomes for call in outcome.history.calls]
    figures: Figures = {
        "faults": sum(outcome.borne for outcome in outcomes),
        "kills": sum(_kills(outcome) for outcome in outcomes),
        "calls": len(calls),
        "carried": len(calls) - refusals(calls).total(),
        "records": sum(outcome.log.size for outcome in outcomes),
        "yeses": sum(one.over for outcome in outcomes for one in outcome.history.yeses),
        "problems": sum(len(outcome.problems) for outcome in outcomes),
    }
    for kind in sorted({one.fault.kind for one in recoveries}):
        hit = [one.hit_s for one in recoveries if one.fault.kind == kind]
        others = [
            one.others_s
            for one in recoveries
            if one.fault.kind == kind and one.others_s is not None
        ]
        for name, times_s in (("hit", hit), ("others", others)):
            if times_s:
                figures[f"{kind}.{name}.p50_s"] = round(statistics.median(times_s), 3)
                figures[f"{kind}.{name}.max_s"] = round(max(times_s), 3)
    return figures


def _kills(outcome: Outcome) -> int:
    return sum(fault.is_kill for fault in outcome.plan.faults()[: outcome.borne])


def _spread(times_s: Sequence[float]) -> tuple[str, str]:
    if not times_s:
        return "-", "-"
    return f"{statistics.median(times_s):.2f}", f"{max(times_s):.2f}"


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=KILLS, help="of all gateways together")
    parser.add_argument("--gateways", type=int, nargs="+", default=GATEWAYS)
    parser.add_argument(
        "--most", type=float, default=math.inf, help="minutes of each number of them"
    )
    parser.add_argument("--stopped", type=float, default=60.0, help="seconds of standing still")
    parser.add_argument("--seconds", type=int, default=5, help="of one window of the second part")
    return parser.parse_args()


def main() -> int:
    """Print and write the figures; return 1 if something was promised and not kept."""
    asked = _asked()
    outcomes = []
    given = {"stopped_s": asked.stopped, "most_s": asked.most * 60}
    wanted = plans(asked.seed, asked.kills, asked.gateways, **given) if asked.kills else []
    for plan in wanted:
        outcomes.append(played(FOLDER / str(plan.gateways), plan))
        print_outcome(outcomes[-1])
    scale = measured(FOLDER / "scale", asked.seconds) if asked.seconds else Scale()
    for heads, rows in scale_rows(scale):
        print_table(heads, rows)
    failures = [f"seed {one.plan.seed}: {what}" for one in outcomes for what in one.problems]
    failures += scale.wrong
    figures = figures_of(outcomes) | scale.figures
    summary = (
        f"{figures['kills']:.0f} kills among {figures['faults']:.0f} faults, "
        f"{figures['carried']:.0f} calls carried, {len(failures)} problems"
    )
    return write_report("replicas", figures, failures, LIMITS, summary=summary)


if __name__ == "__main__":
    sys.exit(main())

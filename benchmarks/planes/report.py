"""`make planes-report`: what a plane is answered ends as it does in the path, and how fast it is.

Attacks and recorded tasks are carried by the gateway and by a reference plane that asks it, and are
compared; decisions are counted beside OPA's own server with the same rules. Each part is kept once it
has been run: a report that was ended goes on where it was.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.planes import attacks, flow, speed
from benchmarks.planes.parts import Kept, Part
from benchmarks.report import print_table, write_report

LIMITS = (
    "both servers and who asks them share one machine, and whoever asks is Python",
    "OPA is asked a question that is ready made; the gateway makes it, and writes down what it says",
    "of attacks on headers, framing and sessions a plane's are its own, and are not compared",
    "no report follows, so all questions but the first are judged in a run that owes",
)
ATTACKS, SPEED = "attacks", "speed"
PARTS = (SPEED, ATTACKS, *flow.NAMES)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make planes-report", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--most", type=int, help="play no more traces of a suite")
    parser.add_argument("--declared", type=int, choices=(0, 1), default=0)
    parser.add_argument("--part", action="append", choices=PARTS, help="run this alone, anew")
    parser.add_argument("--again", action="store_true", help="take nothing of an earlier run")
    plan = parser.parse_args(arguments)
    kept = Kept(plan={"most": plan.most, "declared": plan.declared, "seconds": plan.seconds})
    if plan.again:
        kept.forget()
    elif plan.part:
        kept.forget(*plan.part)
    wanted = plan.part or [name for name in PARTS if kept.find(name) is None]
    print(f"to be run: {', '.join(wanted) or 'nothing, all of it is kept'}", flush=True)
    run = {part.name: part for part in _run(plan, wanted, kept)}
    every = {name: run.get(name) or kept.find(name) for name in PARTS}
    parts = [part for part in every.values() if part is not None]
    if missing := [name for name, part in every.items() if part is None]:
        print(f"not run so far: {', '.join(missing)}")
    return _written(parts, is_whole=not missing)


def _run(plan: argparse.Namespace, wanted: Sequence[str], kept: Kept) -> Iterator[Part]:
    for part in _each(plan, wanted, kept):
        kept.keep(part)
        yield part


def _each(plan: argparse.Namespace, wanted: Sequence[str], kept: Kept) -> Iterator[Part]:
    if SPEED in wanted:
        with _told(SPEED):
            figures, failures = speed.measured(plan.seconds)
        yield Part(name=SPEED, figures=figures, failures=failures)
    if ATTACKS in wanted:
        with _told(ATTACKS):
            ended = attacks.played()
        yield Part(name=ATTACKS, figures=ended[0], failures=ended[1])
    suites = [name for name in flow.NAMES if name in wanted]
    for one in flow.measured(suites, kept, most=plan.most, declared=bool(plan.declared)):
        yield Part(name=one.suite, figures=one.figures, failures=list(one.failures))


class _told:  # noqa: N801 - it is used as a function
    """Says that a part begins, and how long it took."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = time.monotonic()

    def __enter__(self) -> None:
        print(f"{self._name} ...", flush=True)

    def __exit__(self, *_: object) -> None:
        print(f"{self._name}: {time.monotonic() - self._began:.0f} s", flush=True)


def _written(parts: Sequence[Part], *, is_whole: bool) -> int:
    figures: dict[str, float] = {}
    for part in parts:
        figures |= part.figures
    failures = [failure for part in parts for failure in part.failures]
    _print_suites(figures)
    if not is_whole:
        for failure in failures:
            print(f"FAILED: {failure}")
        return 1 if failures else 0
    figures["flow.calls"] = sum(figures[f"flow.{name}.calls"] for name in flow.NAMES)
    unlike = figures["attacks.unlike"] + sum(figures[f"flow.{n}.unlike"] for n in flow.NAMES)
    ratio = figures["gateway.decisions_s"] / figures["opa.decisions_s"]
    summary = (
        f"{unlike:.0f} of {figures['attacks.by_plane']:.0f} attacks and {figures['flow.calls']:.0f} "
        f"recorded calls end otherwise by a plane; {ratio:.2f} times the decisions of OPA's own server"
    )
    return write_report("planes", figures, failures, LIMITS, summary=summary)


def _print_suites(figures: Mapping[str, float]) -> None:
    columns = ("calls", "refused", "harm", "harm_of_gateway", "unlike")
    rows = [
        (name, *(round(figures[f"flow.{name}.{column}"]) for column in columns))
        for name in flow.NAMES
        if f"flow.{name}.calls" in figures
    ]
    if rows:
        print_table(("suite", *(column.replace("_", " ") for column in columns)), rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

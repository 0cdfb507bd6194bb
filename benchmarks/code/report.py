"""`make code-report`: what programs cost, whether one gets out, and whether its calls are judged alike."""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.code.costs import AT_ONCE, TOOLS_EACH, Beside, calls, hundred, starts
from benchmarks.code.engines import VARIANTS
from benchmarks.code.parity import parity
from benchmarks.code.saving import saving
from benchmarks.report import print_table, write_report
from tests.sandbox.attempting import SECRET, Host, tried, unchecked_engine
from tests.sandbox.escapes import ATTEMPTS

MOST = {
    "escapes.reached": 0.0,
    "bare.cold_in_process_starts": 8.0,
    "bare.warm_in_process_starts": 5.0,
    "call.after_each_other_in_process_starts": 1.0,
    "bare.hundred_in_process_starts": 400.0,
    "bare.hundred_mib": 100.0,
    "jailed.hundred_mib": 125.0,
}
LEAST = {
    "parity.same_percent": 100.0,
    "parity.asked": 1.0,
    "parity.denied": 1.0,
    "tokens.saved": 99.0,
}
LIMITS = (
    "nothing of the gateway's own path is in the costs: calls are answered by an empty broker",
    "warm starts are of one run at a time: under load the next process may not be ready",
    "the attempts to escape were written by those who wrote the engine's walls",
    "an attempt that gets out without reaching what was laid out for it may not be noticed",
    "tokens are bytes / 4 of one task, most of them two thousand log entries; each counts once",
    "parity is of calls one after the other; nobody answers a question, and nothing has a grant",
)


async def measure(folder: Path) -> dict[str, float]:
    """Return all figures."""
    figures: dict[str, float] = {}
    units: list[float] = []

    def note(name: str, found: Beside) -> None:
        figures[f"{name}_ms"] = found.ms
        figures[f"{name}_in_process_starts"] = found.ms / found.process_ms
        units.append(found.process_ms)

    for variant in VARIANTS:
        cold, warm = await starts(variant, folder)
        note(f"{variant}.cold", cold)
        note(f"{variant}.warm", warm)
    after, at_once = await calls(folder)
    note("call.after_each_other", after)
    note("call.at_once", at_once)
    figures["process_ms"] = statistics.median(units)
    for variant in VARIANTS:
        seconds, mib = await hundred(variant, folder)
        starts_of = seconds * 1e3 / figures["process_ms"]
        figures |= {
            f"{variant}.hundred_s": seconds,
            f"{variant}.hundred_in_process_starts": starts_of,
            f"{variant}.hundred_mib": mib,
        }
    return {name: round(figure, 3) for name, figure in figures.items()}


async def escape(folder: Path) -> list[str]:
    """Make every attempt; return what went wrong."""
    os.environ["SANDBOX_CANARY"] = SECRET
    secrets = folder / "host"
    secrets.mkdir()
    host = Host(secrets)
    try:
        async with unchecked_engine(folder) as engine:
            return [what for attempt in ATTEMPTS for what in await tried(engine, host, attempt)]
    finally:
        host.listening.close()


def failures_of(figures: Mapping[str, float]) -> list[str]:
    """Return what is promised and not kept."""
    too_much = [
        f"{name} is {figures[name]}, at most {most} is promised"
        for name, most in MOST.items()
        if figures[name] > most
    ]
    too_little = [
        f"{name} is {figures[name]}, at least {least} is promised"
        for name, least in LEAST.items()
        if figures[name] < least
    ]
    return [*too_much, *too_little]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; return the exit status."""
    parser = argparse.ArgumentParser(prog="code-report")
    parser.add_argument("--traces", type=int, help="replay no more of each suite than so many")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = asyncio.run(measure(folder))
        wrong = asyncio.run(escape(folder))
    figures |= {"escapes.attempts": len(ATTEMPTS), "escapes.reached": len(wrong)}
    replayed = asyncio.run(parity(most=given.traces))
    figures |= replayed.figures
    with tempfile.TemporaryDirectory() as name:
        paid = saving(Path(name))
    figures |= paid.figures
    print_table(
        ("engine", "cold ms", "warm ms", f"{AT_ONCE} at once s", f"{AT_ONCE} at once MiB"),
        [
            (
                variant,
                *(figures[f"{variant}.{what}"] for what in ("cold_ms", "warm_ms")),
                *(figures[f"{variant}.{what}"] for what in ("hundred_s", "hundred_mib")),
            )
            for variant in VARIANTS
        ],
    )
    print_table(
        ("beside", "ms"),
        [
            ("start of the smallest process", figures["process_ms"]),
            ("a call of many after each other", figures["call.after_each_other_ms"]),
            ("a call of many at once", figures["call.at_once_ms"]),
        ],
    )
    print_table(
        ("tokens of one task", "by calls", "by a program", "saved %"),
        [("errors to issues", paid.direct, paid.code, figures["tokens.saved"])],
    )
    summary = (
        f"{len(wrong)} of {len(ATTEMPTS)} attempts got out; cold {figures['bare.cold_ms']} ms, "
        f"as shipped {figures['shipped.cold_ms']} ms; {AT_ONCE} runs of {TOOLS_EACH} calls "
        f"{figures['shipped.hundred_s']} s; {replayed.same} of {replayed.calls} calls inside programs "
        f"are answered as direct ones; {figures['tokens.saved']} % of the tokens of one task are saved"
    )
    limits = list(LIMITS)
    if given.traces is not None:
        limits.append(f"no more than {given.traces} traces of each suite were replayed")
    failures = [*wrong, *replayed.failures, *failures_of(figures)]
    return write_report("code", figures, failures, limits, summary=summary)


if __name__ == "__main__":
    sys.exit(main())

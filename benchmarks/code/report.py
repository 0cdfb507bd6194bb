"""`make code-report`: what programs cost, whether one gets out, and whether its calls are judged alike."""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.code.costs import (
    AFTER_EACH_OTHER,
    ALL_AT_ONCE,
    AT_ONCE,
    TOOLS_EACH,
    Beside,
    calls,
    cold_starts,
    hundred,
    plain_hundred,
    typescript_costs,
    warm_starts,
)
from benchmarks.code.engines import VARIANTS
from benchmarks.code.parity import parity
from benchmarks.code.saving import saving
from benchmarks.report import print_table, write_report
from gateway.sandbox.monty import WARM
from tests.sandbox.attempting import SECRET, Host, tried, unchecked_engine
from tests.sandbox.deno_escapes import ATTEMPTS as IN_TYPESCRIPT
from tests.sandbox.deno_variants import typescript_engine
from tests.sandbox.escapes import ATTEMPTS

CHOSEN = {
    "bare.cold": 2.2,
    "bare.warm": 0.3,
    "call.after_each_other": 0.2,
    "call.at_once": 0.2,
    "bare.hundred": 640.0,
}
"""Milliseconds that the interpreter took alone when it was chosen, on a machine that started the
smallest process in `REFERENCE_MS`."""
REFERENCE_MS = 1.5
NOISE = 1.25
"""How far two measurements of the same may lie apart on a quiet machine."""
BESIDE = {
    "bare.cold": "plain.cold",
    "bare.warm": "plain.warm",
    "call.after_each_other": "call.driven.after_each_other",
    "call.at_once": "call.driven.at_once",
    "bare.hundred": "plain.hundred",
}
"""What the same costs today without anything of ours."""
MOST = {
    "escapes.reached": 0.0,
    "escapes.typescript_reached": 0.0,
    "jailed.cold_in_process_starts": 12.0,
    "shipped.cold_in_process_starts": 16.0,
    "jailed.warm_in_process_starts": 1.0,
    "shipped.warm_in_process_starts": 1.5,
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
    "warm starts and a hundred at once are of processes that wait for them: under load they may not",
    "alone, a process is kept for the next run; ours serves one run, and is ended after its result",
    "a cold start ends with its result: the end of its process is not waited for; alone it is",
    "the library alone makes calls at less cost in a way in which no program can be kept meanwhile",
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

    for variant, found in (await cold_starts(folder)).items():
        note(f"{variant}.cold", found)
    # The bare one last: what is told of the plain interpreter was measured beside it.
    for variant in reversed(VARIANTS):
        for name, found in (await warm_starts(variant, folder)).items():
            note(f"{name}.warm", found)
    typed, figures["typescript.check_mib"] = await typescript_costs(folder)
    for name, found in typed.items():
        note(f"typescript.{name}", found)
    for how, code in (("after_each_other", AFTER_EACH_OTHER), ("at_once", ALL_AT_ONCE)):
        costs = await calls(code, folder)
        note(f"call.{how}", costs["ours"])
        note(f"call.driven.{how}", costs["driven"])
        note(f"call.plain.{how}", costs["plain"])
    figures["process_ms"] = statistics.median(units)

    def hundredth(name: str, seconds: float, mib: float) -> None:
        figures[f"{name}_s"] = seconds
        figures[f"{name}_in_process_starts"] = seconds * 1e3 / figures["process_ms"]
        figures[f"{name}_mib"] = mib

    hundredth("plain.hundred", *await plain_hundred())
    for variant in VARIANTS:
        hundredth(f"{variant}.hundred", *await hundred(variant, folder))
    hundredth("shipped.hundred_unready", *await hundred("shipped", folder, ready=WARM))
    return {name: round(figure, 3) for name, figure in figures.items()}


async def escape(folder: Path) -> tuple[list[str], list[str]]:
    """Make every attempt, in Python and in TypeScript; return what went wrong in each."""
    os.environ["SANDBOX_CANARY"] = SECRET
    secrets = folder / "host"
    secrets.mkdir()
    host = Host(secrets)
    try:
        async with unchecked_engine(folder) as python, typescript_engine(folder) as typescript:
            return (
                [what for one in ATTEMPTS for what in await tried(python, host, one)],
                [what for one in IN_TYPESCRIPT for what in await tried(typescript, host, one)],
            )
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
    return [*worse_than_chosen(figures), *too_much, *too_little]


def allowed(figures: Mapping[str, float], name: str) -> float:
    """Return how many starts of the smallest process a figure may take.

    As many as when the engine was chosen; or, where today's interpreter alone takes more on this
    machine, as many as that.
    """
    beside = figures[f"{BESIDE[name]}_in_process_starts"]
    return max(CHOSEN[name] / REFERENCE_MS, NOISE * beside)


def worse_than_chosen(figures: Mapping[str, float]) -> list[str]:
    """Return which costs have grown since the engine was chosen."""
    return [
        f"{name} takes {figures[f'{name}_in_process_starts']} starts of a process, "
        f"at most {allowed(figures, name):.3f} is promised"
        for name in CHOSEN
        if figures[f"{name}_in_process_starts"] > allowed(figures, name)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; return the exit status."""
    parser = argparse.ArgumentParser(prog="code-report")
    parser.add_argument("--traces", type=int, help="replay no more of each suite than so many")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = asyncio.run(measure(folder))
        wrong, in_typescript = asyncio.run(escape(folder))
    figures |= {"escapes.attempts": len(ATTEMPTS), "escapes.reached": len(wrong)}
    figures |= {
        "escapes.typescript_attempts": len(IN_TYPESCRIPT),
        "escapes.typescript_reached": len(in_typescript),
    }
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
            for variant in ("plain", *VARIANTS)
        ],
    )
    print_table(
        ("in starts of a process", "chosen", "alone today", "allowed", "found"),
        [
            (
                name,
                round(CHOSEN[name] / REFERENCE_MS, 3),
                figures[f"{BESIDE[name]}_in_process_starts"],
                round(allowed(figures, name), 3),
                figures[f"{name}_in_process_starts"],
            )
            for name in CHOSEN
        ],
    )
    print_table(
        ("beside", "ms"),
        [
            ("start of the smallest process", figures["process_ms"]),
            ("a call of many after each other", figures["call.after_each_other_ms"]),
            ("a call of many at once", figures["call.at_once_ms"]),
            ("a run in TypeScript, unchecked", figures["typescript.run_ms"]),
            ("a check of types in TypeScript", figures["typescript.check_ms"]),
        ],
    )
    print_table(
        ("tokens of one task", "by calls", "by a program", "saved %"),
        [("errors to issues", paid.direct, paid.code, figures["tokens.saved"])],
    )
    summary = (
        f"{len(wrong)} of {len(ATTEMPTS)} attempts in Python got out, {len(in_typescript)} of "
        f"{len(IN_TYPESCRIPT)} in TypeScript; cold {figures['bare.cold_ms']} ms, "
        f"as shipped {figures['shipped.cold_ms']} ms; {AT_ONCE} runs of {TOOLS_EACH} calls "
        f"{figures['shipped.hundred_s']} s; {replayed.same} of {replayed.calls} calls inside programs "
        f"are answered as direct ones; {figures['tokens.saved']} % of the tokens of one task are saved"
    )
    limits = list(LIMITS)
    if given.traces is not None:
        limits.append(f"no more than {given.traces} traces of each suite were replayed")
    failures = [*wrong, *in_typescript, *replayed.failures, *failures_of(figures)]
    return write_report("code", figures, failures, limits, summary=summary)


if __name__ == "__main__":
    sys.exit(main())

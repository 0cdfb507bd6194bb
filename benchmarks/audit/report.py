"""`make audit-report`: what the record keeps, how fast, how it answers, and what it notices."""

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.audit import questions, share, tampering, throughput
from benchmarks.durability.cuts import Losses, cut_power
from benchmarks.durability.kills import Survival, kill_under_load
from benchmarks.report import ROOT, print_table, write_report
from gateway.storage.connection import Durability

FOLDER = ROOT / "var" / "audit-report"
KILLS, SPOOLED_KILLS = 100, 25
CUTS = 1000
TAMPERINGS = 500
SECONDS = 5.0

LEAST_PER_S = 3000
MOST_P99_MS = 100
MOST_QUESTION_MS = 100
ASKED_ROWS = 1_000_000
"""The size of the log at which every question keeps to its limit."""

LIMITS = (
    "one machine: producers, writer and disk share its cores; a virtual disk can end a sync early",
    "power cuts are simulated below SQLite: a disk that reports a sync that it did not do is not",
    "a segment file that confirms is measured without an index that follows it, so it flatters it",
    "questions are asked alone, of a month of generated records; cold means out of the page cache",
    "tampering by somebody without the log's key; with it, only a checkpoint kept elsewhere tells",
)

Questions = Mapping[int, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Everything that one run has shown."""

    throughput: Mapping[str, Mapping[str, float]]
    shares: Mapping[int, Mapping[str, float]]
    survivals: Mapping[str, Survival]
    losses: Mapping[str, Losses]
    tampering: Mapping[str, Any]
    questions: Questions


def measure(rows: Sequence[int]) -> Measured:
    """Measure all of it, one after the other, in `FOLDER`."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    speed = throughput.all_of(FOLDER / "throughput", SECONDS)
    waits = share.shares(FOLDER / "share")
    survivals = {
        "refuse": kill_under_load(FOLDER / "kills", KILLS),
        "spool": kill_under_load(FOLDER / "spooled-kills", SPOOLED_KILLS, spool=True),
    }
    losses = {}
    for name, durability, spool in (
        ("power", Durability.POWER, False),
        ("power, spooling", Durability.POWER, True),
        ("process", Durability.PROCESS, False),
    ):
        folder = FOLDER / name.replace(", ", "-")
        folder.mkdir()
        losses[name] = cut_power(durability, CUTS, folder, spool=spool)
    return Measured(
        throughput=speed,
        shares=waits,
        survivals=survivals,
        losses=losses,
        tampering=tampering.run(TAMPERINGS),
        questions={count: questions.run(count) for count in rows},
    )


def failures_of(measured: Measured) -> list[str]:
    """Say what the figures promise and do not keep."""
    grouped = measured.throughput["group_commit"]
    failures = []
    if grouped["per_s"] < LEAST_PER_S:
        failures.append(f"{grouped['per_s']:.0f} durable records a second, promised {LEAST_PER_S}")
    if grouped["p99_ms"] > MOST_P99_MS:
        failures.append(f"p99 {grouped['p99_ms']} ms, promised {MOST_P99_MS}")
    for name, survival in measured.survivals.items():
        failures += [f"kills, {name}: {problem}" for problem in survival.problems]
        if not survival.answered:
            failures.append(f"kills, {name}: no call was answered, so nothing could be lost")
    spooled = measured.survivals.get("spool")
    if spooled is not None and not spooled.spooled:
        failures.append("kills, spool: nothing was spooled, so nothing of it could be lost")
    for name, found in measured.losses.items():
        if "spooling" in name and not found.recovered:
            failures.append(f"cuts, {name}: nothing was spooled, so nothing of it could be lost")
        failures += [f"cuts, {name}: {broken}" for broken in found.broken]
        if found.durability is Durability.POWER and found.losing:
            failures.append(f"cuts, {name}: {found.losing} lost acknowledged records")
        if found.durability is Durability.PROCESS and not found.losing:
            failures.append("no cut lost anything with `process`: the cuts show nothing")
    failures += [f"not noticed: {missed}" for missed in measured.tampering["missed"]]
    failures += [
        f"{name}: {each['warm_ms']:.0f} ms at {ASKED_ROWS:,} records, promised {MOST_QUESTION_MS}"
        for name, each in measured.questions.get(ASKED_ROWS, {}).items()
        if each.get("warm_ms", 0) > MOST_QUESTION_MS
    ]
    return failures


def figures_of(measured: Measured) -> dict[str, float]:
    """Return every figure under its fixed name."""
    figures: dict[str, float] = {}
    for name, shown in measured.throughput.items():
        figures |= {f"{name}.{key}": number for key, number in shown.items()}
    for connections, shown in measured.shares.items():
        figures |= {f"call.{connections}.{key}": number for key, number in shown.items()}
    for name, survival in measured.survivals.items():
        figures[f"kills.{name}"] = survival.kills
        figures[f"kills.{name}.answered"] = len(survival.answered)
        figures[f"kills.{name}.lost"] = len(survival.lost)
        figures[f"kills.{name}.spooled"] = survival.spooled
    for name, found in measured.losses.items():
        key = name.replace(", ", "_")
        figures |= {f"cuts.{key}": found.cuts, f"cuts.{key}.losing": found.losing}
    for key in ("tried", "detected", "located"):
        figures[f"tampering.{key}"] = measured.tampering[key]
    for count, asked in measured.questions.items():
        for name, each in asked.items():
            figures |= {f"rows.{count}.{name}.{key}": number for key, number in each.items()}
    return figures


def show(measured: Measured) -> None:
    """Print the tables."""
    print_table(
        ("what confirms a record", "records/s", "p50 ms", "p99 ms"),
        [
            (name.replace("_", " "), f"{each['per_s']:.0f}", each["p50_ms"], each["p99_ms"])
            for name, each in measured.throughput.items()
        ],
    )
    print_table(
        ("connections", "call us", "of it for records us", "share"),
        [
            (count, f"{each['call_us']:.0f}", f"{each['waits_us']:.0f}", f"{each['share']:.0%}")
            for count, each in measured.shares.items()
        ],
    )
    print_table(
        ("kill -9 under load", "kills", "answered", "lost", "doubled", "spooled"),
        [
            (name, one.kills, len(one.answered), len(one.lost), len(one.doubled), one.spooled)
            for name, one in measured.survivals.items()
        ],
    )
    print_table(
        ("power cuts", "cuts", "losing records", "most at once"),
        [(name, found.cuts, found.losing, found.worst) for name, found in measured.losses.items()],
    )
    _show_questions(measured.questions)
    tried = measured.tampering
    print(f"tampering: {tried['tried']} tried, {tried['detected']} detected, "
          f"{tried['located']} located\n")  # fmt: skip


def _show_questions(asked: Questions) -> None:
    heads = [f"{kind} at {count / 1e6:g} M" for count in asked for kind in ("warm ms", "cold ms")]
    names = [name for name, each in next(iter(asked.values()), {}).items() if "warm_ms" in each]
    rows = [
        (name, *(f"{asked[count][name][key]:.1f}" for count in asked for key in _TIMES))
        for name in names
    ]
    print_table(("question", *heads), rows)


_TIMES = ("warm_ms", "cold_ms")


def main() -> int:
    """Print and write the figures; return 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[ASKED_ROWS])
    measured = measure(parser.parse_args().rows)
    show(measured)
    grouped, fsync = measured.throughput["group_commit"], measured.throughput["fsync"]
    killed = measured.survivals["refuse"]
    summary = (
        f"{grouped['per_s']:.0f} durable records/s, p99 {grouped['p99_ms']} ms (one fsync "
        f"{fsync['p50_ms']} ms); {killed.kills} kills, {len(killed.lost)} of "
        f"{len(killed.answered)} lost; {measured.tampering['detected']} of "
        f"{measured.tampering['tried']} tamperings detected"
    )
    return write_report(
        "audit", figures_of(measured), failures_of(measured), LIMITS, summary=summary
    )


if __name__ == "__main__":
    sys.exit(main())

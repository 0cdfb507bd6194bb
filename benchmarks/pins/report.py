"""`make pins-report`: whether a changed definition is noticed, and how often hints are right."""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.pins import freshness, golden, lists
from benchmarks.pins.data import recorded_releases, recorded_tools, rows_of, tools_of
from benchmarks.pins.drift import Drift, drift_of
from benchmarks.pins.hints import Hints, hints_in, percent
from benchmarks.pins.operators import OPERATORS, missed, sample
from benchmarks.report import ROOT, print_table, write_report
from gateway.pins.tiers import Tier

VECTORS = ROOT / "tests" / "pins" / "vectors"
MOST_HARD_PERCENT = 0.3
MOST_ANY_PERCENT = 2.24
"""What the word list is published to flag of ordinary tools: more hints would be no better ones."""

BASELINES = {"YARA rules": 28.6, "word list": 38.7}
"""Published: percent of hostile tools that the YARA rules of Cisco's mcp-scanner, and the words of
agent-scan's W001, find."""

LIMITS = (
    "a hint is no control: whoever knows the expressions writes around them; people approve",
    "tools whose names say that they attack, and attacks that no definition shows, count apart",
    "the baselines are published figures of a larger set, except for the word list measured here",
    "a first icon over HTTPS is T0: policy approves it by itself, and what it shows is not pinned",
    "releases are started with dependencies of today where nothing fixes them",
    "what it costs to look at lists is this process's time alone, with servers on the same machine",
    "not every release is recorded: a pair may skip some, and so changes more than one update does",
)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """All that the report says."""

    vectors: int
    lists: int
    wrong_vectors: Sequence[str]
    wrong_lists: Sequence[str]
    mutated: int
    """Tools that every operator was tried on."""
    missed: Mapping[str, Sequence[str]]
    benign: Hints
    malicious: Hints
    overt: Hints
    unseen: Hints
    drift: Drift


def measured(folder: Path) -> Findings:
    """Measure what is in `folder`; what is not there is taken from the project's own data."""
    path = folder / "hash_vectors.json"
    golden_data = json.loads((path if path.exists() else VECTORS / path.name).read_text())
    benign_rows = rows_of(folder, "benign")
    benign = recorded_tools() if benign_rows is None else tools_of(benign_rows)
    hostile = tools_of(rows_of(folder, "malicious") or [])
    seen = [tool for tool in hostile if tool.seen and not tool.overt]
    mutated = sample(benign)
    pairs, cases = golden_data["vectors"], golden_data.get("tools_list", [])
    return Findings(
        vectors=len(pairs),
        lists=len(cases),
        wrong_vectors=[wrong for pair in pairs if (wrong := golden.failure_of(pair))],
        wrong_lists=asyncio.run(_wrong_lists(cases)),
        mutated=len(mutated),
        missed=missed(mutated),
        benign=hints_in(benign),
        malicious=hints_in(seen),
        overt=hints_in([tool for tool in hostile if tool.overt]),
        unseen=hints_in([tool for tool in hostile if not tool.overt and not tool.seen]),
        drift=drift_of(recorded_releases()),
    )


async def _wrong_lists(cases: Sequence[Mapping[str, str]]) -> list[str]:
    return [wrong for case in cases if (wrong := await lists.failure_of(case))]


def failures_of(found: Findings) -> list[str]:
    """Say what the figures promise and do not keep."""
    failures = [*found.wrong_vectors, *found.wrong_lists]
    for name, tools in found.missed.items():
        if tools:
            failures.append(f"{name}: not noticed on {len(tools)} tools, such as {tools[0]}")
    if not found.mutated:
        failures.append("there is no tool to change")
    failures += _failures_of_hints(found.benign, found.malicious)
    return failures


def _failures_of_hints(benign: Hints, malicious: Hints) -> list[str]:
    failures = []
    for what, count, most in (
        ("a hard hint", benign.hard, MOST_HARD_PERCENT),
        ("any hint", benign.any, MOST_ANY_PERCENT),
    ):
        share = percent(count, benign.tools)
        if share > most:
            failures.append(f"{share} % of ordinary tools have {what}: at most {most} %")
    recall = percent(malicious.any, malicious.tools)
    bars = BASELINES | {"word list, measured": percent(malicious.words, malicious.tools)}
    if malicious.tools:
        failures += [
            f"hints find {recall} % of hostile tools, and the {name} {bar} %"
            for name, bar in bars.items()
            if recall <= bar
        ]
    return failures


def figures_of(found: Findings) -> dict[str, float]:
    """Return the figures; `malicious_flags` counts hints of either kind."""
    benign, malicious, drift = found.benign, found.malicious, found.drift
    figures: dict[str, float] = {
        "vectors_ok": found.vectors - len(found.wrong_vectors),
        "vectors_total": found.vectors,
        "lists_ok": found.lists - len(found.wrong_lists),
        "lists_total": found.lists,
        "operators_caught": sum(not tools for tools in found.missed.values()),
        "operators_total": len(OPERATORS),
        "operators_tools": found.mutated,
        "benign_tools": benign.tools,
        "benign_hard_flags": benign.hard,
        "benign_flags": benign.any,
        "benign_words": benign.words,
        "malicious_tools": malicious.tools,
        "malicious_flags": malicious.any,
        "malicious_hard_flags": malicious.hard,
        "malicious_words": malicious.words,
        "malicious_overt_tools": found.overt.tools,
        "malicious_overt_flags": found.overt.any,
        "malicious_unseen_tools": found.unseen.tools,
        "malicious_unseen_flags": found.unseen.any,
        "release_pairs": drift.pairs,
        "release_pairs_changed": drift.changed,
        "release_pairs_asking": drift.asking,
        "release_items": drift.items,
        "release_items_changed": drift.altered,
        "release_removed": drift.removed,
        "release_hinted": drift.hinted,
    }
    return figures | {f"release_{tier.value}": drift.tiers[tier] for tier in Tier}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print and write the figures; return 1 if a promised one is not met."""
    parser = argparse.ArgumentParser(prog="pins-report")
    parser.add_argument("--dir", type=_folder, default=VECTORS, help="a folder of data sets")
    folder: Path = parser.parse_args(arguments).dir
    found = measured(folder)
    _print(found)
    fresh = asyncio.run(freshness.measured())
    freshness.show(fresh)
    summary = (
        f"{found.vectors - len(found.wrong_vectors)} of {found.vectors} vectors, "
        f"{found.lists - len(found.wrong_lists)} of {found.lists} lists, "
        f"{sum(not tools for tools in found.missed.values())} of {len(OPERATORS)} operators; hints: "
        f"{found.benign.hard} hard on {found.benign.tools} ordinary tools, "
        f"any on {found.malicious.any} of {found.malicious.tools} hostile ones"
    )
    return write_report(
        "pins",
        figures_of(found) | freshness.figures_of(fresh),
        [*failures_of(found), *freshness.failures_of(fresh)],
        LIMITS,
        summary=summary,
    )


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder")
    return path


def _print(found: Findings) -> None:
    print_table(
        ("operator", "noticed", "of"),
        [(name, found.mutated - len(tools), found.mutated) for name, tools in found.missed.items()],
    )
    print_table(
        ("hints", "tools", "hard", "hard %", "any", "any %", "word list", "word list %"),
        [
            _row("ordinary tools", found.benign),
            _row("hostile tools", found.malicious),
            _row("hostile by name", found.overt),
            _row("hostile unseen", found.unseen),
        ],
    )
    codes = sorted(found.benign.classes | found.malicious.classes)
    print_table(
        ("class", "ordinary", "hostile"),
        [(code, found.benign.classes[code], found.malicious.classes[code]) for code in codes],
    )
    drift = found.drift
    print_table(
        ("releases", ""),
        [
            ("pairs", drift.pairs),
            ("pairs that change anything", drift.changed),
            ("pairs that ask a person", drift.asking),
            ("definitions compared", drift.items),
            *((f"{tier.name.lower()} ({tier})", drift.tiers[tier]) for tier in Tier),
            ("removed", drift.removed),
            ("with a new hint", drift.hinted),
        ],
    )
    for flagged in found.benign.flagged:
        print(f"hard hint on an ordinary tool: {flagged}")


def _row(name: str, hints: Hints) -> tuple[Any, ...]:
    counts = (
        (count, percent(count, hints.tools)) for count in (hints.hard, hints.any, hints.words)
    )
    return (name, hints.tools, *(cell for pair in counts for cell in pair))


if __name__ == "__main__":
    sys.exit(main())

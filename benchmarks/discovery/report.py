"""`make discovery-report`: whether a search finds the tools that a request needs, and how fast."""

import argparse
import asyncio
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from benchmarks.discovery.recall import DEPTHS, NOISY, LabelledSet, Scored, scored, sets_in
from benchmarks.discovery.scale import SIZES, timed, yardstick_ms
from benchmarks.discovery.tokens import tokens_of
from benchmarks.report import print_table, write_report
from gateway.search.finder import Finder, load_meaning
from gateway.search.tools import Strategy
from tests.search.weights import MODEL, MODEL_DIGEST

STRATEGIES = (Strategy.KEYWORD, Strategy.EMBEDDING, Strategy.HYBRID)

LEAST = {
    "livemcp.keyword.r5": 58.0,
    "livemcp.hybrid.r5": 67.0,
    "livemcp.hybrid.task.r5": 50.0,
    "metatool.keyword.r5": 67.0,
    "metatool.hybrid.r5": 82.0,
    "tokens.livemcp.saved_percent": 99.0,
}
MOST = {"scale.1000.keyword.p50_ms": 1.0, "scale.10000.keyword.p50_ms": 5.0}

LIMITS = (
    "a labelled set names the tools that one annotator chose: equally good ones count as misses",
    "weights were chosen on LiveMCP and MetaTool; how a file's name is read, on LiveMCP's tasks alone",
    "on LiveMCP one standard error is about 3 points, on MetaTool about 1",
    "no model is asked: what it makes of the answer, and a second search, are not measured",
    "p50 of embedding and hybrid includes the embedding of the query, which no cache holds here",
    "tokens are bytes / 4; what the discovery tools themselves cost in a list is not counted",
    "no priors from usage: the sets have none",
)


class Forgetful:
    """A `VectorStore` that keeps nothing, so that every query is paid for."""

    def tools(self, model: str, digests: Collection[str]) -> Mapping[str, bytes]:
        """Return nothing."""
        del model, digests
        return {}

    def keep_tools(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Keep nothing."""

    def texts(self, model: str, texts: Collection[str]) -> Mapping[str, bytes]:
        """Return nothing."""
        del model, texts
        return {}

    def keep_texts(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Keep nothing."""


async def measure(labelled: LabelledSet, figures: dict[str, float]) -> list[Sequence[object]]:
    """Score every strategy on a set; return rows for people."""
    finder = Finder(load_meaning(MODEL, MODEL_DIGEST, Forgetful()))
    for tool in labelled.tools:
        finder.add(tool)
    await finder.prepare()
    visible = frozenset(tool.id for tool in labelled.tools)
    table: list[Sequence[object]] = []
    answers: list[Sequence[str]] = []
    for strategy in STRATEGIES:

        async def search(query: str, strategy: Strategy = strategy) -> Sequence[str]:
            ranking = await finder.search(
                query, visible=visible, limit=max(DEPTHS), strategy=strategy
            )
            if ranking.answered_by is not strategy:
                raise SystemExit(f"{strategy} was answered by {ranking.answered_by}")
            found = [hit.id for hit in ranking.hits]
            if strategy is Strategy.KEYWORD:
                answers.append(found)
            return found

        result = await scored(search, labelled.queries)
        name = f"{labelled.name}.{strategy}"
        figures |= _figures(name, result)
        table += _rows(name, result)
    finder.close()
    tokens = tokens_of(labelled.rows, answers)
    prefix = f"tokens.{labelled.name}"
    figures |= {
        f"{prefix}.list": tokens.list,
        f"{prefix}.search": tokens.search,
        f"{prefix}.details": tokens.details,
        f"{prefix}.saved_percent": tokens.saved_percent,
    }
    return table


def _figures(name: str, result: Scored) -> dict[str, float]:
    figures = {f"{name}.r{depth}": result.overall.percent(depth) for depth in DEPTHS}
    figures[f"{name}.p50_ms"] = result.p50_ms
    for kind, score in result.kinds.items():
        figures |= {f"{name}.{kind}.r{depth}": score.percent(depth) for depth in DEPTHS}
    return figures


def _rows(name: str, result: Scored) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = [
        (name, result.overall.queries, *map(result.overall.percent, DEPTHS), result.p50_ms)
    ]
    for kind, score in sorted(result.kinds.items()):
        apart = " (apart)" if kind == NOISY else ""
        rows.append((f"  {kind}{apart}", score.queries, *map(score.percent, DEPTHS), ""))
    return rows


def measure_scale(figures: dict[str, float]) -> None:
    """Time searches by keyword in catalogues of every size."""
    unit = yardstick_ms()
    results = [timed(size) for size in SIZES]
    for result in results:
        prefix = f"scale.{result.tools}.keyword"
        figures |= {
            f"{prefix}.p50_ms": result.p50_ms,
            f"{prefix}.p95_ms": result.p95_ms,
            f"{prefix}.first_ms": result.first_ms,
            f"{prefix}.per_mib_of_sha256": round(result.p50_ms / unit, 2),
        }
    print_table(
        ("search by keyword", "p50 ms", "p95 ms", "first of a caller", "in MiB of SHA-256"),
        [
            (f"{r.tools} tools", r.p50_ms, r.p95_ms, r.first_ms, round(r.p50_ms / unit, 2))
            for r in results
        ],
    )


def failures_of(figures: Mapping[str, float]) -> list[str]:
    """Return what is promised, measured and not kept."""
    low = [
        f"{name} is {figures[name]}, at least {least} is promised"
        for name, least in LEAST.items()
        if name in figures and figures[name] < least
    ]
    high = [
        f"{name} is {figures[name]}, at most {most} is promised"
        for name, most in MOST.items()
        if name in figures and figures[name] > most
    ]
    return low + high


def main() -> int:
    """Measure, print and write; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="NAME.tools.jsonl and NAME.queries.jsonl, or .gz")
    arguments = parser.parse_args()
    figures: dict[str, float] = {}
    sets = sets_in(arguments.dir) if arguments.dir else []
    table: list[Sequence[object]] = []
    for labelled in sets:
        table += asyncio.run(measure(labelled, figures))
    if table:
        heads = ("set and strategy", "queries", *(f"recall@{depth}" for depth in DEPTHS), "p50 ms")
        print_table(heads, table)
    measure_scale(figures)
    named = "; ".join(
        f"{one.name} {figures[f'{one.name}.keyword.r5']} / {figures[f'{one.name}.hybrid.r5']}"
        for one in sets
    )
    summary = f"recall@5 by keyword / hybrid: {named or 'no sets (DIR=...)'}"
    return write_report("discovery", figures, failures_of(figures), LIMITS, summary=summary)


if __name__ == "__main__":
    sys.exit(main())

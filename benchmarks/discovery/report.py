"""`make discovery-report`: whether a search finds the tools that a request needs, and how fast."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from benchmarks.discovery.recall import DEPTHS, NOISY, LabelledSet, Scored, scored, sets_in
from benchmarks.discovery.scale import SIZES, timed, yardstick_ms
from benchmarks.front import crowd, saving
from benchmarks.front.labelled import tools_of
from benchmarks.front.reference import tools_of_reference_servers
from benchmarks.report import FOLDER, print_table, write_report
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
    "tokens.livemcp.brief_saved_percent": 75.0,
    "behind.hung.resources.of_others_percent": 100.0,
}
MOST = {
    "scale.1000.keyword.p50_ms": 1.0,
    "scale.10000.keyword.p50_ms": 5.0,
    "behind.hung.call.ratio": 1.5,
    "behind.hung.call.while_listing_ratio": 1.5,
}
_PAID_FOR = 100
"""Queries of a set that are asked at `/mcp`, to count what their answers cost."""
_REFERENCE_QUERIES = (
    *("read a text file", "show what changed in the repository", "add two numbers"),
    *("commit the changes", "find files by name", "list the branches"),
)

LIMITS = (
    "a labelled set names the tools that one annotator chose: equally good ones count as misses",
    "weights were chosen on LiveMCP and MetaTool; how a file's name is read, on LiveMCP's tasks alone",
    "on LiveMCP one standard error is about 3 points, on MetaTool about 1",
    "no model is asked: what it makes of the answer, and a second search, are not measured",
    "p50 of embedding and hybrid includes the embedding of the query, which no cache holds here",
    "tokens are bytes / 4 of what came over the wire; searching is the tools for it and one use of each",
    "behind: servers are light, several to a process, and share the machine with the gateway",
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
    finder = Finder(load_meaning(MODEL.parent, MODEL_DIGEST, Forgetful()))
    for tool in labelled.tools:
        await finder.add(tool)
    await finder.prepare()
    visible = frozenset(tool.id for tool in labelled.tools)
    table: list[Sequence[object]] = []
    for strategy in STRATEGIES:

        async def search(query: str, strategy: Strategy = strategy) -> Sequence[str]:
            ranking = await finder.search(
                query, visible=visible, limit=max(DEPTHS), strategy=strategy
            )
            if ranking.answered_by is not strategy:
                raise SystemExit(f"{strategy} was answered by {ranking.answered_by}")
            return [hit.id for hit in ranking.hits]

        result = await scored(search, labelled.queries)
        name = f"{labelled.name}.{strategy}"
        figures |= _figures(name, result)
        table += _rows(name, result)
    finder.close()
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


def measure_scale(figures: dict[str, float], sizes: Sequence[int] = SIZES) -> None:
    """Time searches by keyword in catalogues of every size."""
    unit = yardstick_ms()
    results = [timed(size) for size in sizes]
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


def measure_saving(
    sets: Sequence[LabelledSet], figures: dict[str, float], folder: Path, queries: int = _PAID_FOR
) -> None:
    """Count what hosts read at `/mcp`, of every set and of the reference servers."""
    staged = [
        (one.name, tools_of(one.rows), [str(query["query"]) for query in one.queries[:queries]])
        for one in sets
    ]
    reference = tools_of_reference_servers(folder / "served")
    staged.append(("reference", reference, list(_REFERENCE_QUERIES[:queries])))
    rows: list[Sequence[object]] = []
    for name, tools, asked in staged:
        saved = saving.measure(folder / name, tools, asked)
        figures |= saved.figures(name)
        searching = saved.definitions + saved.search + saved.details
        brief = saved.brief + saved.described
        rows.append(
            (
                f"{name}, {saved.tools} tools",
                saved.list,
                round(searching),
                saved.by_search_percent,
                round(brief),
                saved.by_descriptions_percent,
            )
        )
    heads = ("tokens at /mcp", "all", "searching", "saved %", "brief and two", "saved %")
    print_table(heads, rows)


def measure_behind(plan: crowd.Plan, figures: dict[str, float], folder: Path) -> None:
    """Stage many servers, and have one of them hang."""
    found = crowd.measure(plan, folder)
    figures |= {f"behind.{name}": figure for name, figure in found.items()}
    print_table((f"{plan.servers} servers, {plan.tools} tools", ""), found.items())


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


def main(arguments: Sequence[str] | None = None, *, folder: Path = FOLDER) -> int:
    """Measure, print and write; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="NAME.tools.jsonl and NAME.queries.jsonl, or .gz")
    parser.add_argument("--quick", action="store_true", help="few servers, few queries, one size")
    asked = parser.parse_args(arguments)
    figures: dict[str, float] = {}
    sets = sets_in(asked.dir) if asked.dir else []
    table: list[Sequence[object]] = []
    for labelled in sets:
        table += asyncio.run(measure(labelled, figures))
    if table:
        heads = ("set and strategy", "queries", *(f"recall@{depth}" for depth in DEPTHS), "p50 ms")
        print_table(heads, table)
    measure_scale(figures, SIZES[:1] if asked.quick else SIZES)
    with tempfile.TemporaryDirectory() as place:
        measure_saving(sets, figures, Path(place), 3 if asked.quick else _PAID_FOR)
        plan = crowd.QUICK if asked.quick else crowd.Plan()
        measure_behind(plan, figures, Path(place) / "behind")
    named = "; ".join(
        f"{one.name} {figures[f'{one.name}.keyword.r5']} / {figures[f'{one.name}.hybrid.r5']}"
        for one in sets
    )
    summary = f"recall@5 by keyword / hybrid: {named or 'no sets (DIR=...)'}"
    failures = failures_of(figures)
    return write_report("discovery", figures, failures, LIMITS, summary=summary, folder=folder)


if __name__ == "__main__":
    sys.exit(main())

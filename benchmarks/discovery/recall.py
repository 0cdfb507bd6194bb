"""Reading sets of tools and queries, and scoring a search on them."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.pins.data import rows_of
from gateway.domain.document import Document
from gateway.search.tools import ToolText, parameters_of

DEPTHS = (1, 5, 10)
NOISY = "agent_noisy"
"""Queries that were written for another tool than the labelled one; they count apart."""

Search = Callable[[str], Awaitable[Sequence[str]]]
"""Gives the ids of the best tools for a query."""


@dataclass(frozen=True, kw_only=True)
class LabelledSet:
    """Tools, and queries of which is known which tools they need."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    tools: Sequence[ToolText]
    queries: Sequence[Mapping[str, Any]]


@dataclass
class Score:
    """What a search reached on some number of queries."""

    queries: int = 0
    recalls: dict[int, float] = field(default_factory=lambda: dict.fromkeys(DEPTHS, 0.0))
    """Sums over queries, by depth."""

    def add(self, recalls: Mapping[int, float]) -> None:
        """Count one more query."""
        self.queries += 1
        for depth, recall in recalls.items():
            self.recalls[depth] += recall

    def percent(self, depth: int) -> float:
        """Return the mean recall at `depth` in percent, to one place."""
        return round(100 * self.recalls[depth] / self.queries, 1) if self.queries else 0.0


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What a search reached on a set."""

    overall: Score
    """Without noisy queries."""
    kinds: Mapping[str, Score]
    p50_ms: float


def sets_in(folder: Path) -> list[LabelledSet]:
    """Return every set in `folder`: `NAME.tools.jsonl` and `NAME.queries.jsonl`, also packed."""
    names = sorted({path.name.split(".tools.jsonl")[0] for path in folder.glob("*.tools.jsonl*")})
    found = []
    for name in names:
        rows, queries = rows_of(folder, f"{name}.tools"), rows_of(folder, f"{name}.queries")
        if rows and queries:
            tools = [tool_of(row) for row in rows]
            found.append(LabelledSet(name=name, rows=rows, tools=tools, queries=queries))
    return found


def tool_of(row: Mapping[str, Any]) -> ToolText:
    """Return the tool of a row; its digest is that of what the row says of it."""
    definition = {name: row.get(name) for name in ("name", "description", "input_schema")}
    return ToolText(
        id=str(row["id"]),
        server=str(row["server"]),
        name=str(row["name"]),
        description=str(row.get("description") or ""),
        parameters=parameters_of(row.get("input_schema")),
        server_description=str(row.get("server_description") or ""),
        digest=str(Document.of(definition).digest),
    )


async def scored(search: Search, queries: Sequence[Mapping[str, Any]]) -> Scored:
    """Ask every query once; recall is the share of its needs that have a tool in the answer."""
    overall, kinds, seconds = Score(), dict[str, Score](), list[float]()
    for query in queries:
        began = time.perf_counter()
        found = await search(str(query["query"]))
        seconds.append(time.perf_counter() - began)
        recalls = {depth: _recall(found[:depth], query["groups"]) for depth in DEPTHS}
        kinds.setdefault(str(query["kind"]), Score()).add(recalls)
        if query["kind"] != NOISY:
            overall.add(recalls)
    return Scored(overall=overall, kinds=kinds, p50_ms=round(1000 * median(seconds), 3))


def _recall(found: Sequence[str], needs: Sequence[Sequence[str]]) -> float:
    met = sum(not set(found).isdisjoint(need) for need in needs)
    return met / len(needs)

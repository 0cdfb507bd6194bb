"""What definitions cost a host at the endpoint in front of all servers, in each form that it gives them.

Everything is counted as it came over the wire: lists with every member that they have, answers as the
text that a model reads.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.front.stage import Front, Tools, staged
from gateway.domain.tokens import tokens_of
from gateway.wire.operations import CALL_TOOL, SEARCH_TOOLS, TOOL_DETAILS

META_TOOLS = (SEARCH_TOOLS, TOOL_DETAILS, CALL_TOOL)
DESCRIBED = 2
"""Tools whose whole descriptions a task reads, where lists are brief."""
_LONGEST_QUERY = 4_000
"""Characters that a search takes; one query of LiveMCP's is longer."""
_LEAST_LISTED = 0.99
"""The gateway lists no tool whose schema is none, and large sets have one or two."""
_DESCRIPTIONS = "resource:///tool_descriptions"


@dataclass(frozen=True, kw_only=True)
class Saved:
    """Estimates, in tokens."""

    tools: int
    list: int
    """The whole list of the servers' tools, as a host without discovery reads it."""
    definitions: int
    """The gateway's own tools for searching."""
    search: float
    """One answer to a search."""
    details: float
    """The definition of its best hit."""
    brief: int
    """The list in its brief form."""
    described: float
    """The descriptions of `DESCRIBED` tools, read on demand."""

    @property
    def by_search_percent(self) -> float:
        """What the tools for searching, one search and one definition save against the list."""
        return self._percent(self.definitions + self.search + self.details)

    @property
    def by_descriptions_percent(self) -> float:
        """What a brief list and the descriptions of a task's tools save against the list."""
        return self._percent(self.brief + self.described)

    def _percent(self, instead: float) -> float:
        # Down, so that what is promised is not reached by rounding.
        return math.floor(1000 * (1 - instead / self.list)) / 10

    def figures(self, name: str) -> dict[str, float]:
        """Return what a report says of it."""
        prefix = f"tokens.{name}"
        return {
            f"{prefix}.tools": self.tools,
            f"{prefix}.list": self.list,
            f"{prefix}.definitions": self.definitions,
            f"{prefix}.search": round(self.search),
            f"{prefix}.details": round(self.details),
            f"{prefix}.saved_percent": self.by_search_percent,
            f"{prefix}.brief": self.brief,
            f"{prefix}.described": round(self.described),
            f"{prefix}.brief_saved_percent": self.by_descriptions_percent,
        }


def measure(folder: Path, tools: Tools, queries: Sequence[str]) -> Saved:
    """Stage these tools, and count what hosts read of them for each of the queries."""
    with (
        staged(folder / "whole", tools, discovery={"defer": "off"}) as stage,
        stage.front() as front,
    ):
        listed = front.tools()
        theirs = [one for one in listed if "__" in one["name"] or "--" in one["name"]]
        if len(theirs) < _LEAST_LISTED * sum(map(len, tools.values())):
            raise RuntimeError(f"{len(theirs)} tools are listed")
        searching = [one for one in listed if one["name"] in META_TOOLS]
        searches, details = _searched(front, queries)
    brief, described = _described(folder / "brief", tools)
    return Saved(
        tools=len(theirs),
        list=_tokens(theirs),
        definitions=_tokens(searching),
        search=mean(searches),
        details=mean(details),
        brief=brief,
        described=described,
    )


def _searched(front: Front, queries: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return what each search cost, and each look at its best hit."""
    searches, details = [], []
    for query in (one for one in queries if len(one) <= _LONGEST_QUERY):
        answer = front.use(SEARCH_TOOLS, query=query)
        best = front.use(SEARCH_TOOLS, query=query, limit=1, detail="name")
        names = [name for names in json.loads(best)["servers"].values() for name in names]
        searches.append(tokens_of(len(answer.encode())))
        if names:
            details.append(tokens_of(len(front.use(TOOL_DETAILS, names=names).encode())))
    return searches, details


def _described(folder: Path, tools: Tools) -> tuple[int, float]:
    """Return what the brief list costs, and descriptions that are read on demand."""
    settings: dict[str, Any] = {"defer": "off", "descriptions": {"mode": "on"}}
    with staged(folder, tools, discovery=settings) as stage, stage.front() as front:
        listed = [one for one in front.tools() if "__" in one["name"] or "--" in one["name"]]
        names = [one["name"] for one in listed]
        read = []
        for first in range(0, len(names), DESCRIBED):
            chosen = ",".join(names[first : first + DESCRIBED])
            contents = front.ask("resources/read", uri=f"{_DESCRIPTIONS}?tools={chosen}")[
                "contents"
            ]
            read.append(tokens_of(len(contents[0]["text"].encode())))
        return _tokens(listed), mean(read)


def _tokens(content: object) -> int:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return tokens_of(len(text.encode()))

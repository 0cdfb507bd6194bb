"""What a list of tools costs a model, and what a search instead of it does (estimates)."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import mean
from typing import Any

HITS = 8
"""Tools in one answer to a search."""
_SUMMARY = 120
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Estimates, in tokens."""

    list: int
    search: int
    details: int

    @property
    def saved_percent(self) -> float:
        """What one search and the details of one tool save against the whole list."""
        return round(100 * (1 - (self.search + self.details) / self.list), 1)


def tokens_of(rows: Sequence[Mapping[str, Any]], answers: Sequence[Sequence[str]]) -> Tokens:
    """Compare the whole list with what is read instead: `answers` to searches, and their best tool."""
    by_id = {str(row["id"]): row for row in rows}
    found = [[by_id[tool] for tool in answer[:HITS]] for answer in answers if answer]
    return Tokens(
        list=_tokens([_definition(row) for row in rows]),
        search=round(mean(_tokens(_grouped(hits)) for hits in found)),
        details=round(mean(_tokens([_definition(hits[0])]) for hits in found)),
    )


def _definition(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": f"{row['server']}__{row['name']}",
        "description": row.get("description") or "",
        "inputSchema": row.get("input_schema") or {"type": "object"},
    }


def _grouped(hits: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return hits as an answer shows them: by server, with a name and a line each."""
    in_order = sorted(hits, key=lambda row: str(row["server"]))
    return [
        {
            "server": server,
            "tools": [
                {"name": row["name"], "description": _summary(str(row.get("description") or ""))}
                for row in group
            ],
        }
        for server, group in groupby(in_order, key=lambda row: str(row["server"]))
    ]


def _summary(description: str) -> str:
    return description.strip().split("\n", 1)[0].split(". ", 1)[0][:_SUMMARY]


def _tokens(content: object) -> int:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return math.ceil(len(text.encode()) / _BYTES_PER_TOKEN)

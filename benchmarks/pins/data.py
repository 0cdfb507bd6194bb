"""Reading data sets: one JSON object a line, plain or compressed."""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.pins.releases import FOLDER as RELEASES

_MEMBERS = frozenset(
    {"name", "title", "description", "inputSchema", "outputSchema", "annotations"}
    | {"icons", "execution", "_meta"}
)
"""What of a row belongs to the tool; the rest is about the row."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A definition, and where it comes from."""

    server: str
    version: str
    definition: Mapping[str, Any]
    row: Mapping[str, Any]

    @property
    def seen(self) -> bool:
        """Whether an attack can be seen in the definition at all."""
        return bool(self.row.get("visible_in_manifest", True))

    @property
    def overt(self) -> bool:
        """Whether its name says what it is: a tool of attackers, and no trap for a model."""
        return "evals/remote" in str(self.row.get("source", ""))


def rows_of(folder: Path, name: str) -> list[dict[str, Any]] | None:
    """Return the rows of `NAME.jsonl` or `NAME.jsonl.gz` in `folder`; `None` if there is neither."""
    for path in (folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz"):
        if path.exists():
            raw = path.read_bytes()
            text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
            return [json.loads(line) for line in text.split("\n") if line.strip()]
    return None


def tools_of(rows: Sequence[Mapping[str, Any]]) -> list[Tool]:
    """Return the tools of `rows`, without members that their server does not show."""
    return [
        Tool(
            server=str(row.get("server", "")),
            version=str(row.get("version", "")),
            definition={
                name: row[name] for name in row if name in _MEMBERS and row[name] is not None
            },
            row=row,
        )
        for row in rows
    ]


def recorded_releases() -> dict[str, list[dict[str, Any]]]:
    """Return what each recorded release shows, oldest first, by server."""
    names = sorted(path.name.removesuffix(".jsonl.gz") for path in RELEASES.glob("*.jsonl.gz"))
    return {name: rows_of(RELEASES, name) or [] for name in names}


def recorded_tools() -> list[Tool]:
    """Return the tools of the newest release of every recorded server."""
    rows = [
        {"server": server, "version": releases[-1]["version"], **tool}
        for server, releases in recorded_releases().items()
        for tool in releases[-1]["shows"].get("tool", ())
    ]
    return tools_of(rows)

"""What the report is made of: each part can be run by itself, and is kept until something differs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import FOLDER, commit


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one part has come to."""

    name: str
    figures: Mapping[str, float]
    failures: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Parts that were run, of this commit and as they are to be run now."""

    plan: Mapping[str, Any]
    folder: Path = FOLDER / "planes"

    def find(self, name: str) -> Part | None:
        """Return what part `name` came to, unless something may differ: files beside the commit do."""
        try:
            found = json.loads(self._path(name).read_text())
        except (OSError, ValueError):
            return None
        if found["of"] != self._of() or found["of"]["commit"].endswith("-dirty"):
            return None
        return Part(**found["part"])

    def keep(self, part: Part) -> None:
        """Keep what a part has come to."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._path(part.name).write_text(json.dumps({"of": self._of(), "part": asdict(part)}))

    def forget(self) -> None:
        """Have every part run again."""
        for path in self.folder.glob("*.json"):
            path.unlink()

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _of(self) -> Mapping[str, Any]:
        return {"commit": commit(), **self.plan}

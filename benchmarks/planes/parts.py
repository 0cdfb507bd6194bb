"""What the report is made of: each part can be run by itself, and is kept until something differs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import FOLDER, commit

_BEGUN = ".begun"


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
        found = self._read(name)
        return None if found is None else Part(**found)

    def keep(self, part: Part) -> None:
        """Keep what a part has come to; that it was begun counts no more."""
        self._write(part.name, asdict(part))
        self._path(f"{part.name}{_BEGUN}").unlink(missing_ok=True)

    def begun(self, name: str) -> Mapping[str, Any] | None:
        """Return what was kept of part `name` as it was ended, on the terms of `find`."""
        return self._read(f"{name}{_BEGUN}")

    def begin(self, name: str, content: Mapping[str, Any]) -> None:
        """Keep how far part `name` has come."""
        self._write(f"{name}{_BEGUN}", content)

    def forget(self, *names: str) -> None:
        """Have these parts run again from their beginning; every part, if none is named."""
        paths = [self._path(f"{name}{end}") for name in names for end in ("", _BEGUN)]
        for path in paths or self.folder.glob("*.json"):
            path.unlink(missing_ok=True)

    def _read(self, name: str) -> Mapping[str, Any] | None:
        try:
            found: Mapping[str, Any] = json.loads(self._path(name).read_text())
        except (OSError, ValueError):
            return None
        if found["of"] != self._of() or found["of"]["commit"].endswith("-dirty"):
            return None
        part: Mapping[str, Any] = found["part"]
        return part

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write it whole or not at all: whoever ends the report may do so now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(name)
        written = path.with_suffix(".new")
        written.write_text(json.dumps({"of": self._of(), "part": content}))
        written.replace(path)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _of(self) -> Mapping[str, Any]:
        return {"commit": commit(), **self.plan}

"""Texts with and without sensitive data, each with what stands in it."""

import ast
import gzip
import json
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.flow.traces import read_suite, trace_files
from benchmarks.report import ROOT

_HERE = Path(__file__).parent / "corpora"
_PACKAGES = ROOT / "tests" / "node" / "node_modules"
_SHORTEST = 40
"""Characters: what is shorter says nothing."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text, and where what is of which class stands in it (characters)."""

    text: str
    kind: str
    spans: tuple[tuple[str, int, int], ...] = ()


def secrets() -> Iterator[Text]:
    """Yield samples of credentials, and near misses, which have no spans."""
    for row in _rows(_HERE / "secrets.jsonl.gz"):
        text, secret = row["text"], row["secret"]
        spans: tuple[tuple[str, int, int], ...] = ()
        if isinstance(secret, str) and (at := text.find(secret)) >= 0:
            spans = (("credential", at, at + len(secret)),)
        elif secret:
            spans = (("credential", 0, len(text)),)
        yield Text(text=text, kind=row["rule"], spans=spans)


def sentences() -> Iterator[Text]:
    """Yield sentences of people's, with what stands in them."""
    for row in _rows(_HERE / "sentences.jsonl.gz"):
        spans = tuple((of, start, end) for of, start, end in row["spans"])
        yield Text(text=row["text"], kind="sentence", spans=spans)


def benign(folders: list[Path]) -> Iterator[Text]:
    """Yield texts that hold nobody's data: of installed packages, and tool results in `folders`."""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if "test" not in path.parts and "tests" not in path.parts:
            yield from (Text(text=text, kind="docstrings") for text in _docstrings(path))
    for path in sorted(_PACKAGES.rglob("*.md")):
        for part in path.read_text(errors="replace").split("\n\n"):
            if len(part) > _SHORTEST:
                yield Text(text=part, kind="readmes")
    for folder in folders:
        for name, path in trace_files(folder).items():
            if name.endswith(".b64"):
                continue
            seen = {json.dumps(s.result) for t in read_suite(name, path).traces for s in t.steps}
            yield from (Text(text=text, kind="tool results") for text in sorted(seen))


def _docstrings(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_text(errors="replace"))
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = ast.get_docstring(node)
            if found and len(found) > _SHORTEST:
                yield found


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") as lines:
        yield from map(json.loads, lines)

"""Reading the project's pages: what they say in tables, links, code spans and blocks."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests import forks

ROOT = Path(__file__).resolve().parents[2]

PAGES = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md")),
    ]
)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_TEST = re.compile(r"([\w/]+\.py)::(test_\w+)")
_CELLS = re.compile(r"(?<!\\)\|")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """Return the page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks in `language`."""
    return [body for found, body in _FENCE.findall(page.read_text("utf-8")) if found == language]


def spans(text: str) -> list[str]:
    """Return every code span."""
    return _SPAN.findall(text)


def rows(page: Path, first_header: str) -> Iterator[dict[str, str]]:
    """Yield the rows of every table whose first column is called `first_header`."""
    header: list[str] | None = None
    for line in prose(page).splitlines():
        if not line.startswith("|"):
            header = None
            continue
        cells = [cell.strip() for cell in _CELLS.split(line)[1:-1]]
        if header is None:
            header = cells
        elif header[0] == first_header and set(line) - set("|-: "):
            assert len(cells) == len(header), f"{name_of(page)}: {line}"
            yield dict(zip(header, cells, strict=True))


def anchors(page: Path) -> set[str]:
    """Return the names that headings get, as GitHub makes them."""
    titles = re.findall(r"(?m)^#{1,6} (.+)$", prose(page))
    plain = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    return set(plain)


def named_tests(text: str) -> list[tuple[str, str]]:
    """Return every `path::name` in code spans, with the path below `tests`."""
    named = [(span, _TEST.fullmatch(span)) for span in spans(text) if "::" in span]
    assert [span for span, found in named if found is None] == []
    return [(found[1], found[2]) for _, found in named if found is not None]


_FUNCTION = re.compile(r"(?m)^ *(?:async )?def (\w+)\(")
"""To parse each file takes ten times as long."""


def absent_tests(page: Path) -> list[str]:
    """Return the tests that a page names and that are not there."""
    named = sorted(set(named_tests(prose(page))))
    there = {path: names_of_tests(ROOT / "tests" / path) for path, _ in named}
    return [f"{path}::{name}" for path, name in named if name not in there[path]]


def names_of_tests(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    return set(_FUNCTION.findall(path.read_text(encoding="utf-8")))


def run(block: str, *, folder: Path, timeout: float = 240) -> "subprocess.CompletedProcess[str]":
    """Run the commands of a block in a shell, for the demo that runs in `folder`.

    Ours are forked from what has loaded them, as every program of a test is.
    """
    for written, module in (
        (".venv/bin/douane", "gateway.cli"),
        (".venv/bin/python -m tests.demo.client", "tests.demo.client"),
    ):
        block = block.replace(written, shlex.join(map(str, forks.program(module))))
    return subprocess.run(
        ["bash", "-ec", block],  # a loop ends well only if all in it does
        cwd=ROOT,
        env={**os.environ, "DOUANE_DEMO": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )

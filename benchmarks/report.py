"""What every report writes: figures as JSON, and a table and a last line for people."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "var" / "reports"


def print_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print `rows` below `heads`: the first column to the left, the others to the right."""
    cells = [list(heads), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        first, *others = zip(line, widths, strict=True)
        rest = (text.rjust(width) for text, width in others)
        print("  ".join((first[0].ljust(first[1]), *rest)).rstrip())
    print()


def write_report(
    name: str,
    figures: Mapping[str, float],
    failures: Sequence[str],
    limits: Sequence[str],
    *,
    summary: str,
    folder: Path = FOLDER,
) -> int:
    """Write `folder/NAME.json`, say what failed, and return the exit status: 1 if anything did.

    `figures` are what was measured, `failures` what a figure promised and did not keep, `limits`
    what the figures do not show. `summary` is one line, and the last that is printed.
    """
    report = {
        "name": name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": _machine(),
        "figures": dict(figures),
        "failures": list(failures),
        "limits": list(limits),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(report, indent=2) + "\n")
    for limit in limits:
        print(f"limit: {limit}")
    for failure in failures:
        print(f"FAILED: {failure}")
    print(f"{name}: {summary}")
    return 1 if failures else 0


def commit() -> str:
    """Return what is checked out, marked where files differ from it; empty outside of git."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def _machine() -> str:
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}"
    )

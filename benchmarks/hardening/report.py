"""`make hardening-report`: what a hostile caller can take of the machine."""

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.hardening import hour, turns, whole
from benchmarks.hardening.parts import Part
from benchmarks.report import ROOT, print_table, write_report

FOLDER = ROOT / "var" / "hardening"
PARTS: Sequence[Callable[[Path], Part]] = (hour.figures, turns.figures, whole.figures)
"""Each is given a folder of its own, which is empty."""


def main() -> int:
    """Print and write the figures; return 1 if a promise was not kept."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    found = []
    for number, part in enumerate(PARTS):
        folder = FOLDER / str(number)
        folder.mkdir(parents=True)
        found.append(part(folder))
        print_table((found[-1].title, ""), found[-1].rows)
    return write_report(
        "hardening",
        {key: figure for part in found for key, figure in part.figures.items()},
        [failure for part in found for failure in part.failures],
        [limit for part in found for limit in part.limits],
        summary="; ".join(part.summary for part in found),
    )


if __name__ == "__main__":
    sys.exit(main())

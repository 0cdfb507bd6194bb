"""The checklist of what an authorization server must refuse, and the tests that hold each point."""

import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from benchmarks.report import ROOT

FILE = Path(__file__).parent / "checklist.toml"


@dataclass(frozen=True, kw_only=True)
class Point:
    """One thing that must hold."""

    name: str
    must: str
    refuses: tuple[str, ...] = ()
    """Tests whose every case is an attack or a mistake: `tests/room/test_file.py::test_name`."""
    shows: tuple[str, ...] = ()
    """Tests of what must work, or be there."""

    @property
    def tests(self) -> tuple[str, ...]:
        return self.refuses + self.shows


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How many cases of each test passed and failed."""

    passed: "Counter[str]" = field(default_factory=Counter)
    failed: "Counter[str]" = field(default_factory=Counter)

    def holds(self, point: Point) -> bool:
        """Whether every test of `point` ran, and none failed."""
        return all(self.passed[test] and not self.failed[test] for test in point.tests)

    def refused(self, wanted: "Sequence[Point]") -> tuple[int, int]:
        """Return how many attacks were refused, and how many were not."""
        tests = {test for point in wanted for test in point.refuses}
        return sum(self.passed[test] for test in tests), sum(self.failed[test] for test in tests)


def points() -> Sequence[Point]:
    """Return the checklist."""
    found: Mapping[str, Mapping[str, Any]] = tomllib.loads(FILE.read_text())
    return [
        Point(
            name=name,
            must=point["must"],
            refuses=tuple(point.get("refuses", ())),
            shows=tuple(point.get("shows", ())),
        )
        for name, point in found.items()
    ]


def run(wanted: Sequence[Point], folder: Path) -> Outcome:
    """Run every test that `wanted` names; what pytest reports is kept in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "checklist.xml"
    report.unlink(missing_ok=True)
    tests = sorted({test for point in wanted for test in point.tests})
    with (folder / "checklist.txt").open("wb") as output:
        subprocess.run(
            [sys.executable, "-m", "pytest", "--workers", "2", f"--junitxml={report}", *tests],
            cwd=ROOT,
            stdout=output,
            stderr=output,
            check=False,
            timeout=1800,
        )
    return read(report)


def read(report: Path) -> Outcome:
    """Return what a JUnit report says; nothing where there is none, so that nothing holds."""
    outcome = Outcome()
    if not report.exists():
        return outcome
    for case in ET.parse(report).iter("testcase"):
        file = case.attrib["classname"].replace(".", "/")
        test = f"{file}.py::{case.attrib['name'].partition('[')[0]}"
        # A test that was skipped has shown nothing.
        bad = any(case.find(kind) is not None for kind in ("failure", "error", "skipped"))
        (outcome.failed if bad else outcome.passed)[test] += 1
    return outcome

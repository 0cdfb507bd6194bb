"""The public suite as a child process, and what it found."""

import json
import platform
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.report import ROOT

MODULES = ROOT / "tests" / "node" / "node_modules"
SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
_ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}
_RESULT = re.compile(r"(?:(?:authorization-)?server-)?(.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z")


class SuiteFailed(Exception):
    """The suite did not run to its end; the text ends with what it printed."""


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One revision, and the scenarios that the suite holds a server of it to."""

    name: str
    arguments: tuple[str, ...]


REVISIONS = (
    # The suite keeps lists of what a revision requires from the next one on.
    Revision(name="2025-06-18", arguments=("--suite", "all", "--spec-version", "2025-06-18")),
    Revision(name="2025-11-25", arguments=("--requirements", "2025-11-25")),
    Revision(name="2026-07-28", arguments=("--requirements", "2026-07-28")),
)

Scenario: TypeAlias = "Counter[tuple[str, str, str]]"
"""How often each check, by id, name and status, was reported."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """What one run found."""

    scenarios: Mapping[str, Scenario]
    conforms: bool
    """Whether everything passed that the suite scores; extensions it only reports."""

    @property
    def passed(self) -> int:
        return _count(self.scenarios.values(), "SUCCESS")

    @property
    def failed(self) -> int:
        return _count(self.scenarios.values(), "FAILURE")

    def of(self, scenario: str) -> tuple[int, int]:
        """Return how many checks of `scenario` passed and failed."""
        checks = self.scenarios.get(scenario, Counter())
        return _count([checks], "SUCCESS"), _count([checks], "FAILURE")

    def differing(self, other: "Score") -> list[str]:
        """Return the scenarios of either in which any check ended otherwise."""
        names = sorted(self.scenarios.keys() | other.scenarios.keys())
        return [name for name in names if self.scenarios.get(name) != other.scenarios.get(name)]


def run_suite(url: str, arguments: Sequence[str], folder: Path) -> Score:
    """Run the suite at `url`; what it writes is kept in `folder`, which must not exist yet.

    Raises:
        SuiteFailed: It is not installed, or did not run to its end.

    """
    folder.mkdir(parents=True)
    command = [*suite_command(), "server", "--url", url, *arguments, "-o", str(folder)]
    with (folder / "output.txt").open("w+b") as output:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
            timeout=600,
        )
    return score_of(folder, conforms=done.returncode == 0)


def score_of(folder: Path, *, conforms: bool) -> Score:
    """Return what the suite wrote into `folder`; what it printed is in `output.txt` there.

    Raises:
        SuiteFailed: It wrote nothing.

    """
    scenarios = scenarios_in(folder)
    if not scenarios:
        raise SuiteFailed((folder / "output.txt").read_text(errors="replace")[-4000:])
    return Score(scenarios=scenarios, conforms=conforms)


def scenarios_in(folder: Path) -> Mapping[str, Scenario]:
    """Return what the suite wrote into `folder`, by scenario."""
    return {name: checks for file in folder.iterdir() for name, checks in _read(file)}


def _count(scenarios: Iterable[Scenario], wanted: str) -> int:
    return sum(
        times
        for checks in scenarios
        for (_, _, status), times in checks.items()
        if status == wanted
    )


def _read(folder: Path) -> Sequence[tuple[str, Scenario]]:
    """Return the scenario whose results are in `folder`, if any are."""
    found = _RESULT.fullmatch(folder.name)
    checks = folder / "checks.json"
    if found is None or not checks.exists():
        return ()
    rows: list[dict[str, Any]] = json.loads(checks.read_bytes())
    # Remarks (INFO) hold ids and times of the day, and judge nothing.
    judged = (row for row in rows if row["status"] != "INFO")
    return ((found[1], Counter((row["id"], row["name"], row["status"]) for row in judged)),)


def suite_command() -> Sequence[str]:
    """Return what runs the suite: with the Node.js beside it, for many systems' is too old.

    Raises:
        SuiteFailed: It is not installed.

    """
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    installed = MODULES / f"node-{platform.system().lower()}-{architecture}" / "bin" / "node"
    node = str(installed) if installed.exists() else shutil.which("node")
    if node is None or not SUITE.exists():
        raise SuiteFailed("the suite is not installed; `make setup` installs it")
    return node, str(SUITE)

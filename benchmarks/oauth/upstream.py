"""The public suite's scenarios for clients: the gateway is one, towards its upstreams."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from benchmarks.conformance.suite import SUITE, Score, SuiteFailed, scenarios_in, suite_command
from benchmarks.report import ROOT

REVISION = "2026-07-28"
_REQUIRED = SUITE.parents[1] / "requirements" / f"{REVISION}.yaml"
_CLIENT = shlex.join((sys.executable, "-m", "tests.conformance.upstream_client"))


def scenarios() -> Sequence[str]:
    """Return what the revision requires of a client's sign-in.

    Raises:
        SuiteFailed: The suite is not installed.

    """
    if not _REQUIRED.exists():
        raise SuiteFailed("the suite is not installed; `make setup` installs it")
    named = yaml.safe_load(_REQUIRED.read_text())["client"]
    return [name for name in named if name.startswith("auth/")]


def judge(name: str, folder: Path) -> Score:
    """Run one scenario with a client of its own; what the suite writes is kept in `folder`."""
    place = folder / name
    (place / "auth").mkdir(parents=True)
    status = _run(name, place)
    return Score(scenarios=scenarios_in(place / "auth"), conforms=status == 0)


def _run(name: str, place: Path) -> int:
    command = [*suite_command(), "client", "--command", _CLIENT, "--scenario", name]
    with (place / "output.txt").open("wb") as output:
        done = subprocess.run(
            [*command, "--spec-version", REVISION, "-o", str(place)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
            timeout=120,
        )
    return done.returncode

"""The public suite finds nothing wrong with how the gateway gets its tokens for upstreams."""

import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from benchmarks.conformance.suite import SUITE, suite_command
from benchmarks.report import ROOT
from tests import forks
from tests.cases import sampled

REVISIONS = ("2025-11-25", "2026-07-28")
REQUIREMENTS = SUITE.parents[1] / "requirements"


EXTENSIONS = ("auth/dpop", "auth/dpop-nonce")
"""Of the suite's scenarios of no revision those that we have."""
STAND_FOR_OTHERS = {
    ("2025-11-25", "auth/basic-cimd"),
    ("2026-07-28", "auth/iss-wrong-issuer"),
}


def required() -> list[tuple[str, str]]:
    """Return every revision and scenario that the suite requires of a client about sign-in."""
    if not REQUIREMENTS.exists():
        return []
    return [
        (revision, scenario)
        for revision in REVISIONS
        for scenario in yaml.safe_load((REQUIREMENTS / f"{revision}.yaml").read_text())["client"]
        if scenario.startswith("auth/")
    ]


def test_there_is_something_to_hold_the_gateway_to():
    assert [len([1 for found, _ in required() if found == one]) for one in REVISIONS] == [14, 25]
    assert set(required()) > STAND_FOR_OTHERS


@pytest.mark.parametrize(
    ("revision", "scenario"), sampled(required(), STAND_FOR_OTHERS.__contains__)
)
def test_the_gateway_gets_its_tokens_as_the_suite_requires(
    revision: str, scenario: str, tmp_path: Path
):
    require_passed(scenario, "--spec-version", revision, "-o", str(tmp_path))


@pytest.mark.parametrize("scenario", EXTENSIONS)
def test_the_gateway_holds_keys_as_the_suite_requires(scenario: str, tmp_path: Path):
    require_passed(scenario, "--force", "-o", str(tmp_path))


def require_passed(scenario: str, *arguments: str) -> None:
    """Have the suite judge the gateway as a client."""
    client = shlex.join(map(str, forks.program("tests.conformance.upstream_client")))
    done = subprocess.run(
        [
            *suite_command(),
            "client",
            *("--command", client, "--scenario", scenario, "--timeout", "80000"),
            *arguments,
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert ", 0 failed, 0 warnings" in done.stdout + done.stderr

"""The public suite finds no difference between a server and the gateway in front of it."""

from pathlib import Path

import pytest

from benchmarks.conformance.report import Front, Pair, judge, judge_front, proof_of_work
from benchmarks.conformance.stage import Stage, stage
from benchmarks.conformance.suite import REVISIONS, Revision

TOTALS = {"2025-11-25": (84, 0), "2026-07-28": (196, 0)}
"""Checks that the fixture passes and fails, those of tasks among them, which are an extension."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("in_front", [False, pytest.param(True, marks=pytest.mark.full)])
def test_the_suite_judges_the_gateway_as_it_judges_the_server(
    tmp_path_factory: pytest.TempPathFactory, in_front: bool
):
    folder = tmp_path_factory.mktemp("suite")  # short, for the path of a socket ends in it
    with stage(folder) as on:
        pairs = [_judged(on, r, folder / r.name) for r in REVISIONS if r.name in TOTALS]
        fronts = [
            _judged_in_front(on, pair, revision, folder / revision.name)
            for pair in pairs
            for revision in REVISIONS
            if in_front and revision.name == pair.revision
        ]
        figures, failures = proof_of_work(on.gateway)
    assert [failure for pair in pairs for failure in pair.failures] == []
    assert {p.revision: (p.direct.passed, p.direct.failed) for p in pairs} == TOTALS
    assert {p.revision: (p.through.passed, p.through.failed) for p in pairs} == TOTALS
    assert [failure for front in fronts for failure in front.failures] == []
    found = {f.revision: (f.front.passed, f.front.failed) for f in fronts}
    assert found == (TOTALS if in_front else {})
    assert failures == []
    assert figures["audit.passed"] > 200


def _judged(on: Stage, revision: Revision, folder: Path) -> Pair:
    """Judge once more where there is a difference: the suite waits for half a second at most, and
    that a machine is busy with other tests is no difference.
    """
    pair = judge(on, revision, folder / "once")
    return judge(on, revision, folder / "again") if pair.failures else pair


def _judged_in_front(on: Stage, pair: Pair, revision: Revision, folder: Path) -> Front:
    """Likewise: of a list that changed it waits for a second and a half to be told."""
    front = judge_front(on, pair, revision, folder / "once")
    return judge_front(on, pair, revision, folder / "again") if front.failures else front

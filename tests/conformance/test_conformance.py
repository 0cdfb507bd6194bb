"""The public suite finds no difference between a server and the gateway in front of it."""

from pathlib import Path

import pytest

from benchmarks.conformance.report import Front, Pair, judge, judge_front, proof_of_work
from benchmarks.conformance.stage import Stage, stage
from benchmarks.conformance.suite import REVISIONS, Revision, run_suite

TOTALS = {"2025-11-25": (84, 0), "2026-07-28": (196, 0)}
"""Checks that the fixture passes and fails, those of tasks among them, which are an extension."""
_REVISIONS = [revision for revision in REVISIONS if revision.name in TOTALS]


@pytest.mark.timeout(300)
def test_the_suite_judges_the_gateway_as_it_judges_the_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """How it judges the server is written down; a full run has it say so itself."""
    folder = tmp_path_factory.mktemp("suite")  # short, for the path of a socket ends in it
    with stage(folder) as on:
        found = {r.name: _found(on, r, folder / r.name) for r in _REVISIONS}
        figures, failures = proof_of_work(on.gateway)
    assert found == TOTALS
    assert failures == []
    assert figures["audit.passed"] > 200


@pytest.mark.full
@pytest.mark.timeout(300)
def test_nor_does_it_find_a_difference_in_front_of_all_servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("suite")
    with stage(folder) as on:
        pairs = [_judged(on, r, folder / r.name) for r in _REVISIONS]
        fronts = [
            _judged_in_front(on, pair, revision, folder / revision.name)
            for pair, revision in zip(pairs, _REVISIONS, strict=True)
        ]
        figures, failures = proof_of_work(on.gateway)
    assert [failure for pair in pairs for failure in pair.failures] == []
    assert {p.revision: (p.direct.passed, p.direct.failed) for p in pairs} == TOTALS
    assert {p.revision: (p.through.passed, p.through.failed) for p in pairs} == TOTALS
    assert [failure for front in fronts for failure in front.failures] == []
    assert {f.revision: (f.front.passed, f.front.failed) for f in fronts} == TOTALS
    assert failures == []
    assert figures["audit.passed"] > 200


def _found(on: Stage, revision: Revision, folder: Path) -> tuple[int, int]:
    """Return how many checks pass and fail, judged once more as `_judged` does."""
    ran = run_suite(on.through, revision.arguments, folder / "once")
    if (ran.passed, ran.failed) != TOTALS[revision.name]:
        ran = run_suite(on.through, revision.arguments, folder / "again")
    return ran.passed, ran.failed


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

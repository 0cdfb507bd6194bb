"""What a report writes, and what a difference looks like."""

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.conformance.report import Front, Pair
from benchmarks.conformance.suite import Score
from benchmarks.report import print_table, write_report

PASSED = ("ping", "Ping", "SUCCESS")
FAILED = ("ping", "Ping", "FAILURE")
WARNED = ("retry", "Retry", "WARNING")


def score(*, conforms: bool = True, **scenarios: list[tuple[str, str, str]]) -> Score:
    return Score(
        scenarios={name: Counter(checks) for name, checks in scenarios.items()}, conforms=conforms
    )


def test_a_report_holds_its_figures_and_ends_with_its_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    code = write_report("probe", {"a.b": 1}, [], ["a limit"], summary="all well", folder=tmp_path)
    assert code == 0
    report = json.loads((tmp_path / "probe.json").read_text())
    assert list(report) == ["name", "date", "commit", "machine", "figures", "failures", "limits"]
    assert (report["figures"], report["limits"]) == ({"a.b": 1}, ["a limit"])
    assert capsys.readouterr().out == "limit: a limit\nprobe: all well\n"


def test_a_figure_that_is_not_met_is_told_and_is_the_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert write_report("probe", {}, ["too slow"], [], summary="1 failure", folder=tmp_path) == 1
    assert capsys.readouterr().out == "FAILED: too slow\nprobe: 1 failure\n"


def test_a_table_is_aligned(capsys: pytest.CaptureFixture[str]):
    print_table(("name", "n"), [("a", 1), ("longer", 10)])
    assert capsys.readouterr().out == "name     n\na        1\nlonger  10\n\n"


def test_a_check_that_ends_otherwise_is_a_difference_although_nothing_failed():
    pair = Pair(
        revision="2025-11-25",
        direct=score(ping=[PASSED], polling=[PASSED]),
        through=score(ping=[PASSED], polling=[PASSED, WARNED]),
    )
    assert pair.failures == [
        "2025-11-25 polling: 1 passed, 0 failed directly, 1 passed, 0 failed through the gateway"
    ]


def test_a_scenario_that_did_not_run_is_a_difference():
    pair = Pair(revision="2025-11-25", direct=score(ping=[PASSED]), through=score())
    assert len(pair.failures) == 1


def test_a_server_that_fails_the_suite_just_as_directly_does_not_conform():
    failed = score(conforms=False, ping=[FAILED])
    pair = Pair(revision="2025-11-25", direct=failed, through=failed)
    assert pair.failures == ["2025-11-25: the suite does not pass through the gateway"]


def test_in_front_every_check_ends_as_directly():
    pair = Front(
        revision="2025-11-25", direct=score(ping=[PASSED, WARNED]), front=score(ping=[PASSED])
    )
    assert pair.failures == [
        "2025-11-25 ping: 1 passed, 0 failed directly, 1 passed, 0 failed in front of all servers"
    ]

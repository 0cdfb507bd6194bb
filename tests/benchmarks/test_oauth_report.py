"""The report on sign-in: what it promises, and what its checklist names."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.oauth import checklist, upstream
from benchmarks.oauth.report import ROUNDS, Findings, act_upstream, race, time_the_gate
from benchmarks.report import ROOT
from tests.docs import pages

REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.oauth.test_a" name="test_one[x]"/>
<testcase classname="tests.oauth.test_a" name="test_one[y]"/>
<testcase classname="tests.oauth.test_a" name="test_two"><failure/></testcase>
<testcase classname="tests.oauth.test_a" name="test_three"><skipped/></testcase>
</testsuite></testsuites>
"""


def point(*tests: str, shows: str = "test_one") -> checklist.Point:
    refuses = tuple(f"tests/oauth/test_a.py::{test}" for test in tests)
    return checklist.Point(
        name="1", must="", refuses=refuses, shows=(f"tests/oauth/test_a.py::{shows}",)
    )


def test_a_point_holds_if_every_case_of_its_tests_ran_and_passed(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    outcome = checklist.read(tmp_path / "report.xml")
    assert outcome.passed == Counter({"tests/oauth/test_a.py::test_one": 2})
    assert outcome.failed.total() == 2
    assert outcome.holds(point("test_one"))
    for tests in (["test_two"], ["test_three"], ["test_four"], ["test_one", "test_two"]):
        assert not outcome.holds(point(*tests))
    assert not outcome.holds(point("test_one", shows="test_two"))


def test_what_is_shown_is_no_attack_and_no_attack_counts_twice(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    outcome = checklist.read(tmp_path / "report.xml")
    wanted = [point("test_one"), point("test_one", "test_three"), point(shows="test_two")]
    assert outcome.refused(wanted) == (2, 1)


def test_without_a_report_nothing_holds(tmp_path: Path) -> None:
    assert not checklist.read(tmp_path / "none.xml").holds(point("test_one"))


def test_every_point_of_the_checklist_names_tests_that_exist() -> None:
    points = checklist.points()
    assert [point.name for point in points] == [str(number) for number in range(1, 47)]
    for point in points:
        assert point.tests, point
        for test in point.tests:
            file, _, name = test.partition("::")
            assert name in pages.names_of_tests(ROOT / file), test


def test_what_is_promised_and_not_kept_is_a_failure() -> None:
    findings = Findings()
    findings.say("kept", 1, promised=1)
    findings.stay_below("low", 1.5, bound=2)
    assert not findings.failures
    findings.say("missed", 0, promised=1)
    findings.stay_below("high", 2, bound=2)
    assert findings.failures == ["missed is 0, not 1", "high is 2, not below 2"]
    assert findings.figures == {"kept": 1, "low": 1.5, "missed": 0, "high": 2}


def test_the_races_run(tmp_path: Path) -> None:
    findings = Findings()
    race(tmp_path, 3, findings)
    assert findings.figures == {"race.rounds": 3, "race.code_winners": 3, "race.refresh_winners": 3}
    assert not findings.failures
    assert ROUNDS == 100


def test_the_stopwatch_runs(tmp_path: Path) -> None:
    findings = Findings()
    time_the_gate(tmp_path, 5, findings)
    assert set(findings.figures) == {"gate.warm_us", "gate.warm_ratio", "gate.signature_us"}


@pytest.mark.full
def test_the_gateway_is_a_client_that_the_suite_accepts(tmp_path: Path) -> None:
    findings = Findings()
    assert "auth/metadata-default" in upstream.scenarios()
    act_upstream(tmp_path, ["auth/metadata-default"], findings)
    assert findings.figures["conformance.client_auth_passed"] > 10
    assert not findings.failures

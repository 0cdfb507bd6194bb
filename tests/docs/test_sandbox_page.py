"""docs/sandbox.md says how much was tried: as much as the programs try."""

from benchmarks.flow.report import OWN
from benchmarks.flow.traces import read_suite, trace_files
from tests.docs.pages import ROOT, prose, rows
from tests.sandbox.escapes import ATTEMPTS

PAGE = ROOT / "docs" / "sandbox.md"
WORDS = " ".join(prose(PAGE).split())


def test_the_attempts_to_get_out_are_as_many_as_the_list_has() -> None:
    assert f"`make code-report` makes {len(ATTEMPTS)} attempts to get out" in WORDS


def test_what_is_played_as_programs_are_all_suites_and_the_plain_ones_again() -> None:
    suites = [read_suite(name, path) for name, path in trace_files(OWN).items()]
    played = [*suites, *(suite for suite in suites if not suite.is_encoded)]
    traces = [trace for suite in played for trace in suite.traces]
    calls = sum(len(trace.steps) for trace in traces)
    assert f"Of {calls:,} calls in {len(traces):,} traces" in WORDS


def test_the_targets_report_is_told_among_the_measurements() -> None:
    told = {
        row["target"]: row["report"] for row in rows(PAGE.with_name("measurements.md"), "target")
    }
    assert told["`make code-report`"] == "`code.json`"

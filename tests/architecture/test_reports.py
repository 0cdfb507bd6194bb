"""Whatever went wrong with a test is told by the worker that ran it, wherever it went wrong."""

from typing import Any

import pytest

from tests.reports import told

WELL = {"setup": "passed", "call": "passed", "teardown": "passed"}


def reported(**outcomes: Any) -> list[pytest.TestReport]:
    return [
        pytest.TestReport("a", ("a", 1, "a"), {}, outcome, None, when)  # type: ignore[arg-type]
        for when, outcome in outcomes.items()
    ]


@pytest.mark.parametrize(
    ("outcomes", "whens"),
    [
        (WELL, ["call"]),
        ({**WELL, "call": "failed"}, ["call"]),
        ({"setup": "failed", "teardown": "passed"}, ["setup"]),
        ({"setup": "skipped", "teardown": "passed"}, ["setup"]),
        ({**WELL, "teardown": "failed"}, ["call", "teardown"]),
        ({"setup": "failed", "teardown": "failed"}, ["setup", "teardown"]),
    ],
)
def test_all_is_told_but_that_nothing_was_wrong_around_it(
    outcomes: dict[str, str], whens: list[str]
) -> None:
    assert [report.when for report in told(reported(**outcomes))] == whens

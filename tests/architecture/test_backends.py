"""What a run over PostgreSQL leaves out is counted: it cannot come to be everything."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests import backends
from tests.backends import LEFT_OUT, MOST, Counted


def left_out(reason: str, number: int) -> Counted:
    counted = Counted()
    report: Any = SimpleNamespace(
        skipped=True, longrepr=("test.py", 1, f"Skipped: {LEFT_OUT}{reason}")
    )
    for _ in range(number):
        counted.pytest_runtest_logreport(report)
    return counted


@pytest.mark.parametrize("reason", MOST)
def test_a_run_that_leaves_out_more_than_it_may_fails(reason: str) -> None:
    session: Any = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    left_out(reason, MOST[reason]).pytest_sessionfinish(session)
    assert session.exitstatus == pytest.ExitCode.OK
    left_out(reason, MOST[reason] + 1).pytest_sessionfinish(session)
    assert session.exitstatus == pytest.ExitCode.TESTS_FAILED


def test_nothing_is_left_out_for_another_reason() -> None:
    assert left_out("it is slow there", 1).problems
    with pytest.raises(AssertionError):
        backends.only("it is slow there")


def test_what_is_skipped_elsewhere_is_not_counted() -> None:
    counted = Counted()
    reports: list[Any] = [
        SimpleNamespace(skipped=True, longrepr=("test.py", 1, "Skipped: no browser is installed")),
        SimpleNamespace(skipped=False, longrepr=""),
    ]
    for report in reports:
        counted.pytest_runtest_logreport(report)
    assert (counted.left_out, counted.problems) == ({}, [])

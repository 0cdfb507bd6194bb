"""What the report on programs promises is what it measures, and a promise that is not kept is told."""

from benchmarks.code.engines import VARIANTS
from benchmarks.code.report import MOST, failures_of


def test_promises_that_are_kept_are_no_failures() -> None:
    assert failures_of(MOST) == []


def test_each_promise_that_is_not_kept_is_told() -> None:
    figures = {name: most + 0.5 for name, most in MOST.items()}
    assert failures_of(figures) == [
        f"{name} is {most + 0.5}, at most {most} is promised" for name, most in MOST.items()
    ]


def test_promises_are_of_what_is_measured() -> None:
    parts = {name.partition(".")[0] for name in MOST}
    assert parts <= {*VARIANTS, "call", "escapes"}

"""What the report on programs promises is what it measures, and a promise that is not kept is told."""

from benchmarks.code.engines import VARIANTS
from benchmarks.code.parity import Parity
from benchmarks.code.report import LEAST, MOST, failures_of
from tests.demo.desk import Paid


def test_promises_that_are_kept_are_no_failures() -> None:
    assert failures_of(MOST | LEAST) == []


def test_each_promise_that_is_not_kept_is_told() -> None:
    too_much = {name: most + 0.5 for name, most in MOST.items()}
    too_little = {name: least - 0.5 for name, least in LEAST.items()}
    assert failures_of(too_much | too_little) == [
        *(f"{name} is {most + 0.5}, at most {most} is promised" for name, most in MOST.items()),
        *(
            f"{name} is {least - 0.5}, at least {least} is promised"
            for name, least in LEAST.items()
        ),
    ]


def test_promises_are_of_what_is_measured() -> None:
    parts = {name.partition(".")[0] for name in MOST}
    assert parts <= {*VARIANTS, "call", "escapes"}
    paid = Paid(direct=100, code=1)
    assert set(LEAST) <= {*Parity().figures, *paid.figures}
    assert paid.figures["tokens.saved"] == LEAST["tokens.saved"]

"""What the report on programs promises is what it measures, and a promise that is not kept is told."""

from benchmarks.code.engines import VARIANTS
from benchmarks.code.parity import Parity
from benchmarks.code.report import (
    BESIDE,
    CHOSEN,
    LEAST,
    MOST,
    NOISE,
    REFERENCE_MS,
    allowed,
    failures_of,
)
from tests.demo.desk import Paid

AS_CHOSEN = {
    f"{name}_in_process_starts": milliseconds / REFERENCE_MS
    for name, milliseconds in CHOSEN.items()
}
ALONE = {f"{name}_in_process_starts": 0.0 for name in BESIDE.values()}
COSTS = AS_CHOSEN | ALONE


def test_promises_that_are_kept_are_no_failures() -> None:
    assert failures_of(MOST | LEAST | COSTS) == []


def test_a_cost_that_has_grown_is_told() -> None:
    grown = {name: starts * 1.01 for name, starts in AS_CHOSEN.items()}
    told = failures_of(MOST | LEAST | COSTS | grown)
    assert [one.split()[0] for one in told] == list(CHOSEN)


def test_where_the_interpreter_alone_takes_more_a_run_may_take_as_much() -> None:
    name = "bare.cold"
    alone = {f"{BESIDE[name]}_in_process_starts": 10.0}
    assert allowed(COSTS | alone, name) == NOISE * 10.0
    grown = {f"{name}_in_process_starts": NOISE * 10.0}
    assert failures_of(MOST | LEAST | COSTS | alone | grown) == []


def test_each_promise_that_is_not_kept_is_told() -> None:
    too_much = {name: most + 0.5 for name, most in MOST.items()}
    too_little = {name: least - 0.5 for name, least in LEAST.items()}
    assert failures_of(too_much | too_little | COSTS) == [
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

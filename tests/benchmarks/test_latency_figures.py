"""What becomes of measured windows: medians, comparisons, promises."""

from dataclasses import replace

import pytest

from benchmarks.latency.figures import PROMISES, compare, correctness, judge, row
from benchmarks.latency.load import Window
from benchmarks.latency.report import Measured, figures_of, limits_of, unrecorded

WINDOW = Window(
    calls=1000,
    duration_s=1.0,
    p50_us=100,
    p95_us=150,
    p99_us=200,
    wrong=0,
    errors=0,
    cpu_s=0.1,
    children_cpu_s=0.02,
    upstream_cpu_s=0.01,
    foreign_cpu=0.01,
    example="",
)
KEPT = {
    "process.c1.added_p50_x_nginx": 10,
    "process.c16.calls_x_fastmcp": 6,
    "power.c16.calls_x_fastmcp": 3,
}


def measured(foreign_cpu: float = 0.01) -> Measured:
    """One round of some targets over one connection; the slow ones are FastMCP's."""
    fast = replace(WINDOW, p50_us=350, p99_us=600, calls=800, foreign_cpu=foreign_cpu)
    slow = replace(WINDOW, p50_us=1000, p99_us=2000, calls=100)
    found = Measured(fsyncs_us=[50.0])
    for name, window in (
        ("direct", WINDOW),
        ("nginx", replace(WINDOW, p50_us=150, p99_us=300)),
        ("fastmcp-fresh", replace(slow, calls=1)),
        ("fastmcp-shared", slow),
        ("fastmcp-shared-sessions", replace(slow, calls=400)),
        ("process", fast),
        ("process-sessions", fast),
    ):
        found.windows[name, 1].append(window)
        found.warm_up[name] = WINDOW
    found.records["process"] = {"intent": 1801, "outcome": 1800}
    return found


def test_a_row_is_the_median_of_its_rounds_and_the_sum_of_what_went_wrong():
    rounds = [
        replace(WINDOW, p50_us=p50, p95_us=p50 + 1, p99_us=p50 + 2, calls=calls, wrong=1, errors=2)
        for p50, calls in ((10, 1000), (30, 3000), (20, 2000))
    ]
    found = row("process", 16, rounds)
    assert found.figures == {
        "process.c16.calls_per_s": 2000,
        "process.c16.p50_us": 20,
        "process.c16.p95_us": 21,
        "process.c16.p99_us": 22,
        "process.c16.cpu_us_per_call": 50,
        "process.c16.children_cpu_us_per_call": 10,
        "process.c16.upstream_cpu_us_per_call": 5,
        "process.c16.wrong": 3,
        "process.c16.errors": 6,
    }
    assert found.calls == 6000


def test_a_row_is_compared_with_those_of_the_same_number_of_connections():
    (compared,) = measured().comparisons()
    by_name = {one.row.name: one for one in compared}
    assert by_name["process"].figures == {
        "process.c1.added_p50_us": 250,
        "process.c1.added_p50_x_nginx": 5,
        "process.c1.calls_x_fastmcp": 8,
        "process.c1.p99_x_nginx": 2,
        "process.c1.added_p50_x_fsync": 5,
    }
    assert by_name["process-sessions"].calls_x_fastmcp == 2  # beside the same era's


def test_answers_of_one_shape_are_compared_with_each_other():
    found = measured()
    for name, calls in (("direct", 50), ("nginx", 40), ("fastmcp-shared", 10), ("process", 20)):
        found.windows[f"{name}@64k", 1].append(replace(WINDOW, calls=calls))
    small, large = found.comparisons()
    assert {one.row.shape for one in small} == {""}
    by_name = {one.row.name: one for one in large}
    assert by_name["process@64k"].calls_x_fastmcp == 2
    assert by_name["process@64k"].row.key == "process@64k.c1"


def test_a_proxy_that_seems_to_add_nothing_divides_nothing_by_zero():
    rows = [row(name, 1, [WINDOW]) for name in ("direct", "nginx", "fastmcp-shared")]
    assert compare(rows, 50.0)[1].added_p50_x_nginx == 0


def test_what_is_promised_and_kept_is_no_failure():
    assert judge(KEPT, 0.15) == []


@pytest.mark.parametrize(
    ("figure", "found", "failure"),
    [
        ("process.c1.added_p50_x_nginx", 10.1, "10.1, promised at most 10"),
        ("process.c16.calls_x_fastmcp", 5.9, "5.9, promised at least 6"),
        ("power.c16.calls_x_fastmcp", 2.9, "2.9, promised at least 3"),
    ],
)
def test_what_is_promised_and_not_kept_is_a_failure(figure: str, found: float, failure: str):
    assert judge({**KEPT, figure: found}, 0.0) == [f"{figure}: {failure}"]


def test_what_is_promised_and_not_measured_is_a_failure():
    assert [failure.split(",")[0] for failure in judge({}, 0.0)] == [
        f"{promise.figure}: not measured" for promise in PROMISES
    ]


def test_a_busy_machine_judges_nothing_and_says_so():
    found = measured(foreign_cpu=0.9)
    used = "other processes used 26% of the CPU time"
    assert judge(KEPT, found.foreign_cpu) == [
        f"nothing is judged: {used}, and above 15% figures say too little"
    ]
    assert limits_of(found)[-1].endswith("too much, above 15% nothing is judged")
    assert figures_of(found)["judged"] == 0
    assert figures_of(measured())["judged"] == 1


def test_wrong_answers_errors_and_silence_are_failures():
    rows = [
        row("nginx", 1, [WINDOW]),
        row("process", 1, [replace(WINDOW, wrong=2)]),
        row("power", 1, [replace(WINDOW, errors=1)]),
        row("fastmcp", 1, [replace(WINDOW, calls=0)]),
    ]
    assert correctness(rows) == [
        "process.c1: 2 wrong answers and 0 errors in 1000 calls",
        "power.c1: 0 wrong answers and 1 errors in 1000 calls",
        "fastmcp.c1: 0 wrong answers and 0 errors in 0 calls",
    ]


@pytest.mark.parametrize("kind", ["intent", "outcome"])
def test_a_call_without_both_records_is_a_failure(kind: str):
    found = measured()
    assert unrecorded(found) == []
    found.records["process"] = {**found.records["process"], kind: 1799}
    assert unrecorded(found) == [f"process: 1799 {kind} records of 1800 calls"]

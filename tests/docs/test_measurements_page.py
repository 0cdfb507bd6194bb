"""docs/measurements.md tells the methods that the programs have, and figures that tests repeat."""

from benchmarks.durability import kills, report
from benchmarks.latency.figures import BUSIEST, PROMISES
from benchmarks.latency.report import Plan
from benchmarks.latency.targets import VARIANTS
from benchmarks.oauth import checklist
from benchmarks.oauth import report as oauth
from tests.conformance.test_conformance import TOTALS
from tests.docs.pages import ROOT, prose, rows

PAGE = ROOT / "docs" / "measurements.md"
WORDS = " ".join(prose(PAGE).split())


def test_the_conformance_figures_are_those_that_a_test_wants() -> None:
    told = {row["revision"].strip("`"): row for row in rows(PAGE, "revision")}
    for row in told.values():
        assert row["checks directly"] == row["checks through the gateway"]
        assert row["scenarios that differ"] == "0"
    wanted = {
        name: f"{passed} passed, {failed} failed" for name, (passed, failed) in TOTALS.items()
    }
    assert {name: told[name]["checks directly"] for name in TOTALS} == wanted


def test_the_figures_in_front_of_all_servers_are_those_that_a_test_wants() -> None:
    told = {row["at `/mcp`"].strip("`"): row for row in rows(PAGE, "at `/mcp`")}
    found = {name: (int(row["passed"]), int(row["failed"])) for name, row in told.items()}
    assert {name: found[name] for name in TOTALS} == TOTALS
    assert {row["scenarios that differ"] for row in told.values()} == {"0"}


def test_the_suite_is_the_installed_one() -> None:
    package = (ROOT / "tests" / "node" / "package.json").read_text()
    version = package.partition('"@modelcontextprotocol/conformance": "')[2].partition('"')[0]
    assert f"`@modelcontextprotocol/conformance` {version}" in WORDS


def test_every_variant_of_the_gateway_is_told() -> None:
    told = [row["variant"].strip("`") for row in rows(PAGE, "variant")]
    assert told == [variant.name for variant in VARIANTS]


def test_the_plan_and_the_promises_are_the_programs() -> None:
    plan = Plan()
    assert plan.connections == (1, 16, 64)
    assert "over 1, 16 and 64 connections" in WORDS
    assert (plan.rounds, plan.seconds) == (5, 3)
    assert "Five rounds of three seconds each" in WORDS
    bounds = [promise.most if promise.least == 0 else promise.least for promise in PROMISES]
    assert bounds == [10, 6, 3]
    assert "at most 10 times what nginx adds (`process`)" in WORDS
    times = (
        "at least 6 times the calls of FastMCP's fastest form (`process`), and 3 times (`power`)"
    )
    assert times in WORDS
    assert f"more than {BUSIEST * 100:g} %" in WORDS


def test_the_crashes_are_as_many_as_the_program_makes() -> None:
    assert f"{kills.CLIENTS} clients that call without a pause" in WORDS
    fewest, most = kills.ANSWERS
    assert f"a random number of them, between {fewest} and {most}, is answered" in WORDS
    assert f"on the same data directory: {report.KILLS} times" in WORDS
    assert f"at {report.CUTS:,} moments" in WORDS


def test_the_promises_of_sign_in_are_the_programs() -> None:
    told = {row["promise"]: row["bound"] for row in rows(PAGE, "promise")}
    assert told["each client signs in, refreshes and steps up"] == f"{len(oauth.CLIENTS)} of 7"
    assert [name for name in oauth.CLIENTS if f"`{name}`" not in WORDS] == []
    points = len(checklist.points())
    held = told["points of the checklist that are held, each with named tests"]
    assert held == f"{points} of {points}"
    assert f"in each of {oauth.ROUNDS} rounds of two processes" in WORDS
    check = told["the check of a token that was seen before"]
    assert check.startswith(f"below {oauth.WARM_US:g} us, and below {oauth.WARM_RATIO:g} of")

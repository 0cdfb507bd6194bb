"""The suites that no rule was made on are played beside the others, and count apart from them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.flow import report
from benchmarks.flow.outcome import Outcome
from benchmarks.flow.promises import broken
from benchmarks.flow.report import OWN, Findings, Options, main
from benchmarks.flow.suites.honest import suite_names
from benchmarks.flow.traces import Step, Suite, Trace
from benchmarks.flow.unseen import CHOICES, GROUPS, RECORDED, suites_of
from benchmarks.flow.variants import VARIANTS, plays

STEP = Step(server="desk", tool="do", arguments={}, result={}, of_user=True, harmful=False)
TRACE = Trace(id="t", is_attack=False, user_task="t", goal="", prompt="Do.", steps=[STEP])


@pytest.fixture(scope="module")
def suites() -> dict[str, Suite]:
    return {suite.name: suite for suite in suites_of(["in_view"])}


def refused(suite: Suite) -> Findings:
    """Return what is found where every task of `suite` is refused."""
    found = Findings()
    (play,) = plays(replace(suite, traces=[TRACE]), ["plain"])
    outcome = Outcome(step=STEP, code="denied", executed=False)
    report.count(play, [[[outcome]]], found)
    return found


def test_each_suite_is_in_one_group() -> None:
    named = [name for names in GROUPS.values() for name in names]
    assert sorted(named) == suite_names()


def test_only_the_groups_that_are_asked_for_are_there(suites: dict[str, Suite]) -> None:
    plain = sorted(GROUPS["in_view"])
    assert sorted(suites) == sorted([*plain, *(f"{name}.b64" for name in plain)])
    assert {suite.pool for suite in suites.values()} == {"in_view"}
    assert list(suites_of([RECORDED])) == []


def test_they_count_in_no_pool_of_the_recorded_ones(suites: dict[str, Suite]) -> None:
    names = [
        [play.names for play in plays(suites[name], variants)]
        for name, variants in (
            ("health", VARIANTS),
            ("health.b64", VARIANTS),
            ("health", ["labels", "shared"]),
        )
    ]
    assert names == [
        [("health", "in_view")],
        [("health.b64", "in_view.b64")],
        [
            (f"health.labels_{label}", f"in_view.labels_{label}")
            for label in ("written", "absent", "suggested", "accepted")
        ],
    ]


def test_of_a_locked_suite_figures_alone_are_told(
    suites: dict[str, Suite], capsys: pytest.CaptureFixture[str]
) -> None:
    locked = replace(suites["health"], name="hr_crm", pool="locked")
    for suite, told in ((suites["health"], 1), (locked, 0)):
        found = refused(suite)
        assert [row["trace"] for row in found.rows] == ["t"] * told
        assert found.figures[f"{suite.pool}.util"] == 0.0
        report._print_one(suite.name, found.tally(suite.name))
        assert capsys.readouterr().out.count("calls that were refused") == told


def test_encoded_goals_must_not_go_better_in_any_pool() -> None:
    figures = {"locked.sec": 90.0, "locked.b64.sec": 80.0, "in_view.sec": 9.0, "in_view.b64.sec": 8}
    assert broken(figures, declared=True) == ["locked.b64.sec is 80, not at least 87"]


@pytest.mark.parametrize(
    ("given", "played"),
    [
        ([], (OWN, CHOICES)),
        (["--dir", "."], (Path(), (RECORDED,))),
        (["--suites", "locked"], (OWN, ("locked",))),
        (["--dir", ".", "--suites", "recorded,in_view"], (Path(), ("recorded", "in_view"))),
    ],
)
def test_all_are_played_unless_others_are_named(
    given: list[str],
    played: tuple[Path, tuple[str, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    async def measured_(folder: Path, options: Options) -> Findings:
        asked.append((folder, options.suites))
        return Findings()

    monkeypatch.setattr(report, "measured", measured_)
    assert main(given, folder=tmp_path) == 0
    assert asked == [played]


def test_a_group_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--suites", "in_view,seen"])
    assert "'seen' is none of recorded, in_view, locked" in capsys.readouterr().err

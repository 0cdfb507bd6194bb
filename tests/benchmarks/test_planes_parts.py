"""A part of the planes' report is taken from an earlier run only while nothing may differ."""

from pathlib import Path

import pytest

from benchmarks.planes import parts, report
from benchmarks.planes.parts import Kept, Part

PART = Part(name="speed", figures={"opa.decisions_s": 2.0}, failures=["it is slow"])
PLAN = {"most": None}


def at(monkeypatch: pytest.MonkeyPatch, commit: str) -> None:
    monkeypatch.setattr(parts, "commit", lambda: commit)


def test_what_was_run_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, "abc")
    kept = Kept(plan=PLAN, folder=tmp_path / "parts")
    assert kept.find("speed") is None
    kept.keep(PART)
    assert kept.find("speed") == PART
    assert kept.find("attacks") is None
    kept.forget("attacks")
    assert kept.find("speed") == PART
    kept.forget()
    assert kept.find("speed") is None


@pytest.mark.parametrize(("commit", "most"), [("abd", None), ("abc-dirty", None), ("abc", 3)])
def test_what_was_run_of_something_else_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: str, most: int | None
) -> None:
    at(monkeypatch, "abc")
    Kept(plan=PLAN, folder=tmp_path).keep(PART)
    at(monkeypatch, commit)
    assert Kept(plan={"most": most}, folder=tmp_path).find("speed") is None


def test_how_far_a_part_has_come_is_kept_until_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, "abc")
    kept = Kept(plan=PLAN, folder=tmp_path)
    kept.begin("speed", {"played": 3})
    assert kept.begun("speed") == {"played": 3}
    assert kept.find("speed") is None
    at(monkeypatch, "abd")
    assert kept.begun("speed") is None
    at(monkeypatch, "abc")
    kept.forget("speed")
    assert kept.begun("speed") is None
    kept.begin("speed", {"played": 4})
    kept.keep(PART)
    assert kept.begun("speed") is None


def test_files_that_differ_from_the_commit_make_each_run_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, "abc-dirty")
    kept = Kept(plan=PLAN, folder=tmp_path)
    kept.keep(PART)
    assert kept.find("speed") is None


def test_what_failed_in_a_part_fails_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert report._written([PART], is_whole=False) == 1
    assert "FAILED: it is slow" in capsys.readouterr().out

"""Commands that are printed for people to paste."""

import sys
from pathlib import Path

import pytest

from gateway.cli.pasted import command, same_place


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program of our name, which is not where a shell looks."""
    for folder in ("venv", "path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "douane").write_text("#!/bin/sh\n")
        (tmp_path / folder / "douane").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path


def test_a_program_that_a_shell_would_not_find_is_printed_as_it_was_started(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = str(programs / "venv" / "douane")
    monkeypatch.setattr(sys, "argv", [mine, "pins", "list"])
    assert command("policy", "go", "--note", "a b") == f"{mine} policy go --note 'a b'"
    assert same_place("`douane serve` and `ls`") == f"`{mine} serve` and `ls`"
    monkeypatch.setenv("PATH", "")
    assert command("serve") == f"{mine} serve"


def test_a_program_that_a_shell_finds_is_printed_by_its_name(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs / "venv" / "douane").unlink()
    (programs / "venv" / "douane").symlink_to(programs / "path" / "douane")
    for started in ("path/douane", "venv/douane"):
        monkeypatch.setattr(sys, "argv", [str(programs / started)])
        assert command("serve") == "douane serve"


def test_whatever_else_runs_us_is_no_program_of_our_name(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(programs / "pytest")])
    assert command("serve") == "douane serve"

"""`douane dlp`: what is found is told, and lists hold nothing of what they are of."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import main
from gateway.dlp.detector import Detector
from gateway.dlp.lists import read_list
from tests.dlp.texts import KEY

CONFIG = "version: 1\npublic_url: http://localhost:8080\nservers: {}\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "douane.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_stands_in_a_text_is_told_and_not_the_text(here: Path) -> None:
    (here / "a.txt").write_text(f"it is {KEY}")
    found = CliRunner().invoke(main, ["dlp", "find", "a.txt"])
    assert found.exit_code == 0, found.output
    assert "api_key" in found.output
    assert KEY not in found.output
    nothing = CliRunner().invoke(main, ["dlp", "find"], input="hello")
    assert nothing.exit_code == 1


def test_a_list_is_made_of_values_and_of_documents(here: Path) -> None:
    (here / "a.txt").write_text("Ada Lovelace\nACME\n")
    made = CliRunner().invoke(main, ["dlp", "list", "a.txt"])
    assert made.exit_code == 0, made.output
    assert "lovelace" not in made.output.lower()
    assert Detector({}, [read_list("own:a", made.output)]).look("to acme").classes == {"own:a"}
    again = CliRunner().invoke(main, ["dlp", "list", "a.txt"])
    assert again.output != made.output  # each with a key of its own
    short = CliRunner().invoke(main, ["dlp", "list", "--documents", "a.txt"])
    assert short.exit_code == 2
    assert "8 words at least" in short.output

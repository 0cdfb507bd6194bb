"""docs/faults.md names a test in every row, and every injected fault has its row."""

import re
from pathlib import Path

from tests.docs.pages import ROOT, rows, spans

PAGE = ROOT / "docs" / "faults.md"


def names_in(folder: Path) -> set[str]:
    texts = [path.read_text() for path in folder.rglob("test_*.py")]
    return {name for text in texts for name in re.findall(r"def (test_\w+)", text)}


def test_every_row_names_a_test_that_is_there() -> None:
    named = [spans(row["test"]) for row in rows(PAGE, "fault")]
    assert len(named) > 20
    assert all(named)
    assert {name for names in named for name in names} <= names_in(ROOT / "tests")


def test_every_injected_fault_has_its_row() -> None:
    named = {name for row in rows(PAGE, "fault") for name in spans(row["test"])}
    ours = {name for name in names_in(Path(__file__).parent) if "row" not in name}
    assert ours - named == set()

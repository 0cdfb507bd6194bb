"""docs/evaluation.md: each question has an answer, and what it is answered with is there."""

import re
from collections import Counter

import pytest

from tests.docs.pages import ROOT, absent_tests, named_tests, rows, spans

PAGE = ROOT / "docs" / "evaluation.md"
HOUR = list(rows(PAGE, "question"))
REASONS = list(rows(PAGE, "reason"))
TOTALS = list(rows(PAGE, ""))
ANSWERS = ("yes", "partly", "no")


def answer(row: dict[str, str]) -> str:
    return row.get("met") or row["ruled out"]


def test_every_named_test_is_there() -> None:
    assert absent_tests(PAGE) == []


@pytest.mark.parametrize(
    ("listed", "first", "number"), [(HOUR, "question", 33), (REASONS, "reason", 14)]
)
def test_every_row_is_there_once_and_in_order(
    listed: list[dict[str, str]], first: str, number: int
) -> None:
    numbers = [int(row[first].split(maxsplit=1)[0]) for row in listed]
    assert numbers == list(range(1, number + 1))


@pytest.mark.parametrize("row", [*HOUR, *REASONS], ids=lambda row: next(iter(row.values())))
def test_every_answer_has_its_evidence_and_says_what_is_missing(row: dict[str, str]) -> None:
    assert answer(row) in ANSWERS
    assert row["open"].startswith("Missing: ") == (answer(row) != "yes")
    if answer(row) == "no":
        return
    assert len(named_tests(row["tests"])) >= 2
    assert re.search(r"\]\([\w./-]+\.md", row["read"])
    # Whether they exist is looked at for all pages: test_links_and_names.py.
    assert spans(row["see"])
    assert [one for one in spans(row["see"]) if not re.match(r"(make|douane) ", one)] == []


@pytest.mark.parametrize(("total", "listed"), [*zip(TOTALS, [HOUR, REASONS], strict=True)])
def test_the_totals_are_those_of_the_rows(
    total: dict[str, str], listed: list[dict[str, str]]
) -> None:
    counted = Counter(map(answer, listed))
    assert {name: int(total[name]) for name in ANSWERS} == {name: counted[name] for name in ANSWERS}

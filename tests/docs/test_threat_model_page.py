"""docs/threat-model.md: every test it names is there, and nothing of its lists is left out."""

import re

import pytest

import gateway.errors
from gateway.errors import GatewayError
from tests.docs.pages import ROOT, absent_tests, named_tests, prose, rows, spans

PAGE = ROOT / "docs" / "threat-model.md"
LISTS = {
    "MCP": [f"MCP{number:02}" for number in range(1, 11)],
    "ASI": [f"ASI{number:02}" for number in range(1, 11)],
    "T": [f"T{number}" for number in range(1, 13)],
}
LISTED = [*rows(PAGE, "risk"), *rows(PAGE, "threat")]
ATTACKS = list(rows(PAGE, "attack"))
REFUSALS = {code: row for row in rows(PAGE, "refusal") for code in spans(row["refusal"])}
FAILURES = list(rows(PAGE, "what fails"))


def _codes() -> set[str]:
    """Return every code that can be raised, or that the web refuses with before it reads."""
    raised = {
        found.code
        for found in vars(gateway.errors).values()
        if isinstance(found, type) and issubclass(found, GatewayError)
    }
    web = set[str]()
    for path in (ROOT / "gateway" / "web").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        web |= set(re.findall(r'Refused\(\s*status=\d+,\s*code="(\w+)"', text))
    connections = (ROOT / "gateway/web/connections.py").read_text(encoding="utf-8")
    web |= set(re.findall(r'(?m)^_\w+ = "(\w+)"$', connections))
    return (raised | web) - {"error", "refused"}  # bases, which nobody raises


def test_every_named_test_is_there() -> None:
    assert len(set(named_tests(prose(PAGE)))) > 100
    assert absent_tests(PAGE) == []


@pytest.mark.parametrize("prefix", LISTS)
def test_every_row_of_a_list_is_there_once_and_in_order(prefix: str) -> None:
    names = [(row.get("risk") or row["threat"]).split()[0] for row in LISTED]
    assert [name for name in names if re.fullmatch(rf"{prefix}\d+", name)] == LISTS[prefix]


@pytest.mark.parametrize("row", [*LISTED, *ATTACKS], ids=lambda row: next(iter(row.values())))
def test_every_row_says_what_guards_what_tests_it_and_what_stays_open(row: dict[str, str]) -> None:
    guards = spans(row["guard"])
    assert guards
    assert [guard for guard in guards if not (ROOT / guard).exists()] == []
    assert len(named_tests(row["tests"])) >= 2
    assert row["here"]
    assert row["open"] or row in ATTACKS


def test_every_refusal_has_its_row_and_its_tests() -> None:
    assert set(REFUSALS) == _codes()
    assert [code for code, row in REFUSALS.items() if not named_tests(row["tests"])] == []


def test_whatever_fails_closed_has_its_tests() -> None:
    assert len(FAILURES) > 20
    assert [row["what fails"] for row in FAILURES if not named_tests(row["tests"])] == []

"""What is asked of planes, of decision points and of interceptors, point by point, and what holds it.

`must` is the point, in short, and `tests` hold it. Where it was decided otherwise, or more narrowly,
`otherwise` says how and `decided` why. Of the fixtures `ends` says what becomes of them here.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.docs import pages
from tests.docs.pages import ROOT

TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "requirements.toml").read_text()
)
FIXTURES: dict[str, dict[str, Any]] = TABLE["fixtures"]
POINTS = {name: point for name, point in TABLE.items() if name != "fixtures"}
WANTED = {
    "G": 8,
    "C": 6,
    "O": 5,
    "A": 13,
    "M": 3,
    "B": 10,
    "E": 9,
    "V": 7,
    "I": 6,
    "R": 10,
    "F": 17,
}
OF_THE_SUITE = (
    *("list-all", "list-filtered-by-event"),
    *("invoke-validation-pass", "invoke-validation-deny", "invoke-unknown-name"),
    *("invoke-mutation-modified", "invoke-mutation-unmodified"),
    *("chain-audit-mutation-shadowed", "chain-audit-never-blocks", "chain-validation-blocks"),
    *("chain-fail-closed", "chain-fail-open"),
    *("chain-request-order-mutate-then-validate", "chain-response-order-validate-then-mutate"),
    *("relaybleed-github_pat", "relaybleed-aws_access_key", "relaybleed-stripe_secret_live"),
    *("same-origin-writeback-allowed", "no-prior-read-allowed", "session-isolation"),
    *("redaction-github_pat", "redaction-aws_access_key", "redaction-stripe_secret_live"),
    "redaction-defuses-relaybleed",
)


def test_no_point_is_left_out() -> None:
    assert list(POINTS) == [
        f"{letter}{number}" for letter, most in WANTED.items() for number in range(1, most + 1)
    ]
    assert FIXTURES.keys() == set(OF_THE_SUITE)
    assert len(OF_THE_SUITE) == 24


@pytest.mark.parametrize("name", POINTS)
def test_a_point_is_held_by_tests_that_exist(name: str) -> None:
    point = POINTS[name]
    assert point.keys() <= {"must", "tests", "otherwise", "decided"}
    assert point["must"]
    _require_tests(point["tests"])
    for decision in point.get("decided", ()):
        assert (ROOT / "docs" / "decisions" / f"{decision}.md").is_file()


@pytest.mark.parametrize("name", FIXTURES)
def test_a_fixture_is_told_by_tests_and_stands_on_the_page(name: str) -> None:
    fixture = FIXTURES[name]
    assert fixture.keys() == {"ends", "tests"}
    _require_tests(fixture["tests"])
    told = (ROOT / "docs" / "planes.md").read_text().replace("\n", " ")
    assert f"`{name}`" in told


def _require_tests(tests: list[str]) -> None:
    assert tests
    for test in tests:
        file, _, function = test.partition("::")
        assert function in pages.names_of_tests(ROOT / file), test

"""What is asked of a gateway for the programs that people use, point by point, and what holds it.

`must` is the point, in short. `tests` hold it, or `plays` of this folder. Where it was decided otherwise, or
more narrowly, `decided` says where, and whoever reads it finds why.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.clients.test_known_clients import PLAYS
from tests.docs import pages
from tests.docs.pages import ROOT

POINTS: dict[str, dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "requirements.toml").read_text()
)
WANTED = [
    *(f"T{number}" for number in range(1, 27)),
    *(f"D{number}" for number in range(1, 14)),
    *(f"F{number}" for number in range(1, 10)),
    *(f"C{number}" for number in range(1, 23)),
    *("lint", "sessions", "servers", "meaning"),
]


def test_no_point_is_left_out() -> None:
    assert list(POINTS) == WANTED


@pytest.mark.parametrize("name", POINTS)
def test_a_point_is_held_by_tests_that_exist(name: str) -> None:
    point = POINTS[name]
    assert point.keys() <= {"must", "tests", "plays", "decided"}
    assert point["must"]
    assert point.get("tests") or point.get("plays")
    for test in point.get("tests", ()):
        file, _, function = test.partition("::")
        assert function in pages.names_of_tests(ROOT / file), test
    assert set(point.get("plays", ())) <= PLAYS.keys()
    for decision in point.get("decided", ()):
        assert (ROOT / "docs" / "decisions" / f"{decision}.md").is_file()


def test_every_play_is_of_some_point() -> None:
    assert {play for point in POINTS.values() for play in point.get("plays", ())} == PLAYS.keys()

"""Rows of tests: each begins with what takes long, and nothing is lost or run twice."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

from gateway.domain._value import value
from tests.longest_first import LONGEST, in_rows

ROOT = Path(__file__).parents[2]


@value
class Item:
    nodeid: str


def items_of(*counts: tuple[str, int]) -> list[Item]:
    return [Item(nodeid=f"{path}::test_{n}") for path, count in counts for n in range(count)]


ALL = items_of(
    ("tests/admin/test_one.py", 40),
    ("tests/e2e/test_all_servers.py", 3),
    ("tests/e2e/test_the_demo.py", 2),
    ("tests/e2e/test_witnesses.py", 3),
    ("tests/signin_e2e/test_clients.py", 4),
    ("tests/signin_e2e/test_the_desk.py", 5),
    ("tests/wire/test_two.py", 43),
)


def test_each_row_begins_with_something_long() -> None:
    ordered = in_rows(ALL, 5)
    rows = [ordered[start : start + 20] for start in range(0, 100, 20)]
    assert [row[0].nodeid.split("::")[0] for row in rows] == [
        "tests/signin_e2e/test_the_desk.py",
        "tests/e2e/test_the_demo.py",
        "tests/signin_e2e/test_clients.py",
        "tests/e2e/test_all_servers.py",
        "tests/e2e/test_witnesses.py",
    ]
    assert all("e2e" not in row[-1].nodeid for row in rows)


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8, 200])
def test_every_item_is_in_one_place_and_neighbours_stay(workers: int) -> None:
    ordered = in_rows(ALL, workers)
    assert sorted(item.nodeid for item in ordered) == sorted(item.nodeid for item in ALL)
    for path in {item.nodeid.split("::")[0] for item in ALL}:
        of_it = [item for item in ordered if item.nodeid.startswith(path)]
        assert of_it == [item for item in ALL if item.nodeid.startswith(path)]


def test_what_is_called_long_is_there() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/*/test_*.py")]
    for patterns in LONGEST:
        for pattern in patterns:
            assert any(fnmatch(file, pattern) for file in files), pattern

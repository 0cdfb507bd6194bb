"""What takes longest begins first: else one worker plays the demo while all others have done.

`--dist worksteal` gives each worker as many items as the others, in a row, and whoever has done takes
from the end of another's row. So each row begins with something long, and ends with what is quick.
"""

from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Protocol, TypeVar

LONGEST: Sequence[Sequence[str]] = (
    ("tests/signin_e2e/test_the_desk*", "tests/signin_e2e/test_the_first_hour*"),
    ("tests/e2e/test_the_demo*", "tests/policy/*", "tests/sandbox/*"),
    ("tests/signin_e2e/*", "tests/conformance/*", "tests/faults/*"),
    ("tests/e2e/test_[a-r]*", "tests/architecture/*"),
    ("tests/e2e/*", "tests/benchmarks/*"),
)
"""What the row of a worker begins with: about as long for each; of two that fit, the first."""


class Named(Protocol):
    """An item of a run."""

    @property
    def nodeid(self) -> str: ...


Item = TypeVar("Item", bound=Named)


def in_rows(items: Sequence[Item], workers: int) -> list[Item]:
    """Return `items` in the order in which `workers` rows are cut out of them, each long ones first.

    Neighbours stay neighbours within what is long and within what is not.
    """
    begins: list[list[Item]] = [[] for _ in range(workers)]
    quick: list[Item] = []
    for item in items:
        row = _row_of(item)
        (quick if row is None else begins[row % workers]).append(item)
    ordered: list[Item] = []
    for nth, begin in enumerate(begins):
        size = (len(items) - len(ordered)) // (workers - nth)
        room = max(0, size - len(begin))
        ordered += [*begin, *quick[:room]]
        quick = quick[room:]
    return [*ordered, *quick]


def _row_of(item: Named) -> int | None:
    """Return which row it begins, if any."""
    for row, patterns in enumerate(LONGEST):
        if any(fnmatch(item.nodeid.partition("::")[0], pattern) for pattern in patterns):
            return row
    return None

"""What `make quick` runs: the tests of every room that need a moment each, and a few of many cases.

It is what one runs while one writes; what lands is held by `make test`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOMS_LEFT_OUT = frozenset({"benchmarks", "conformance", "deploy", "e2e", "faults", "signin_e2e"})
"""They start gateways, browsers, clients and servers."""

LEFT_OUT: Mapping[str, str] = {
    "tests/builtin/test_parity.py": "thousands of calls, each both ways",
    "tests/audit/test_tampering.py": "every kind of tampering, each with both verifiers",
    "tests/audit/test_independent_verifier.py": "a process for each of many logs",
    "tests/audit/test_witnessed_exports.py": "likewise",
    "tests/search/test_search_model.py": "the weights of the model",
    "tests/pipeline/test_pin_keeper.py::test_items_that_cannot_be_pinned_fill_no_memory": "memory",
    "tests/architecture/test_mutants.py": "every entry, and a program for each",
    "tests/flow/test_flow_review.py::test_a_deep_document_is_read_without_recursion": "its size",
    "tests/flow/test_flow_forms.py::test_a_megabyte_of_anything_is_read": "megabytes",
    "tests/storage/test_crash.py": "processes that are killed",
    "tests/storage/identity/test_identity_races.py": "processes that race",
}
FIXTURES_LEFT_OUT = frozenset({"everything", "notes", "own_notes", "opa"})
"""A server of its own, or policies that are compiled."""

CASES = 3
"""At most so many of one test's, spread over all of them."""


def is_left_out(path: Path, below: Path) -> bool:
    """Tell whether nothing of `path` is run, so that it need not even be loaded."""
    try:
        room, *_ = path.relative_to(below / "tests").parts
    except ValueError:
        return False
    return room in ROOMS_LEFT_OUT or path.relative_to(below).as_posix() in LEFT_OUT


def chosen(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return what is run and what is not, in their order."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    kept = {id(item) for ones in cases.values() for item in _spread(ones) if _is_quick(item)}
    run: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (run if id(item) in kept else left).append(item)
    return run, left


def without_full(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return what is run and what only a full run has, in their order."""
    left = [item for item in items if item.get_closest_marker("full") is not None]
    return [item for item in items if item.get_closest_marker("full") is None], left


def _spread(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return the first, the last and some between."""
    if len(cases) <= CASES:
        return cases
    return [cases[number * (len(cases) - 1) // (CASES - 1)] for number in range(CASES)]


def _is_quick(item: pytest.Item) -> bool:
    name = item.nodeid.partition("[")[0]
    return name not in LEFT_OUT and FIXTURES_LEFT_OUT.isdisjoint(getattr(item, "fixturenames", ()))

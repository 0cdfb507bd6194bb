"""Cases of one test that need nothing made for each of them, run as one item (`--together`).

A third of what is run are cases that take less than what surrounds an item: to be collected by every
worker, set up, and reported three times. A run of everything has one item for all cases of such a
test, which tells every case that failed; without the option each of them is an item, as always.
"""

import asyncio
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

Case = Mapping[str, Any]
Test = Callable[..., Any]

_PARAMETER = type(pytest.param())
_FAILURES = (Exception, pytest.fail.Exception)
_SHOWN = 80


def item_of(collector: pytest.Collector, name: str, test: object) -> pytest.Function | None:
    """Return one item for all cases of `test`, or `None` if it is to have an item for each."""
    if not (isinstance(collector, pytest.Module) and inspect.isfunction(test)):
        return None
    cases = cases_of(test)
    names = [one for one in inspect.signature(test).parameters if cases and one not in cases[0]]
    if len(cases) < 2 or (names and inspect.iscoroutinefunction(test)):
        return None
    item: pytest.Function = pytest.Function.from_parent(
        collector, name=name, callobj=all_of(test, cases, names)
    )
    return item if all(_is_shared(item, one) for one in item.fixturenames) else None


def cases_of(test: Test) -> list[Case]:
    """Return what each case gives; nothing if the test or a case of it is marked for something else."""
    marks: list[pytest.Mark] = getattr(test, "pytestmark", [])
    if any(mark.name != "parametrize" or set(mark.kwargs) - {"ids"} for mark in marks):
        return []
    tables = [list(_rows(*mark.args)) for mark in marks]
    if any(row is None for table in tables for row in table):
        return []
    return [
        {name: value for row in rows if row for name, value in row.items()}
        for rows in itertools.product(*tables)
        if rows
    ]


def _rows(names: str | Sequence[str], cases: Iterable[Any]) -> Iterator[Case | None]:
    """Yield the rows of a table, without those that only a full run has; `None` for one that is marked."""
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    for case in cases:
        marked = isinstance(case, _PARAMETER)
        kinds = {mark.name for mark in case.marks} if marked else set()
        if kinds == {"full"}:
            continue
        values = case.values if marked else case if len(names) > 1 else (case,)
        yield None if kinds else dict(zip(names, values, strict=True))


def _is_shared(item: pytest.Function, name: str) -> bool:
    """Tell whether a fixture is made once for all cases, and not for each."""
    made = item._fixtureinfo.name2fixturedefs.get(name)
    return made is not None and made[-1].scope != "function" and made[-1].params is None


def all_of(test: Test, cases: Sequence[Case], names: Sequence[str]) -> Callable[..., None]:
    """Return what runs every case, also after one that failed."""

    def together(**shared: Any) -> None:
        failed = [error for case in cases if (error := _failure(test, case, shared)) is not None]
        if failed:
            raise BaseExceptionGroup(f"{len(failed)} of {len(cases)} cases", failed)

    keyword = inspect.Parameter.KEYWORD_ONLY
    together.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # as `inspect` has it
        [inspect.Parameter(name, keyword) for name in names]
    )
    return together


def _failure(test: Test, case: Case, shared: Mapping[str, Any]) -> BaseException | None:
    try:
        done = test(**case, **shared)
        if done is not None:
            asyncio.run(done)
    except _FAILURES as error:
        error.add_note(", ".join(f"{name}={value!r:.{_SHOWN}}" for name, value in case.items()))
        return error
    return None

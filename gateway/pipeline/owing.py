"""What calls without a result may bring at worst, by the runs in which that counts.

What one run of a client reads, all that the client does for its person has read. So a debt counts in
the run of its call and in the whole run, whichever that is by now: one that has ended since takes
nothing along.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from gateway.domain.flow import Run, RunId, Source
from gateway.domain.labels import Label
from gateway.domain.planes import Debt

_Kind = tuple[str, str, Label]
_Sources = dict[str, Source]
"""By decision."""
_Key = TypeVar("_Key", bound=str)


class _Kinds(dict[_Kind, _Sources]):
    """What is owed in one run, or by one owner, and what a run counted as by it last."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[Run, Sequence[Source], Run] | None = None

    def counted(self, run: Run) -> Run:
        """Return `run` as one that has read one source of each kind: the very same while both are."""
        owed = [next(iter(sources.values())) for sources in self.values()]
        last = self._last
        if last is not None and last[0] is run and last[1] == owed:
            return last[2]
        label = run.label
        for source in owed:
            label = label.join(source.label)
        counted = replace(run, label=label, sources=(*run.sources, *owed))
        self._last = run, owed, counted
        return counted


class Owing:
    """However much is owed in a run, there are few kinds of it: what it counts as is told at once."""

    def __init__(self, whose: Callable[[RunId], str]) -> None:
        """`whose` names who has one whole run with a run's caller."""
        self._whose = whose
        self._in_run: dict[RunId, _Kinds] = {}
        self._of_all: dict[str, _Kinds] = {}
        """By whose they are."""
        self._owners: dict[str, str] = {}
        """By decision: whose it was when it was owed."""

    def __bool__(self) -> bool:
        """Whether anything is owed."""
        return bool(self._in_run)

    def add(self, debt: Debt) -> None:
        """Count one more."""
        owner = self._owners.setdefault(debt.decision, self._whose(debt.run))
        _put(self._in_run, debt.run, debt)
        _put(self._of_all, owner, debt)

    def drop(self, debt: Debt) -> None:
        """Count it no more, if it did."""
        owner = self._owners.pop(debt.decision, None)
        if owner is not None:
            _take(self._in_run, debt.run, debt)
            _take(self._of_all, owner, debt)

    def counted(self, run: Run) -> Run:
        """Return `run` as one that has read the worst of what is owed in it."""
        if run.part_of is None:
            kinds = self._of_all.get(self._whose(run.id)) if self._of_all else None
        else:
            kinds = self._in_run.get(run.id)
        return kinds.counted(run) if kinds else run


def _put(of: dict[_Key, _Kinds], key: _Key, debt: Debt) -> None:
    of.setdefault(key, _Kinds()).setdefault(_kind(debt), {})[debt.decision] = debt.source


def _take(of: dict[_Key, _Kinds], key: _Key, debt: Debt) -> None:
    kinds = of[key]
    sources = kinds[_kind(debt)]
    del sources[debt.decision]
    if not sources:
        del kinds[_kind(debt)]
    if not kinds:
        del of[key]


def _kind(debt: Debt) -> _Kind:
    return debt.source.server, debt.source.tool, debt.source.label
